"""Speed of reading recorded runs: `python benchmarks/run_reading.py`.

Writes one million scalars with SummaryWriter, and reads and summarizes them with `TensorBoardFiles` and with
TensorBoard's EventAccumulator without its limit on points; likewise the same numbers as metrics.jsonl. Each reader runs
in a process of its own; memory is the peak of that process, imports included. The last values must agree.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.command import run_script
from benchmarks.report import heading, table

METRICS = 50


def write_logs(folder: Path, rows: int) -> None:
    """Write the same numbers as event files and as a run folder."""
    from torch.utils.tensorboard import SummaryWriter

    generator = random.Random(0)
    events, run = folder / "events", folder / "folders" / "run"
    run.mkdir(parents=True)
    with SummaryWriter(str(events / "run")) as writer, (run / "metrics.jsonl").open("w") as lines:
        for row in range(1, rows + 1):
            values = {f"group{k % 7}/metric_{k}": generator.random() for k in range(METRICS)}
            for key, value in values.items():
                writer.add_scalar(key, value, row * 1024)
            lines.write(json.dumps({"env_steps": row * 1024, **values}, sort_keys=True) + "\n")


def read(reader: str, folder: Path) -> dict[str, float]:
    """Return the last value of each metric."""
    if reader == "EventAccumulator":
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        found = EventAccumulator(str(folder / "events" / "run"), size_guidance={"scalars": 0})
        found.Reload()
        return {tag: found.Scalars(tag)[-1].value for tag in found.Tags()["scalars"]}
    from sparring.eval.analysis.sources.reading import summary_of
    from sparring.eval.analysis.sources.run_folders import RunFolders
    from sparring.eval.analysis.sources.tensorboard_files import TensorBoardFiles

    if reader == "TensorBoardFiles":
        history = TensorBoardFiles(folder / "events").history("run")
    else:
        history = RunFolders(folder / "folders").history("run")
    return {key: value for key, value in summary_of(history).items() if key in history.columns}


def measure(reader: str, folder: Path) -> dict[str, Any]:
    """Return seconds, CPU seconds, peak memory in MB and the last values of a reader in another process."""
    command = [sys.executable, "-m", "benchmarks.run_reading", "--reader", reader, "--folder", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Measure all readers, or one of them in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--reader", default="")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.reader:
        start, cpu = time.perf_counter(), time.process_time()
        last = read(options.reader, options.folder)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": peak, "last": last}))
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_logs(folder, options.rows)
        readers = ("TensorBoardFiles", "RunFolders", "EventAccumulator")
        found = {reader: measure(reader, folder) for reader in readers}
    theirs = found["EventAccumulator"]["last"]
    assert all(abs(found["RunFolders"]["last"][key] - value) < 1e-6 for key, value in theirs.items())
    assert found["TensorBoardFiles"]["last"] == theirs
    slow = found["EventAccumulator"]["cpu"]
    rows = [
        [reader, *(f"{one[key]:.2f}" for key in ("seconds", "cpu")), f"{one['peak']:.0f}", f"{slow / one['cpu']:.1f}"]
        for reader, one in found.items()
    ]
    print(heading(f"Reading {options.rows * METRICS:,} scalars", ["numpy", "tensorboard", "protobuf"]))
    print(table(["reader", "seconds", "CPU seconds", "peak MB", "times EventAccumulator"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
