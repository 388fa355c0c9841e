"""Our PPO on tasks with published results: five seeds each, trained, evaluated and tabulated by one command.

    python benchmarks/standard_tasks.py --out docs/results/standard_tasks.md

Two numbers per seed: the mean return of the last 100 training episodes, sampled actions (what CleanRL publishes), and
the mean of 100 episodes of the final deterministic policy (what RL Baselines3 Zoo publishes, one run each).
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from scipy import stats

from benchmarks.command import run_script
from benchmarks.report import heading, publish, table
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.trainers import train
from sparring.configs.load import load
from sparring.eval.episodes import play

EPISODES = 100
SOURCES = (
    "CleanRL: docs/rl-algorithms/ppo.md and docs/benchmark/ppo_continuous_action.md of vwxyzjn/cleanrl, three seeds, ± "
    "the standard deviation between them. SB3 zoo: benchmark.md of DLR-RM/rl-baselines3-zoo, one run each, ± the "
    "standard deviation between its episodes."
)


@dataclass(frozen=True)
class Published:
    """A published result: mean, spread (the number after +-), and environment steps."""

    text: str
    steps: str

    def __str__(self) -> str:
        return f"{self.text} ({self.steps})"


@dataclass(frozen=True)
class Task:
    """One task: the options of the run that trains it, and published results."""

    id: str
    options: tuple[str, ...]
    zoo: Published
    cleanrl: Published | None = None


TASKS = (
    Task(
        "CartPole-v1",
        ("env=gymnasium",),
        Published("500.0 ± 0.0", "100 k"),
        Published("488.8 ± 18.4", "500 k"),
    ),
    Task(
        "Acrobot-v1",
        ("env=gymnasium",),
        Published("-73.5 ± 18.2", "1 M"),
        Published("-82.5 ± 5.9", "500 k"),
    ),
    Task(
        "Pendulum-v1",
        (
            "+run=gymnasium_continuous",
            "env.num_envs=4",
            "ppo.rollout_steps=1024",
            "ppo.minibatch_size=256",
            "ppo.gamma=0.9",
            "ppo.learning_rate=1e-3",
            "phases.0.updates=73",
        ),
        Published("-172.2 ± 104.2", "100 k"),
    ),
    Task(
        "Hopper-v5",
        ("+run=gymnasium_continuous",),
        Published("2410 ± 10, Hopper-v3", "1 M"),
        Published("2382.9 ± 271.7, Hopper-v4", "1 M"),
    ),
)


def main() -> int:
    args = parse()
    rows = []
    for task in (task for task in TASKS if task.id in args.tasks):
        started = time.perf_counter()
        results = np.array([result(task, seed, args) for seed in range(1, args.seeds + 1)])
        minutes = (time.perf_counter() - started) / 60.0 / args.seeds
        sampled, deterministic = (interval(results[:, column]) for column in (0, 1))
        steps = f"{results[0, 2] / 1000.0:,.0f} k"
        rows.append([task.id, steps, sampled, str(task.cleanrl or ""), deterministic, str(task.zoo), f"{minutes:.1f}"])
        print(rows[-1], flush=True)
    head = ["task", "steps", "last 100 training episodes", "CleanRL", "deterministic policy", "SB3 zoo", "min per seed"]
    title = heading("Standard tasks", ("torch", "gymnasium"))
    about = f"{args.seeds} seeds; mean over seeds and 95 % t-interval. {SOURCES}"
    publish(f"{title}\n{about}\n\n{table(head, rows)}", args.out)
    return 0


def parse() -> argparse.Namespace:
    names = [task.id for task in TASKS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", choices=names, default=names, metavar="ID", help=", ".join(names))
    parser.add_argument("--seeds", type=int, default=5, help="runs per task, seeds 1 to N")
    parser.add_argument("--folder", default="checkpoints/standard_tasks", help="where the runs are kept")
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    parser.add_argument("overrides", nargs="*", help="options of train.py for all, such as ppo.precision=bf16")
    args = parser.parse_intermixed_args()
    if args.seeds < 2:
        parser.error(f"--seeds={args.seeds}: an interval needs at least 2")
    return args


def result(task: Task, seed: int, args: argparse.Namespace) -> tuple[float, float, float]:
    """Train or resume one seed; return (recent training return, deterministic return, steps)."""
    place = [f"checkpoint_dir={args.folder}", f"name={task.id}-{seed}", "threads=1", "checkpoint_every=100000"]
    final = train(load([*task.options, f"env.id={task.id}", f"seed={seed}", *place, *args.overrides]))
    checkpoint = load_checkpoint(final)
    deterministic = play(checkpoint, EPISODES, 1000 + seed)[:, 0].mean()
    return checkpoint.training["recent_return"], float(deterministic), checkpoint.training["env_steps"]


def interval(values: np.ndarray) -> str:
    """Return the mean and half the width of its 95 % t-interval."""
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return f"{values.mean():.1f} ± {half:.1f}"


if __name__ == "__main__":
    sys.exit(run_script(main))
