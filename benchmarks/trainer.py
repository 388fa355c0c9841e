"""Speed of trainers: ours, Stable-Baselines3's PPO and a plain single-file loop, on the same dogfight.

All play the same 256 matches against all five bots through the same `Duel`, 128 steps an update, four epochs of
minibatches of 8,192, two layers of 256. Contestants run in turns, each time in their own process with its own peak
memory, and medians count. The floor is the cost of the matrix products that all of them need: acting once, values once,
and forward and backward for every sample of every epoch.

    python benchmarks/trainer.py --updates 8 --rounds 3
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.command import run_script
from benchmarks.report import heading, publish, table
from sparring.configs.load import load_kind
from sparring.configs.schema import PPORunConfig

WARM_UP = 2
"""Number of warm-up updates, which do not count."""
OPTIONS = (
    "env.num_envs=256",
    "env.mirror=false",
    "ppo.rollout_steps=128",
    "ppo.epochs=4",
    "ppo.minibatch_size=8192",
    "ppo.target_kl=0",
    "ppo.warmup_updates=0",
    "network.hidden=256",
    "phases.0.randomization=[]",
    "phases.0.stages=[{bots:[do_nothing,dogfighter,chaser,ace,brawler]}]",
    "checkpoint_every=1000000",
    "logger.progress=false",
)
COLUMNS = ("trainer", "steps/s", "to SB3", "of the floor", "simulate s", "act s", "learn s", "rest s", "peak MiB")
Parts = dict[str, float]
"""Seconds of one update, by part."""


def main() -> int:
    args = parse()
    if args.alone:
        print(json.dumps(measure_alone(args.alone, args)))
        return 0
    names = ["ours fp32", *(["ours bf16"] if has_bf16() else []), "SB3", "plain loop", "floor"]
    found: dict[str, list[Parts]] = {name: [] for name in names}
    for number in range(args.rounds):
        for name in names:
            print(f"round {number + 1} of {args.rounds}: {name}", file=sys.stderr)
            found[name].append(in_its_own_process(name, args))
    medians = {name: middle(runs) for name, runs in found.items()}
    title = heading("Trainers on the same dogfight: seconds per update of 32,768 steps", ("torch", "stable-baselines3"))
    publish(f"{title}\n{table(COLUMNS, [row(name, medians) for name in names])}", args.out)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--updates", type=int, default=8, help="updates measured in each round, after the warm-up")
    parser.add_argument("--rounds", type=int, default=3, help="how often each contestant has its turn")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads of every contestant")
    parser.add_argument("--alone", choices=list(CONTESTANTS), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    args = parser.parse_args()
    for name in ("updates", "rounds", "threads"):
        if getattr(args, name) < 1:
            parser.error(f"--{name}={getattr(args, name)}: must be at least 1")
    return args


def in_its_own_process(name: str, args: argparse.Namespace) -> Parts:
    """Run one contestant in another process of this script; return its medians."""
    options = [f"--{key}={getattr(args, key)}" for key in ("updates", "threads")]
    command = [sys.executable, __file__, "--alone", name, *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    parts: Parts = json.loads(done.stdout.splitlines()[-1])
    return parts


def measure_alone(name: str, args: argparse.Namespace) -> Parts:
    """Return medians over the updates after the warm-up, and this process's peak memory in MiB."""
    with tempfile.TemporaryDirectory() as folder:
        place = [f"threads={args.threads}", f"max_updates={WARM_UP + args.updates}", f"checkpoint_dir={folder}"]
        updates = CONTESTANTS[name]([*OPTIONS, *place])[WARM_UP:]
    return middle(updates) | {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0}


def middle(rows: list[Parts]) -> Parts:
    """Return the median of every part."""
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def row(name: str, medians: dict[str, Parts]) -> list[str]:
    """Return one contestant's row of the table."""
    parts = medians[name]
    ratio, floor = medians["SB3"]["total"] / parts["total"], medians["floor"]["total"] / parts["total"]
    rest = parts["total"] - parts["simulate"] - parts["act"] - parts["learn"]
    seconds = [f"{parts[key]:.2f}" for key in ("simulate", "act", "learn")]
    speed = f"{parts['steps'] / parts['total']:,.0f}"
    return [name, speed, f"{ratio:.2f}", f"{floor:.0%}", *seconds, f"{rest:.2f}", f"{parts['peak']:.0f}"]


def configuration(options: list[str], *extra: str) -> PPORunConfig:
    """Return those of bots_only: its rewards and options, at the sizes of this comparison."""
    return load_kind(PPORunConfig, ["+run=bots_only", *options, *extra])


def samples(config: PPORunConfig) -> int:
    """Return the steps of all matches in one update."""
    return config.ppo.rollout_steps * config.env.num_envs


