"""Our PPO on tasks with published results: ten seeds each, trained, evaluated and tabulated by one command.

    python benchmarks/standard_tasks.py --out docs/results/standard_tasks.md
    python benchmarks/standard_tasks.py --tasks FrozenLake-v1 Pendulum-v1 --seeds 3

Finished seeds are kept in FOLDER/results.jsonl and not repeated. The table shows all of them, whatever was selected,
with the overrides that they were trained with. `--results docs/results/standard_tasks.jsonl` adds to the published
results. Each seed has two numbers. One is the mean return of the last 100 training episodes, sampled actions (what
CleanRL publishes). The other is the mean of 100 episodes of the final deterministic policy (what RL Baselines3 Zoo
publishes, one run each). The table gives mean, median and interquartile mean of both over the seeds; these differ if
one of few seeds failed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

from benchmarks.command import run_script
from benchmarks.report import heading, publish, table
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.trainers import train
from sparring.configs.core.errors import InputError
from sparring.configs.load import load
from sparring.envs.imported.evaluation.episodes import play
from sparring.eval.stats.aggregate import mean_estimate, spread

EPISODES = 100
RESAMPLES = 10_000
STORE = "results.jsonl"
MEASURES = ("last 100 training episodes", "deterministic policy")
HEAD = ["task", "seeds", "steps", "measure", "mean", "median", "IQM", "95 % of IQM", "lowest", "published"]
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
class SeedResult:
    """One trained seed: mean return of the last training episodes, of the deterministic policy, environment steps."""

    task: str
    seed: int
    overrides: list[str]
    recent_return: float
    deterministic_return: float
    steps: int


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
    for task in (task for task in TASKS if task.name in args.tasks):
        done = {one.seed for one in stored(args) if (one.task, one.overrides) == (task.name, args.overrides)}
        for seed in sorted(set(range(1, args.seeds + 1)) - done):
            store(measure(task, seed, args), args)
    rows = [row for task in TASKS for own in groups(task, stored(args)) for row in task_rows(task, own)]
    if not rows:
        raise InputError(f"{args.results}: no task has two finished seeds, so there is nothing to tell; give --seeds 2")
    title = heading("Standard tasks", ("torch", "gymnasium"))
    about = (
        f"Mean and 95 % t-interval over seeds, median, interquartile mean (IQM) with its 95 % bootstrap interval, and "
        f"the lowest seed. {SOURCES}"
    )
    publish(f"{title}\n{about}\n\n{table(HEAD, rows)}", args.out)
    return 0


def groups(task: Task, results: Sequence[SeedResult]) -> list[list[SeedResult]]:
    """Return the results of a task, one list for each set of overrides that has at least two seeds."""
    own = [result for result in results if result.task == task.name]
    lists = [
        [one for one in own if one.overrides == list(key)] for key in dict.fromkeys(tuple(o.overrides) for o in own)
    ]
    return [found for found in lists if len(found) > 1]


def task_rows(task: Task, results: Sequence[SeedResult]) -> list[list[str]]:
    """Return a row per measure of the seeds of one task with equal overrides."""
    published = (f"CleanRL {task.cleanrl}" if task.cleanrl else "", f"SB3 zoo {task.zoo}" if task.zoo else task.known)
    values = [[one.recent_return for one in results], [one.deterministic_return for one in results]]
    name = ", ".join([task.name, *(f"`{override}`" for override in results[0].overrides)])
    about = [name, str(len(results)), f"{results[0].steps / 1000.0:,.0f} k"]
    return [
        [*about, measure, *summary(np.array(own)), source]
        for measure, own, source in zip(MEASURES, values, published, strict=True)
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
    parser.add_argument("--seeds", type=int, default=10, help="runs per task, seeds 1 to N; 0 only writes the table")
    parser.add_argument("--folder", default="checkpoints/standard_tasks", help="where the runs are kept")
    parser.add_argument("--results", type=Path, help="file of finished seeds, instead of FOLDER/results.jsonl")
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    parser.add_argument("overrides", nargs="*", help="options of train.py for all, such as ppo.precision=bf16")
    args = parser.parse_intermixed_args()
    if args.seeds < 0 or args.seeds == 1:
        parser.error(f"--seeds={args.seeds}: give 0 for the table of finished seeds, or 2 or more: one has no interval")
    args.results = args.results or Path(args.folder, STORE)
    return args


def measure(task: Task, seed: int, args: argparse.Namespace) -> SeedResult:
    """Train or resume one seed, and play its final policy."""
    name = "-".join([task.name, str(seed), *(re.sub(r"[^\w.-]+", "_", override) for override in args.overrides)])
    place = [f"checkpoint_dir={args.folder}", f"name={name}", "threads=1", "checkpoint_every=100000"]
    final = train(load([*task.options, f"env.id={task.id or task.name}", f"seed={seed}", *place, *args.overrides]))
    checkpoint = load_checkpoint(final)
    recent, steps = checkpoint.training["recent_return"], checkpoint.training["env_steps"]
    deterministic = float(play(checkpoint, EPISODES, 1000 + seed)[:, 0].mean())
    return SeedResult(task.name, seed, args.overrides, recent, deterministic, steps)


def stored(args: argparse.Namespace) -> list[SeedResult]:
    """Return all finished seeds."""
    lines = args.results.read_text(encoding="utf-8").splitlines() if args.results.exists() else []
    return [SeedResult(**json.loads(line)) for line in lines]


def store(result: SeedResult, args: argparse.Namespace) -> None:
    """Append a finished seed."""
    with args.results.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(result)) + "\n")


if __name__ == "__main__":
    sys.exit(run_script(main))
