"""Speed of the whole training loop: env steps per second, and the shares of simulator, acting and learning.

A short stretch of a named run is trained for real into a temporary folder, and its own metrics are read back:
`time/*` of every update but the first few, which still compile, warm up and learn in full precision. Medians count.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import statistics
import sys
import tempfile
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.command import run_script
from benchmarks.report import heading, publish, table
from sparring.configs.load import load_kind
from sparring.configs.schema import PPORunConfig

WARM_UP = 2
"""Number of updates at the start that do not count."""
COLUMNS = ("run", "env steps/s", "s per update", "simulator", "acting", "learning", "rest")


def main() -> int:
    args = parse()
    rows = [measure(run, args.updates, args.overrides) for run in args.runs]
    parts = [heading("Training: env steps per second", ("torch", "warp-lang")), table(COLUMNS, rows)]
    publish("\n".join(parts), args.out)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("overrides", nargs="*", help="options of train.py, such as ppo.precision=fp32 threads=1")
    parser.add_argument("--runs", nargs="+", default=["quickstart"], help="run files to measure")
    parser.add_argument("--updates", type=int, default=8, help="updates measured, after the warm-up")
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    args = parser.parse_intermixed_args()
    if args.updates < 1:
        parser.error(f"--updates={args.updates}: must be at least 1")
    return args


def measure(run: str, updates: int, overrides: list[str]) -> list[str]:
    """Train a stretch of a run and return its row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        config = load_kind(PPORunConfig, [f"+run={run}", *settings(folder, updates), *overrides])
        from sparring.agents.trainers import train  # late, so that bad input is answered before torch and Warp load

        with contextlib.redirect_stdout(io.StringIO()):
            final = train(config)
        measured = read_updates(final.parent / "metrics.jsonl")[WARM_UP:]
    return row(run, measured, steps=config.ppo.rollout_steps * config.env.num_envs)


def settings(folder: str, updates: int) -> list[str]:
    """Return the differences from a real run: few updates, no files kept, final precision from the third update on."""
    return [
        f"max_updates={WARM_UP + updates}",
        f"checkpoint_dir={folder}",
        f"ppo.warmup_updates={WARM_UP}",
        "logger.progress=false",
        "logger.wandb=off",
    ]


def read_updates(path: Path) -> list[dict[str, float]]:
    """Return the metrics of every update of a run."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if "time/steps_per_second" in row]


def row(run: str, updates: list[dict[str, float]], *, steps: int) -> list[str]:
    """Return one run's figures: medians over the updates, the parts as shares of an update's time."""
    speeds = [update["time/steps_per_second"] for update in updates]
    shares = [parts(update, seconds=steps / update["time/steps_per_second"]) for update in updates]
    medians = [statistics.median(column) for column in zip(*shares, strict=True)]
    speed = statistics.median(speeds)
    return [run, f"{speed:,.0f}", f"{steps / speed:.2f}", *(f"{share:.0%}" for share in medians)]


def parts(update: dict[str, float], *, seconds: float) -> tuple[float, float, float, float]:
    """Return the shares of simulator, acting (the rest of the rollout), learning, and everything else."""
    simulator = update["time/simulator_share"]
    acting = update["time/rollout_seconds"] / seconds - simulator
    learning = update["time/update_seconds"] / seconds
    return simulator, acting, learning, 1.0 - simulator - acting - learning


if __name__ == "__main__":
    sys.exit(run_script(main))
