"""Games a second of an executor: measured with few workers on this machine, simulated with many.

    python -m benchmarks.workers                       # simulate from benchmarks/workers/tasks.jsonl
    python -m benchmarks.workers --record tasks.jsonl  # play and record tasks with 1, 2 and 4 workers first

The tasks are those of `eval/run.py --env diplomacy`: games of one player against six of another, seven in each.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

from benchmarks.command import run_script
from benchmarks.report import publish, table
from benchmarks.workers.record import record
from benchmarks.workers.simulate import Recording, drawn, read_recording, simulated_s

RECORDED = Path(__file__).parent / "tasks.jsonl"
SIMULATED = (1, 2, 4, 100, 1000)
JOBS = (1000, 10_000)
"""Tasks of the simulated jobs."""


def main() -> int:
    args = parse()
    if args.record:
        record(args.count, args.last_year).write(args.record)
    recording = read_recording(args.record or args.tasks)
    publish(report(recording), args.out)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.workers", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--tasks", type=Path, default=RECORDED, help="recorded tasks to simulate with")
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="play tasks, write them there, and simulate with them"
    )
    parser.add_argument("--count", type=int, default=20, help="tasks to record with each number of workers")
    parser.add_argument("--last-year", type=int, default=1904, help="last year of the recorded games")
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    return parser.parse_args()


def report(recording: Recording) -> str:
    """Return both tables."""
    games = recording.tasks[0].games
    measured = [
        [
            str(workers),
            f"{recording.rate(workers):.1f}",
            f"{recording.rate(workers, started=True):.1f}",
            f"{statistics.mean(task.processor for task in recording.of(workers)):.2f}",
        ]
        for workers in sorted({task.workers for task in recording.tasks})
    ]
    simulated = []
    for count in JOBS:
        times = drawn(recording, count)
        costs = {"start": recording.start, "driver": recording.driver}
        alone = simulated_s(times, 1, **costs)
        for workers in SIMULATED:
            seconds = simulated_s(times, workers, **costs)
            share = alone / seconds / workers
            simulated.append(
                [f"{count:,}", f"{workers:,}", f"{seconds:,.0f}", f"{count * games / seconds:,.1f}", f"{share:.0%}"]
            )
    times = sorted(task.processor for task in recording.of(1))
    return "\n".join(
        [
            "# Games a second of an executor\n",
            f"Recorded: {recording.where}; {times[0]:.2f} to {times[-1]:.2f} s of processor time each. A worker needs "
            f"{recording.start:.1f} s of it to start, the driver {recording.driver * 1000:.2f} ms for a task.\n",
            table(("workers, measured", "games / s", "without the start", "processor s per task"), measured),
            table(("tasks", "workers, simulated", "s", "games / s", "of ideal"), simulated),
        ]
    )


if __name__ == "__main__":
    sys.exit(run_script(main, "benchmarks.workers"))
