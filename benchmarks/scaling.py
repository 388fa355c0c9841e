"""Data-parallel training on this machine: one process with one thread against several with one thread each.

Both train the same stretch of a named run, in turns, and every update is timed by the clock and by the processor time
it takes in all processes together. Efficiency by the clock is t(1) / (W t(W)); it means something where every process
has a core for itself. Processor time, c(1) / c(W), leaves out what the processes wait for each other or for a core: it
is what sharing the work costs in work, and the most that efficiency can be.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.command import run_script
from benchmarks.report import heading, publish, table
from benchmarks.training import WARM_UP, settings
from sparring.configs.load import load_kind
from sparring.configs.schema import PPORunConfig

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = ("processes", "s per update", "env steps/s", "processor s per update", "efficiency", "of processor time")
WORKER = """
import sys, json, time
sys.path.insert(0, sys.argv[1])
from sparring.agents.run import fit
from sparring.agents.trainers import train
from benchmarks.command import run_script
from sparring.configs.load import load
update, times = fit._update, []
def timed(*arguments):
    started = time.perf_counter(), time.process_time()
    done = update(*arguments)
    times.append((time.perf_counter() - started[0], time.process_time() - started[1]))
    return done
fit._update = timed
def work():
    train(load(sys.argv[3:]))
    open(sys.argv[2], "w").write(json.dumps(times))
sys.exit(run_script(work, "benchmarks/scaling.py"))
"""
Times = list[tuple[float, float]]
"""Seconds of wall-clock time, and of processor time in all processes, of every update."""


def main() -> int:
    args = parse()
    config = load_kind(PPORunConfig, [f"+run={args.run}", *args.overrides])
    steps = config.ppo.rollout_steps * config.env.num_envs
    sizes = (1, args.processes)
    times: dict[int, Times] = {size: [] for size in sizes}
    for _ in range(args.rounds):
        for size in sizes:
            times[size] += measure(args.run, size, args.updates, args.overrides)
    rows = [row(size, times[size], times[1], steps) for size in sizes]
    title = heading(f"Data-parallel training: {args.run}, one thread per process", ("torch", "warp-lang"))
    publish("\n".join([title, table(COLUMNS, rows)]), args.out)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("overrides", nargs="*", help="options of train.py, such as env.num_envs=4096")
    parser.add_argument("--run", default="quickstart", help="run file to measure")
    parser.add_argument("--processes", type=int, default=2, help="processes to compare with one")
    parser.add_argument("--updates", type=int, default=8, help="updates measured in each turn, after the warm-up")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each")
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    return parser.parse_intermixed_args()


def measure(run: str, size: int, updates: int, overrides: list[str]) -> Times:
    """Train a stretch in `size` processes; return the updates after the warm-up."""
    with tempfile.TemporaryDirectory() as folder:
        options = [f"+run={run}", *settings(folder, updates), "device=cpu", "threads=1", *overrides]
        outs = [Path(folder) / f"{rank}.json" for rank in range(size)]
        port = free_port()
        workers = [start(rank, size, port, out, options) for rank, out in enumerate(outs)]
        codes = [worker.wait() for worker in workers]
        if any(codes):
            raise subprocess.CalledProcessError(next(filter(None, codes)), f"training in {size} processes")
        every = [json.loads(out.read_text()) for out in outs]
    return [(one[0][0], sum(cpu for _, cpu in one)) for one in zip(*every, strict=True)][WARM_UP:]


def start(rank: int, size: int, port: int, out: Path, options: list[str]) -> subprocess.Popen[bytes]:
    shared = {"WORLD_SIZE": str(size), "RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    environment = os.environ | shared | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WORKER, str(ROOT), str(out), *options]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def row(size: int, times: Times, alone: Times, steps: int) -> list[str]:
    """Return medians over the updates, and their ratios to those of one process."""
    clock, work = (statistics.median(column) for column in zip(*times, strict=True))
    clock_1, work_1 = (statistics.median(column) for column in zip(*alone, strict=True))
    numbers = [f"{clock:.2f}", f"{steps / clock:,.0f}", f"{work:.2f}"]
    return [str(size), *numbers, f"{clock_1 / (size * clock):.0%}", f"{work_1 / work:.0%}"]


if __name__ == "__main__":
    sys.exit(run_script(main))
