"""Runs of a sweep as they are launched: of a grid or a sweep file, composed and checked before the first one starts.

`train.py --multirun +run=quickstart seed=1,2,3 ppo.clip=0.1,0.2` is a grid: one run per combination of the values.

`train.py +sweep=stability_ablation seed=1,2,3 runs=A,B launcher=local name=mine` are the runs of a sweep file: the run
file comes first, then the sweep's `defaults`, the run's `changes`, and what is typed. Only `seed=` may have several
values. Of a search, the values at the ends of each interval and every choice are checked.

The runs are tasks of the executor: `workers=8`, `executor=ray`, `executor_address=10.0.0.1:6379`. Or `launcher=NAME`
chooses a launcher of Hydra, a file in `configs/launcher/`, and `hydra.launcher.KEY=VALUE` changes one of its options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any

import yaml

from sparring.configs.core.allowed import complaint
from sparring.configs.core.errors import ConfigError, choose
from sparring.configs.load import load
from sparring.configs.overrides import nested_texts, parse_override
from sparring.configs.schema import FOLDER, RunConfig
from sparring.eval.analysis.sweeps.file import LAUNCHERS, SweepFile, launchers, read_sweep_file

CHOICE, OPTION = "launcher", "hydra.launcher."
WORKERS, EXECUTOR, ADDRESS = "workers", "executor", "executor_address"
EXECUTORS = ("local", "ray")
MOST_RUNS, MOST_WORKERS = 1000, 1024
SWEEP, LETTERS, SEED, NAME = "sweep=", "runs=", "seed=", "name="


@dataclass(frozen=True)
class HydraLauncher:
    """Launcher of Hydra and its options."""

    name: str
    options: dict[str, Any]


@dataclass(frozen=True)
class SweepWorkers:
    """Executor of the runs: so many processes of this machine, or the Ray cluster at an address."""

    workers: int = 2
    executor: str = EXECUTORS[0]
    address: str = "auto"

    @property
    def name(self) -> str:
        """What launches the runs, for a line of the sweep."""
        return f"{self.workers} workers" if self.executor == EXECUTORS[0] else self.executor


@dataclass(frozen=True)
class SweepPlan:
    """Runs to launch: run i is called `<name>-<labels[i]>` and described by `varied[i]`."""

    name: str
    """Empty for a generated one."""
    launcher: HydraLauncher | SweepWorkers
    runs: list[RunConfig]
    labels: list[str]
    varied: list[str]
    """Differing values of each run, such as "seed=1 ppo.clip=0.1"."""
    file: dict[str, Any] = field(default_factory=dict)
    """Content of the sweep file, if there is one; it is stored with the sweep."""

    def __post_init__(self) -> None:
        if len(self.runs) > MOST_RUNS:
            raise ConfigError(f"{len(self.runs)} runs: a sweep has at most {MOST_RUNS}; give fewer values")


def read_launcher(arguments: Sequence[str]) -> tuple[HydraLauncher | SweepWorkers, list[str]]:
    """Return what the arguments say of the executor, or the launcher that they choose, and the other arguments."""
    options, rest = {}, []
    for text in arguments:
        key, _, value = text.partition("=")
        if key in (CHOICE, WORKERS, EXECUTOR, ADDRESS) or key.startswith(OPTION):
            options[key] = value
        else:
            rest.append(text)
    name = options.pop(CHOICE, None)
    return (_workers(options) if name is None else _hydra_launcher(name, options)), rest


def _workers(options: Mapping[str, str]) -> SweepWorkers:
    if foreign := next((key for key in options if key.startswith(OPTION)), ""):
        raise ConfigError(
            f"{foreign}={options[foreign]}: is an option of a launcher; add launcher=slurm, or give workers=N"
        )
    chosen = SweepWorkers()
    workers = options.get(WORKERS, str(chosen.workers))
    if not workers.isdecimal() or not 1 <= int(workers[:9]) <= MOST_WORKERS:
        raise ConfigError(f"workers={workers}: must be a whole number in [1, {MOST_WORKERS}]")
    executor = choose("executor", options.get(EXECUTOR, chosen.executor), EXECUTORS)
    return SweepWorkers(int(workers), executor, options.get(ADDRESS, chosen.address))


def _hydra_launcher(name: str, options: Mapping[str, str]) -> HydraLauncher:
    file = yaml.safe_load((LAUNCHERS / f"{choose(CHOICE, name, launchers())}.yaml").read_text(encoding="utf-8"))
    if foreign := next((key for key in options if not key.startswith(OPTION)), ""):
        raise ConfigError(f"{foreign}={options[foreign]}: is the executor's; leave it out, or launcher={name}")
    typed = {key.removeprefix(OPTION): yaml.safe_load(value) for key, value in options.items()}
    return HydraLauncher(file["launcher"], {**file["options"], **typed})


def without_bar(config: RunConfig) -> RunConfig:
    """Return the run without a progress bar, since several bars would overlap."""
    if config.resume:
        raise ConfigError(f"resume={config.resume}: a sweep begins runs; repeat it with its name= to continue them")
    return replace(config, logger=replace(config.logger, progress=False))


def read_grid(arguments: Sequence[str]) -> SweepPlan:
    """Read the arguments of a grid; raises `InputError` if any of its runs could not start."""
    launcher, rest = read_launcher(arguments)
    choices = [values(text) for text in rest]
    count = prod(map(len, choices))
    if count > MOST_RUNS:
        raise ConfigError(f"{count} runs: a sweep has at most {MOST_RUNS}; give fewer values")
    combinations = list(product(*choices))
    runs = [without_bar(load(combination)) for combination in combinations]
    varied = [
        " ".join(text for text, several in zip(row, choices, strict=True) if len(several) > 1) for row in combinations
    ]
    varied = [text.replace("\\", "") for text in varied]  # the parser quotes, as in device=cuda\:1
    return SweepPlan(runs[0].name, launcher, runs, [str(number) for number in range(count)], varied)


def values(text: str) -> list[str]:
    """Split `key=1,2` into ["key=1", "key=2"]; other text is unchanged, and `load` checks it."""
    override = parse_override(text)
    if not override.is_sweep_override():
        return [text]
    from hydra.errors import HydraException

    try:
        return [f"{text.partition('=')[0]}={value}" for value in override.sweep_string_iterator()]
    except HydraException as error:
        raise ConfigError(f"{text!r} cannot be read: write key=value or key=value,value") from error


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


def _runs(file: SweepFile, launcher: HydraLauncher | SweepWorkers, rest: Sequence[str]) -> SweepPlan:
    letters, typed = _letters(file, rest)
    seeds, typed = _seeds(file, typed)
    name, typed = _name(file, typed)
    runs, labels, varied = [], [], []
    for letter in letters:
        for seed in seeds:
            key = f"{file.name}: runs.{letter}.changes"
            runs.append(_loaded(file, key, file.runs[letter].changes, [*typed, f"seed={seed}"]))
            labels.append(f"{letter}-seed{seed}")
            varied.append(f"{letter} {file.runs[letter].description}, seed {seed}")
    return SweepPlan(name, launcher, runs, labels, varied, file.plain)


def _search(file: SweepFile, launcher: HydraLauncher | SweepWorkers, rest: Sequence[str]) -> SweepPlan:
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


def _loaded(file: SweepFile, key: str, changes: dict[str, Any], typed: Sequence[str]) -> RunConfig:
    """Compose one run; an error names the place in the file. What the file says counts as written, not as typed."""
    texts = [f"+run={file.run}", *nested_texts(file.defaults), *nested_texts(changes), *typed]
    try:
        return without_bar(load(texts, typed=typed))
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from error


def _letters(file: SweepFile, rest: Sequence[str]) -> tuple[list[str], list[str]]:
    lists = [text.removeprefix(LETTERS) for text in rest if text.startswith(LETTERS)]
    letters = lists[-1].split(",") if lists else list(file.runs)
    for letter in letters:
        choose(f"run of {file.name}", letter, file.runs)
    return list(dict.fromkeys(letters)), [text for text in rest if not text.startswith(LETTERS)]


def _seeds(file: SweepFile, rest: Sequence[str]) -> tuple[list[int], list[str]]:
    """Return the seeds and the other arguments, which must have one value each."""
    seeds = list(file.seeds)
    remaining = []
    for text in rest:
        choices = values(text)
        if text.startswith(SEED):
            seeds = [_seed(choice.removeprefix(SEED)) for choice in choices]
        elif len(choices) > 1:
            raise ConfigError(
                f"{text!r}: only seed= may have several values with +sweep={file.name}; --multirun varies others"
            )
        else:
            remaining.append(text)
    return list(dict.fromkeys(seeds)), remaining


def _seed(text: str) -> int:
    if not text.isdigit():
        raise ConfigError(f"seed={text}: must be whole numbers from 0, such as seed=1,2,3")
    return int(text)


def _name(file: SweepFile, rest: Sequence[str]) -> tuple[str, list[str]]:
    names = [text.removeprefix(NAME) for text in rest if text.startswith(NAME)]
    name = names[-1] if names else file.name
    if wrong := complaint(name, FOLDER):
        raise ConfigError(f"name={name}: {wrong}")
    return name, [text for text in rest if not text.startswith(NAME)]