def ours(options: list[str], precision: str) -> list[Parts]:
    """Our trainer as people start it; the parts are its own `time/*`."""
    from sparring.agents.trainers import train

    config = configuration(options, f"ppo.precision={precision}")
    final = train(config)
    lines = map(json.loads, (final.parent / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [own_parts(row, samples(config)) for row in lines if "time/steps_per_second" in row]


def own_parts(update: dict[str, float], steps: int) -> Parts:
    """Return the seconds of an update from its metrics."""
    total = steps / update["time/steps_per_second"]
    simulate = update["time/simulator_share"] * total
    act, learn = update["time/rollout_seconds"] - simulate, update["time/update_seconds"]
    return {"steps": steps, "total": total, "simulate": simulate, "act": act, "learn": learn}


def sb3(options: list[str]) -> list[Parts]:
    """Time SB3's PPO on the `VecEnv` of `agents/baselines/sb3.py`, at its callbacks."""
    from sparring.agents.baselines.sb3 import Curriculum, make_model
    from sparring.agents.ppo.trainer import PPOTrainer
    from sparring.agents.run.session import RunSession

    class Timed(Curriculum):
        """Callback that records the start and end of rollouts."""

        def __init__(self, trainer: PPOTrainer) -> None:
            super().__init__(trainer)
            self.times: list[tuple[float, float, float]] = []

        def _on_rollout_start(self) -> None:
            self.started, trainer.task.env.simulator_seconds = time.perf_counter(), 0.0
            super()._on_rollout_start()

        def _on_rollout_end(self) -> None:
            self.times.append((self.started, time.perf_counter(), trainer.task.env.simulator_seconds))
            super()._on_rollout_end()

    config = configuration(options, "ppo.precision=fp32")
    with closing(PPOTrainer(config)) as trainer, RunSession(config, total=trainer.updates) as session:
        trainer.restore_or_init(session)
        timed = Timed(trainer)
        make_model(trainer).learn(trainer.updates * trainer.steps_per_update, callback=timed)
        ends = [started for started, _, _ in timed.times[1:]] + [time.perf_counter()]
    return [
        {
            "steps": samples(config),
            "total": end - started,
            "simulate": s,
            "act": done - started - s,
            "learn": end - done,
        }
        for (started, done, s), end in zip(timed.times, ends, strict=True)
    ]


def plain(options: list[str]) -> list[Parts]:
    """Time the loop of `plain_trainer.py`."""
    import numpy as np

    from benchmarks.plain_trainer import PlainTrainer
    from sparring.agents.ppo.trainer import PPOTrainer
    from sparring.configs.core.device import set_threads

    config = configuration(options, "ppo.precision=fp32")
    ours = PPOTrainer(config)
    set_threads(config.threads)
    ours.task.env.rehearse()
    trainer = PlainTrainer(ours.task.env, config.ppo, config.network.hidden)
    updates = []
    for _ in range(ours.updates):
        started = time.perf_counter()
        parts = trainer.update()
        updates.append(dict(zip(("simulate", "act", "learn"), parts, strict=True)))
        updates[-1] |= {"steps": samples(config), "total": time.perf_counter() - started}
    ours.close()
    assert np.isfinite([update["total"] for update in updates]).all()
    return updates


def floor(options: list[str]) -> list[Parts]:
    """Time the bare matrix products, float32, on all threads: the work that every implementation has to do."""
    import torch

    config = configuration(options)
    torch.set_num_threads(config.threads)
    hidden, n, steps = config.network.hidden, config.env.num_envs, config.ppo.rollout_steps
    act = Products(n, hidden, 3)
    actor, critic = (Products(config.ppo.minibatch_size, hidden, outputs) for outputs in (3, 1))
    passes = config.ppo.epochs * samples(config) // config.ppo.minibatch_size
    updates = []
    for _ in range(config.max_updates):
        acting = seconds(act.forward, steps)
        values = seconds(critic.forward, samples(config) // config.ppo.minibatch_size)
        learning = seconds(actor.both, passes) + seconds(critic.both, passes)
        parts = {"simulate": 0.0, "act": acting + values, "learn": learning}
        updates.append(parts | {"steps": samples(config), "total": sum(parts.values())})
    return updates


class Products:
    """The matrix products of three layers on B rows, forward and backward, into storage made beforehand."""

    def __init__(self, rows: int, hidden: int, outputs: int, inputs: int = 59) -> None:
        import torch

        self.mm = torch.mm
        sizes = (inputs, hidden, hidden, outputs)
        pairs = list(pairwise(sizes))
        self.x = [torch.randn(rows, size) for size in sizes]
        self.d = [torch.randn(rows, size) for size in sizes]
        self.w = [torch.randn(a, b) for a, b in pairs]
        self.dw = [torch.empty_like(w) for w in self.w]

    def forward(self) -> None:
        """Compute x_1 = x_0 w_0 and so on."""
        for i, w in enumerate(self.w):
            self.mm(self.x[i], w, out=self.x[i + 1])

    def both(self) -> None:
        """Compute the forward pass, then the gradients of every weight and of every layer's input but the first."""
        self.forward()
        for i in (2, 1, 0):
            self.mm(self.x[i].T, self.d[i + 1], out=self.dw[i])
            if i > 0:
                self.mm(self.d[i + 1], self.w[i].T, out=self.d[i])


def seconds(work: Callable[[], None], times: int) -> float:
    """Return the seconds that `work` takes, repeated so many times."""
    started = time.perf_counter()
    for _ in range(times):
        work()
    return time.perf_counter() - started


def has_bf16() -> bool:
    """Return whether this CPU multiplies bf16 natively."""
    info = Path("/proc/cpuinfo")
    return info.exists() and any(flag in info.read_text(encoding="utf-8") for flag in ("avx512_bf16", "amx_bf16"))


CONTESTANTS: dict[str, Callable[[list[str]], list[Parts]]] = {
    "ours fp32": lambda options: ours(options, "fp32"),
    "ours bf16": lambda options: ours(options, "bf16"),
    "SB3": sb3,
    "plain loop": plain,
    "floor": floor,
}


if __name__ == "__main__":
    sys.exit(run_script(main))
