"""Sweeps: several runs as tasks of the executor, on this machine or a Ray cluster, or as cluster jobs (submitit).

`sparring.sweep` is `run_sweep`; `train.py +sweep=NAME` and `train.py --multirun` launch the same. Workers and jobs
receive only names of runs; the configurations are composed and validated before. Each trains a run and writes its
outcome. A failed run is one line of the final table and does not affect other runs. Repeating a sweep under the same
name skips the runs that are finished and continues the others, also after a worker or driver died.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hydra
import yaml

from sparring.agents.distributed.tasks import finish_tasks
from sparring.agents.run.folder import made_up_name
from sparring.configs.core.device import Executor
from sparring.configs.core.errors import ConfigError, InputError, as_called, printable
from sparring.configs.core.files import ROOT, append_to
from sparring.configs.foreign_names import in_our_words
from sparring.configs.overrides import as_override, override_texts
from sparring.configs.serialization import to_plain
from sparring.eval.analysis.sweeps.file import parse_sweep
from sparring.eval.analysis.sweeps.plan import (
    HydraLauncher,
    SweepPlan,
    SweepWorkers,
    names_sweep,
    read_grid,
    read_sweep,
)
from sparring.eval.analysis.sweeps.sweep_folder import (
    FINISHED,
    STOPPED,
    SUFFIX,
    SweepFolder,
    measured,
    read_rows,
    search_summary,
)
from sparring.eval.analysis.sweeps.training import guarded, train_recorded


def run_sweep(
    sweep: str | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    *,
    run: str | None = None,
    varied: Mapping[str, Sequence[Any]] | None = None,
) -> SweepOutcome:
    """Train the runs of the sweep file `sweep`, or of the run file `run` with every combination of `varied`.

    `overrides` are options of all runs, by key or as texts; `varied` has several values by key, such as
    `{"seed": [1, 2, 3], "ppo.clip": [0.1, 0.2]}`; beside a sweep file that is `seed`, or `runs`, a choice of its runs.
    `workers` (2), `executor` and `executor_address` among the overrides say where the runs are trained.
    The same call goes on where an interrupted one stopped. Searches need the extra `search`.

    Returns the outcome of each run; a failed run is one of them, and no error. Raises `InputError` if any of the runs
    could not start, before the first one does, and `KeyboardInterrupt` after Ctrl-C.
    """
    if (sweep is None) == (run is None):
        raise ConfigError("give either a sweep file, sparring.sweep(NAME), or a run file with what varies, run=NAME")
    if isinstance(overrides, Mapping):
        overrides = override_texts(overrides)
    several = [f"{key}={','.join(map(as_override, values))}" for key, values in (varied or {}).items()]
    words = in_our_words([*overrides, *several])
    outcome = launch_sweep(read_sweep([f"+sweep={sweep}", *words]) if sweep else read_grid([f"+run={run}", *words]))
    if outcome.interrupted:
        raise KeyboardInterrupt
    return outcome


def launch_words(arguments: Sequence[str], *, show: bool) -> int:
    """Launch the runs of a command line, of a sweep file or a grid, and return the exit code.

    With `show`, print their configurations instead. Raises `InputError` if any of the runs could not start.
    """
    plan = read_sweep(arguments) if names_sweep(arguments) else read_grid(arguments)
    if show:
        content = {label: to_plain(run) for label, run in zip(plan.labels, plan.runs, strict=True)}
        print(yaml.safe_dump(content, sort_keys=False), end="")
        return 0
    return launch_sweep(plan).exit_code


INTERRUPTED = 130


@dataclass(frozen=True)
class SweepOutcome:
    """What became of the runs of a sweep."""

    folder: Path
    """Folder of the sweep; its run folders are beside it."""
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
    _check_packages(searches=searches, submits=isinstance(plan.launcher, HydraLauncher))
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
    print("\n".join(map(printable, table(plan.varied, outcomes))))
    if searches:
        print("\n".join(search_summary(folder)))
    if plan.file:
        print(as_called(f"analysis: python eval/runs.py analyze-sweep {name}"))
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


def _launch(folder: Path, names: Sequence[str], launcher: HydraLauncher | SweepWorkers) -> None:
    """Train the runs, and wait for them."""
    if isinstance(launcher, HydraLauncher):
        _submit(folder, names, launcher)
        return
    executor = Executor(launcher.executor, launcher.address, launcher.workers)
    finish_tasks(partial(_train_task, folder, executor.alone), names, executor, label=str, quiet=True)


def _train_task(folder: Path, alone: bool, name: str, _bar: object) -> None:
    """Train a run as a task of an executor; one that a signal stopped in the driver itself ends the sweep."""
    if not folder.is_dir():
        raise InputError(f"{folder}: is not on this machine; give a checkpoint_dir= on a disk that all nodes share")
    outcome = train_job(SweepFolder(folder), name)
    if outcome.startswith(STOPPED) and alone:
        raise KeyboardInterrupt


def _submit(folder: Path, names: Sequence[str], launcher: HydraLauncher) -> None:
    """Run the jobs with Hydra's launcher."""
    options = [f"hydra.launcher.{key}={json.dumps(value)}" for key, value in launcher.options.items()]
    quiet = ["hydra/hydra_logging=none", "hydra/job_logging=none", "hydra.output_subdir=null"]
    jobs = ",".join(f"'{name}'" for name in names)
    where = [f"hydra.sweep.dir='{folder}'", f"+folder='{folder}'", f"+job={jobs}"]
    arguments = sys.argv
    sys.argv = ["train", "--multirun", f"hydra/launcher={launcher.name}", *options, *quiet, *where]
    try:
        hydra.main(version_base="1.3", config_path=None, config_name=None)(job)()
    finally:
        sys.argv = arguments


def _check_packages(*, searches: bool, submits: bool) -> None:
    plugin = "hydra_plugins.hydra_submitit_launcher"
    if submits and (find_spec("hydra_plugins") is None or find_spec(plugin) is None):
        raise InputError("a launcher needs hydra-submitit-launcher: `sparring install sweeps`, or give workers=N")
    if searches and find_spec("optuna") is None:
        raise InputError("a search needs optuna: `sparring install search`")


def job(config: Any) -> None:
    """Train the run `config.job` of the sweep in `config.folder`, as a job of a launcher."""
    train_job(SweepFolder(Path(config.folder)), str(config.job))


def train_job(folder: SweepFolder, name: str) -> str:
    """Train a run of the sweep, write its outcome, also if it is an error, and return it."""
    begin, before = time.monotonic(), folder.outcome(name).get("seconds", 0.0)
    with append_to(folder.log(name)) as log, redirect_stdout(log):
        outcome = guarded(lambda: _trained(folder, name))
    folder.record(name, {**outcome, "seconds": round(before + time.monotonic() - begin, 1)})
    return str(outcome["outcome"])


def _trained(folder: SweepFolder, name: str) -> dict[str, Any]:
    content = folder.content()
    file = parse_sweep(folder.name, content, folder.path) if content else None
    if file and file.search:
        from sparring.eval.analysis.sweeps.search import run_trial

        return run_trial(folder, name, file)
    run = folder.config(name)
    outcome = train_recorded(run)
    if file:
        primary = file.primary.measure
        outcome["result"] = f"{primary} {measured(read_rows(folder.run_folder(name)), primary):.4g}"
    return outcome
