"""Runs of a sweep file: `train.py +sweep=stability_ablation seed=1,2,3 runs=A,B launcher=local name=mine`.

The run file comes first, then the sweep's `defaults`, the run's `changes`, and what is typed. Only `seed=` may have
several values. Every run is composed and checked here, before the first one starts; of a search, the values at the
ends of each interval and every choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparring.configs.core.allowed import complaint
from sparring.configs.core.errors import ConfigError, choose
from sparring.configs.load import load
from sparring.configs.schema import FOLDER, RunConfig
from sparring.configs.sweeps.file import SweepFile, read_sweep_file
from sparring.configs.sweeps.grid import values
from sparring.configs.sweeps.plan import HydraLauncher, SweepPlan, read_launcher, without_bar
from sparring.configs.sweeps.sections import overrides

SWEEP, LETTERS, SEED, NAME = "sweep=", "runs=", "seed=", "name="


def names_sweep(arguments: Sequence[str]) -> bool:
    """Return whether a sweep file is named."""
    return any(text.lstrip("+").startswith(SWEEP) for text in arguments)


def read_sweep(arguments: Sequence[str]) -> SweepPlan:
    """Read the arguments of a sweep file's runs; raises `InputError` if any of them could not start."""
    launcher, rest = read_launcher(arguments)
    named = [text.lstrip("+").removeprefix(SWEEP) for text in rest if text.lstrip("+").startswith(SWEEP)]
    if len(named) != 1:
        raise ConfigError(f"{len(named)} sweeps are named ({', '.join(named)}): give one +sweep=NAME")
    file = read_sweep_file(named[0])
    rest = [text for text in rest if not text.lstrip("+").startswith(SWEEP)]
    return _search(file, launcher, rest) if file.search else _runs(file, launcher, rest)


def _runs(file: SweepFile, launcher: HydraLauncher, rest: Sequence[str]) -> SweepPlan:
    letters, typed = _letters(file, rest)
    seeds, typed = _seeds(file, typed)
    name, typed = _name(file, typed)
    runs, labels, varied = [], [], []
    for letter in letters:
        for seed in seeds:
            place = f"{file.name}: runs.{letter}.changes"
            runs.append(_loaded(file, place, file.runs[letter].changes, [*typed, f"seed={seed}"]))
            labels.append(f"{letter}-seed{seed}")
            varied.append(f"{letter} {file.runs[letter].description}, seed {seed}")
    return SweepPlan(name, launcher, runs, labels, varied, file.plain)


def _search(file: SweepFile, launcher: HydraLauncher, rest: Sequence[str]) -> SweepPlan:
    assert file.search is not None
    seeds, typed = _seeds(file, rest)
    name, typed = _name(file, typed)
    if len(seeds) > 1:
        raise ConfigError(f"seed={','.join(map(str, seeds))}: a search trains every trial once; give one seed")
    typed = [*typed, f"seed={seeds[0]}"]
    base = _loaded(file, f"{file.name}: defaults", {}, typed)
    if base.trainer == "sb3":
        raise ConfigError(f"{file.name}: run={file.run}: trainer=sb3 reports at its end only; search with trainer=ppo")
    for key, space in file.search.space.items():
        for value in space.extremes:
            _loaded(file, f"{file.name}: search.space", {key: value}, typed)
    labels = [f"trial{number:03d}" for number in range(file.search.trials)]
    return SweepPlan(name, launcher, [base] * len(labels), labels, labels, file.plain)


def _loaded(file: SweepFile, place: str, changes: dict[str, Any], typed: Sequence[str]) -> RunConfig:
    """Compose one run; an error names the place in the file."""
    try:
        return without_bar(load([f"+run={file.run}", *overrides(file.defaults), *overrides(changes), *typed]))
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error


def _letters(file: SweepFile, rest: Sequence[str]) -> tuple[list[str], list[str]]:
    given = [text.removeprefix(LETTERS) for text in rest if text.startswith(LETTERS)]
    letters = given[-1].split(",") if given else list(file.runs)
    for letter in letters:
        choose(f"run of {file.name}", letter, file.runs)
    return list(dict.fromkeys(letters)), [text for text in rest if not text.startswith(LETTERS)]


def _seeds(file: SweepFile, rest: Sequence[str]) -> tuple[list[int], list[str]]:
    """Return the seeds and the other arguments, which must have one value each."""
    seeds = list(file.seeds)
    others = []
    for text in rest:
        given = values(text)
        if text.startswith(SEED):
            seeds = [_seed(one.removeprefix(SEED)) for one in given]
        elif len(given) > 1:
            raise ConfigError(
                f"{text!r}: only seed= has several values beside +sweep={file.name}; --multirun varies others"
            )
        else:
            others.append(text)
    return list(dict.fromkeys(seeds)), others


def _seed(text: str) -> int:
    if not text.isdigit():
        raise ConfigError(f"seed={text}: must be whole numbers from 0, such as seed=1,2,3")
    return int(text)


def _name(file: SweepFile, rest: Sequence[str]) -> tuple[str, list[str]]:
    given = [text.removeprefix(NAME) for text in rest if text.startswith(NAME)]
    name = given[-1] if given else file.name
    if wrong := complaint(name, FOLDER):
        raise ConfigError(f"name={name}: {wrong}")
    return name, [text for text in rest if not text.startswith(NAME)]
