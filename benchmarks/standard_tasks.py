"""Our PPO on tasks with published results: ten seeds each, trained, evaluated and tabulated by one command.

    python benchmarks/standard_tasks.py --out docs/results/standard_tasks.md
    python benchmarks/standard_tasks.py --tasks FrozenLake-v1 Pendulum-v1 --seeds 3

Two numbers per seed: the mean return of the last 100 training episodes, sampled actions (what CleanRL publishes), and
the mean of 100 episodes of the final deterministic policy (what RL Baselines3 Zoo publishes, one run each). Of both the
table gives mean, median and interquartile mean over the seeds; with few seeds of which one failed, these differ.
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

from benchmarks.command import run_script
from benchmarks.report import heading, publish, table
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.trainers import train
from sparring.configs.load import load
from sparring.eval.episodes import play
from sparring.eval.stats.aggregate import mean_estimate, spread

EPISODES = 100
RESAMPLES = 10_000
MEASURES = ("last 100 training episodes", "deterministic policy")
HEAD = ["task", "steps", "measure", "mean", "median", "IQM", "95 % of IQM", "lowest", "published"]
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
    """One task: the options of the run that trains it, and published results. `name` is the id, or a variant's."""

    name: str
    options: tuple[str, ...]
    zoo: Published | None = None
    cleanrl: Published | None = None
    id: str = ""
    """The environment, if it is not the name."""
    known: str = ""
    """A figure for the deterministic policy that was computed, not published."""


PENDULUM = (
    "+run=gymnasium_continuous",
    "env.num_envs=4",
    "ppo.rollout_steps=1024",
    "ppo.minibatch_size=256",
    "ppo.gamma=0.9",
    "ppo.learning_rate=1e-3",
    "phases.0.updates=73",
)
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
    Task("Pendulum-v1", PENDULUM, Published("-172.2 ± 104.2, gSDE", "100 k")),
    Task(
        "Pendulum-v1-gSDE",
        (*PENDULUM, "network.gsde=true", "ppo.gsde_every=4"),
        Published("-172.2 ± 104.2", "100 k"),
        id="Pendulum-v1",
    ),
    Task("FrozenLake-v1", ("+run=frozen_lake",), known="0.744, the optimum in 100 steps by value iteration"),
    Task("LunarLander-v3", ("+run=lunar_lander",), Published("242.1 ± 31.8, v2", "1 M")),
    Task(
        "Hopper-v5",
        ("+run=gymnasium_continuous",),
        Published("2410 ± 10, v3", "1 M"),
        Published("2382.9 ± 271.7, v4", "1 M"),
    ),
    Task(
        "HalfCheetah-v5",
        ("+run=half_cheetah",),
        Published("5819.1 ± 663.5, v3, tuned", "1 M"),
        Published("1442.6 ± 46.0, v4", "1 M"),
    ),
    Task("InvertedPendulum-v5", ("+run=inverted_pendulum",), None, Published("963.1 ± 22.2, v4", "1 M")),
)


def main() -> int:
    args = parse()
    rows = []
    for task in (task for task in TASKS if task.name in args.tasks):
        started = time.perf_counter()
        results = np.array([result(task, seed, args) for seed in range(1, args.seeds + 1)])
        minutes = (time.perf_counter() - started) / 60.0 / args.seeds
        rows += task_rows(task, results)
        print(*rows[-2:], f"{minutes:.1f} min per seed", sep="\n", flush=True)
    title = heading("Standard tasks", ("torch", "gymnasium"))
    about = (
        f"{args.seeds} seeds: mean and 95 % t-interval, median, interquartile mean (IQM) with its 95 % bootstrap "
        f"interval over seeds, and the lowest seed. {SOURCES}"
    )
    publish(f"{title}\n{about}\n\n{table(HEAD, rows)}", args.out)
    return 0


def task_rows(task: Task, results: np.ndarray) -> list[list[str]]:
    """Return a row per measure of `results` [seeds, 3], as `result` returns them."""
    published = (f"CleanRL {task.cleanrl}" if task.cleanrl else "", f"SB3 zoo {task.zoo}" if task.zoo else task.known)
    steps = f"{results[0, 2] / 1000.0:,.0f} k"
    return [
        [task.name, steps, measure, *summary(results[:, column]), published[column]]
        for column, measure in enumerate(MEASURES)
    ]


def summary(values: np.ndarray) -> list[str]:
    """Return mean with its t-interval, median, IQM, the bootstrap interval of the IQM, and the lowest of `values`."""
    digits = 3 if np.abs(values).max() < 10.0 else 1
    mean, iqm = mean_estimate(values), spread(values[None], 0, RESAMPLES).iqm
    numbers = (np.median(values), iqm.value)
    low, high = iqm.interval
    return [
        f"{mean.value:.{digits}f} ± {mean.interval[1] - mean.value:.{digits}f}",
        *(f"{number:.{digits}f}" for number in numbers),
        f"{low:.{digits}f} to {high:.{digits}f}",
        f"{values.min():.{digits}f}",
    ]


def parse() -> argparse.Namespace:
    names = [task.name for task in TASKS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", choices=names, default=names, metavar="ID", help=", ".join(names))
    parser.add_argument("--seeds", type=int, default=10, help="runs per task, seeds 1 to N")
    parser.add_argument("--folder", default="checkpoints/standard_tasks", help="where the runs are kept")
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    parser.add_argument("overrides", nargs="*", help="options of train.py for all, such as ppo.precision=bf16")
    args = parser.parse_intermixed_args()
    if args.seeds < 2:
        parser.error(f"--seeds={args.seeds}: an interval needs at least 2")
    return args


def result(task: Task, seed: int, args: argparse.Namespace) -> tuple[float, float, float]:
    """Train or resume one seed; return (recent training return, deterministic return, steps)."""
    place = [f"checkpoint_dir={args.folder}", f"name={task.name}-{seed}", "threads=1", "checkpoint_every=100000"]
    final = train(load([*task.options, f"env.id={task.id or task.name}", f"seed={seed}", *place, *args.overrides]))
    checkpoint = load_checkpoint(final)
    deterministic = play(checkpoint, EPISODES, 1000 + seed)[:, 0].mean()
    return checkpoint.training["recent_return"], float(deterministic), checkpoint.training["env_steps"]


if __name__ == "__main__":
    sys.exit(run_script(main))
