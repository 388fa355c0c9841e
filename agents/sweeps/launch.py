"""Sweeps: several runs launched by Hydra, in parallel on this machine (joblib) or as cluster jobs (submitit).

Hydra receives only names of runs; the configurations are composed and validated before. A failed run is one line of
the final table and does not affect other runs. Repeating a sweep under the same name skips the runs that are finished
and continues those that are not.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hydra

from sparring.agents.run.folder import made_up_name
from sparring.agents.sweeps.job import job
from sparring.agents.sweeps.search_report import search_summary
from sparring.agents.sweeps.sweep_folder import FINISHED, SUFFIX, SweepFolder
from sparring.configs.core.errors import InputError
from sparring.configs.core.paths import ROOT
from sparring.configs.sweeps.plan import HydraLauncher, SweepPlan

PLUGINS = ("hydra_joblib_launcher", "hydra_submitit_launcher")
INTERRUPTED = 130


@dataclass(frozen=True)
class SweepOutcome:
    """What became of the runs of a sweep."""

    folder: Path
    """Folder of the sweep; those of its runs are beside it."""
    runs: list[dict[str, Any]]
    """Of each run `run`, its name, `varied`, its values, `outcome`, `updates`, `seconds` and `result`, where known."""
    interrupted: bool
    """True after Ctrl-C."""

    @property
    def exit_code(self) -> int:
        """0 if every run is done or pruned, 130 after Ctrl-C, else 1."""
        return INTERRUPTED if self.interrupted else int(any(run["outcome"] not in FINISHED for run in self.runs))


def launch_sweep(plan: SweepPlan) -> SweepOutcome:
    """Launch the sweep, wait, print the outcomes and return them."""
    searches = "search" in plan.file
    _check_packages(searches)
    first = plan.runs[0]
    name = plan.name or made_up_name(first.run)
    folder = SweepFolder(ROOT / first.checkpoint_dir / f"{name}{SUFFIX}")
    folder.create(plan.file, fixed=searches)
    names = [f"{name}-{label}" for label in plan.labels]
    waiting = _put(folder, names, plan)
    finished = f", {len(names) - len(waiting)} finished before" if len(waiting) < len(names) else ""
    print(f"{folder.path}: {len(names)} runs{finished}, launched by {plan.launcher.name}", flush=True)
    interrupted = False
    try:
        if waiting:
            _launch(folder.path, waiting, plan.launcher)
    except SystemExit:
        print("the launcher gave up; what it had launched by then is below", flush=True)
    except KeyboardInterrupt:
        print("stopped; the same command continues the sweep", flush=True)
        interrupted = True
    outcomes = [folder.outcome(run) | {"run": run} for run in names]
    print("\n".join(table(plan.varied, outcomes)))
    if searches:
        print("\n".join(search_summary(folder)))
    if plan.file:
        print(f"analysis: sparring-runs analyze-sweep {name}")
    runs = [outcome | {"varied": varied} for outcome, varied in zip(outcomes, plan.varied, strict=True)]
    return SweepOutcome(folder.path, runs, interrupted)


def table(varied: Sequence[str], outcomes: Sequence[dict[str, Any]]) -> list[str]:
    """Return the summary's lines: the varied options, the run's name, outcome, updates and result."""
    rows: list[tuple[str, ...]] = [("", "run", "outcome", "updates", "result")]
    for what, outcome in zip(varied, outcomes, strict=True):
        rows.append((what, *(str(outcome.get(key, "")) for key in rows[0][1:])))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _put(folder: SweepFolder, names: Sequence[str], plan: SweepPlan) -> list[str]:
    """Write one configuration per run; return the names of those to launch."""
    waiting = []
    for name, run in zip(names, plan.runs, strict=True):
        run.name = name
        if folder.put(run):
            waiting.append(name)
    return waiting


def _launch(folder: Path, names: Sequence[str], launcher: HydraLauncher) -> None:
    """Run the jobs with Hydra's launcher, and wait for them."""
    options = [f"hydra.launcher.{key}={json.dumps(value)}" for key, value in launcher.options.items()]
    quiet = ["hydra/hydra_logging=none", "hydra/job_logging=none", "hydra.output_subdir=null"]
    jobs = ",".join(f"'{name}'" for name in names)
    where = [f"hydra.sweep.dir='{folder}'", f"+folder='{folder}'", f"+job={jobs}", f"+launcher={os.getpid()}"]
    arguments = sys.argv
    sys.argv = ["train", "--multirun", f"hydra/launcher={launcher.name}", *options, *quiet, *where]
    try:
        hydra.main(version_base="1.3", config_path=None, config_name=None)(job)()
    finally:
        sys.argv = arguments


def _check_packages(searches: bool) -> None:
    for plugin in PLUGINS:
        if find_spec("hydra_plugins") is None or find_spec(f"hydra_plugins.{plugin}") is None:
            raise InputError(f'a sweep needs {plugin.replace("_", "-")}: pip install -e ".[sweeps]"')
    if searches and find_spec("optuna") is None:
        raise InputError('a search needs optuna: pip install -e ".[search]"')
