"""Hyperparameter search with Optuna: every job of the sweep asks for one trial's values, trains, and reports.

The study is a journal of JSON lines in the sweep's folder. Several processes share it, and a repeated sweep
goes on with it: an interrupted trial keeps its values and its run. A trial whose measure falls behind the median of
the earlier ones ends after the update in progress; its run folder stays and can be resumed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import Trial, TrialState

from sparring.agents.callbacks import Callback, RunProgress
from sparring.configs.core.errors import InputError
from sparring.configs.schema import RunConfig
from sparring.configs.serialization import from_plain, to_plain
from sparring.configs.validate import validate
from sparring.eval.analysis.sweeps.criteria import Measure
from sparring.eval.analysis.sweeps.file import ChoiceSpace, Interval, Pruning, SweepFile
from sparring.eval.analysis.sweeps.sweep_folder import DONE, PRUNED, Row, SweepFolder, measured, read_rows, values
from sparring.eval.analysis.sweeps.training import train_recorded

JOURNAL = "study.jsonl"
DIRECTIONS: dict[str, Literal["minimize", "maximize"]] = {"lower": "minimize", "higher": "maximize"}
SAMPLERS = {"tpe": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}
RUN = "run"
"""Attribute of a trial that holds the run's name."""
SEEDS_PER_SEARCH = 10_000
"""Trials draw with the seed run seed * this + number of the trial; equal seeds draw equal first values."""


class TrialObserver(Callback):
    """Reports a run's measure after each update, and stops the run where its trial is pruned."""

    def __init__(self, trial: Trial, measure: Measure, run: Path) -> None:
        self._trial, self._measure, self._run = trial, measure, run
        self._rows: list[Row] = []
        self.pruned = False

    def on_update(self, run: RunProgress, metrics: Mapping[str, float]) -> bool:
        """Add an update's metrics, which the run has logged already; return whether to stop."""
        # A continued run has earlier rows, without those after its training state once it has started.
        if self._rows:
            self._rows.append(dict(metrics))
        else:
            self._rows = read_rows(self._run)
        if not len(values([metrics], self._measure.metric)):
            return False
        self._trial.report(measured(self._rows, self._measure), step=len(self._rows))
        self.pruned = bool(self._trial.should_prune())
        return self.pruned


def run_trial(folder: SweepFolder, name: str, file: SweepFile) -> dict[str, Any]:
    """Train the trial that belongs to the run `name`, and tell the study its value; return the run's outcome."""
    assert file.search is not None
    base = folder.config(name)
    number = int(name.rpartition("trial")[2])
    study = open_study(folder, file, seed=base.seed * SEEDS_PER_SEARCH + number)
    trial = _trial_of(study, name)
    drawn = {key: _draw(trial, key, space) for key, space in file.search.space.items()}
    run = with_options(base, drawn)
    observer = TrialObserver(trial, file.primary.measure, folder.run_folder(name))
    print(f"trial {trial.number}: {json.dumps(drawn)}")
    outcome = train_recorded(run, [observer] if file.search.pruning else [])
    if observer.pruned:
        outcome["outcome"] = PRUNED
    value = measured(read_rows(folder.run_folder(name)), file.primary.measure)
    _tell(study, trial, outcome["outcome"], value)
    finite = {"value": value} if math.isfinite(value) else {}
    return {**outcome, **finite, "result": f"{file.primary.measure} {value:.4g}", "options": drawn}


def open_study(folder: SweepFolder, file: SweepFile, *, seed: int = 0) -> optuna.Study:
    """Open the sweep's study, or create it."""
    assert file.search is not None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(
        study_name=folder.name,
        storage=JournalStorage(JournalFileBackend(str(folder.path / JOURNAL))),
        sampler=SAMPLERS[file.search.sampler](seed=seed % 2**32),
        pruner=_pruner(file.search.pruning),
        direction=DIRECTIONS[file.primary.goal],
        load_if_exists=True,
    )


def with_options(base: RunConfig, drawn: Mapping[str, Any]) -> RunConfig:
    """Return the run with other values of some options, by dotted key; raises `ConfigError` for an invalid one."""
    plain = to_plain(base)
    for key, value in drawn.items():
        node: Any = plain
        *parents, last = key.split(".")
        for part in parents:
            node = node[int(part)] if isinstance(node, list) else node[part]
        node[int(last) if isinstance(node, list) else last] = value
    config = from_plain(plain)
    validate(config, started=False)
    return config


def _trial_of(study: optuna.Study, name: str) -> Trial:
    """Return the unfinished trial of a run that was interrupted, else a new one."""
    for earlier in study.trials:
        if earlier.user_attrs.get(RUN) == name and earlier.state is TrialState.RUNNING:
            return Trial(study, earlier._trial_id)
    trial = study.ask()
    trial.set_user_attr(RUN, name)
    return trial


def _draw(trial: Trial, key: str, space: Interval | ChoiceSpace) -> Any:
    if isinstance(space, ChoiceSpace):
        return trial.suggest_categorical(key, space.values)
    if space.whole:
        return trial.suggest_int(key, int(space.low), int(space.high), log=space.log)
    return trial.suggest_float(key, float(space.low), float(space.high), log=space.log)


def _tell(study: optuna.Study, trial: Trial, outcome: str, value: float) -> None:
    """Tell the study how a trial ended; one that was stopped from outside stays open."""
    if outcome == DONE and math.isfinite(value):
        study.tell(trial, value)
    elif outcome == DONE:
        study.tell(trial, state=TrialState.FAIL)
        raise InputError("the primary measure has no value, so the trial counts as failed; measure what the run logs")
    elif outcome == PRUNED:
        study.tell(trial, state=TrialState.PRUNED)
    elif outcome.startswith("failed"):
        study.tell(trial, state=TrialState.FAIL)


def _pruner(pruning: Pruning | None) -> optuna.pruners.BasePruner:
    if pruning is None:
        return optuna.pruners.NopPruner()
    first = pruning.warmup_rows + 1  # Optuna counts the step from which it may prune
    return optuna.pruners.MedianPruner(n_startup_trials=pruning.startup_trials, n_warmup_steps=first)
