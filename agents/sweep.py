"""Sweeps: several runs launched by Hydra, in parallel on this machine (joblib) or as cluster jobs (submitit).

A sweep has its own folder next to the run folders, with a configuration, a log and an outcome per job. Hydra receives
only job numbers; the configurations are composed and validated before. A failed run is one line of the final table
and does not affect other runs. Repeating a sweep under the same name continues the runs that are not done.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import hydra
import yaml

from sparring.agents.run.folder import RunFolder, made_up_name
from sparring.agents.trainers import train
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import write_atomically
from sparring.configs.core.paths import ROOT
from sparring.configs.schema import RunConfig
from sparring.configs.serialization import from_plain, to_plain
from sparring.configs.sweep import Sweep, read_sweep

PLUGINS = ("hydra_joblib_launcher", "hydra_submitit_launcher")
DONE, NEVER = "done", "did not end"


def sweep(arguments: Sequence[str]) -> int:
    """Launch the sweep of `arguments`, wait, print the outcomes; return 0 if every run is done, else 1."""
    wanted = read_sweep(arguments)
    _check_plugins()
    first = wanted.runs[0]
    name = first.name or made_up_name(first.run)
    folder = ROOT / first.checkpoint_dir / f"{name}-sweep"
    _write(folder, name, wanted)
    print(f"{folder}: {len(wanted.runs)} runs, launched by {wanted.launcher}", flush=True)
    try:
        _launch(folder, wanted)
    except SystemExit:
        print("the launcher gave up; what it had launched by then is below", flush=True)
    outcomes = [_outcome(folder, number) for number in range(len(wanted.runs))]
    print("\n".join(table(wanted.varied, outcomes)))
    return 0 if all(outcome["outcome"] == DONE for outcome in outcomes) else 1


def job(config: Any) -> None:
    """Train run number `config.job` of the sweep in `config.folder` and write its outcome; errors are recorded."""
    folder, number = Path(config.folder), int(config.job)
    run = from_plain(yaml.safe_load(_file(folder, number, "yaml").read_text(encoding="utf-8")))
    with _file(folder, number, "log").open("a", encoding="utf-8", buffering=1) as log, redirect_stdout(log):
        outcome = {"run": run.name, **_train(run)}
    write_atomically(_file(folder, number, "json"), json.dumps(outcome) + "\n")


def table(varied: Sequence[str], outcomes: Sequence[dict[str, Any]]) -> list[str]:
    """Return the summary's lines: the varied options, the run's name, outcome, updates and result."""
    rows: list[tuple[str, ...]] = [("", "run", "outcome", "updates", "result")]
    for what, outcome in zip(varied, outcomes, strict=True):
        rows.append((what, *(str(outcome.get(key, "")) for key in rows[0][1:])))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _write(folder: Path, name: str, wanted: Sweep) -> None:
    """Write one configuration per job, each with its own run name."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, run in enumerate(wanted.runs):
        run.name = f"{name}-{number}"
        _file(folder, number, "json").unlink(missing_ok=True)
        write_atomically(_file(folder, number, "yaml"), yaml.safe_dump(to_plain(run), sort_keys=False))


def _launch(folder: Path, wanted: Sweep) -> None:
    """Run the jobs with Hydra's launcher, and wait for them."""
    options = [f"hydra.launcher.{key}={json.dumps(value)}" for key, value in wanted.options.items()]
    quiet = ["hydra/hydra_logging=none", "hydra/job_logging=none", "hydra.output_subdir=null"]
    jobs = ",".join(str(number) for number in range(len(wanted.runs)))
    where = [f"hydra.sweep.dir='{folder}'", f"+folder='{folder}'", f"+job={jobs}"]
    arguments = sys.argv
    sys.argv = ["train", "--multirun", f"hydra/launcher={wanted.launcher}", *options, *quiet, *where]
    try:
        hydra.main(version_base="1.3", config_path=None, config_name=None)(job)()
    finally:
        sys.argv = arguments


def _train(run: RunConfig) -> dict[str, Any]:
    try:
        train(run)
        return {"outcome": DONE, **_result(run)}
    except SystemExit as stop:
        return {"outcome": f"stopped ({stop.code})", **_result(run)}
    except InputError as error:
        return {"outcome": f"failed: {error}"}
    except Exception as error:
        print(traceback.format_exc())
        return {"outcome": f"failed: {type(error).__name__}: {error}"}


def _result(run: RunConfig) -> dict[str, Any]:
    """Return the updates done and the mean win rate or return, from the run's last checkpoint."""
    from sparring.agents.policies.checkpoint import CheckpointError, load_checkpoint

    folder = RunFolder(ROOT / run.checkpoint_dir / run.name)
    try:
        training = load_checkpoint(folder.final).training
    except (CheckpointError, OSError):
        return {}
    rates, recent = training.get("win_rates") or {}, training.get("recent_return")
    said = f"wins {sum(rates.values()) / len(rates):.0%}" if rates else ""
    return {"updates": training.get("update"), "result": said if recent is None else f"return {recent:.1f}"}


def _outcome(folder: Path, number: int) -> dict[str, Any]:
    path = _file(folder, number, "json")
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {"outcome": NEVER}


def _file(folder: Path, number: int, kind: str) -> Path:
    return folder / f"job_{number:03d}.{kind}"


def _check_plugins() -> None:
    from importlib.util import find_spec

    for plugin in PLUGINS:
        if find_spec("hydra_plugins") is None or find_spec(f"hydra_plugins.{plugin}") is None:
            raise InputError(f'--multirun needs {plugin.replace("_", "-")}: pip install -e ".[sweeps]"')
