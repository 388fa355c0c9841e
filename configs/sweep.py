"""Runs of a sweep from its command line: one for every combination of the values given.

`train.py --multirun +run=quickstart seed=1,2,3 ppo.clip=0.1,0.2` gives six runs. `sweep=NAME`, a file under
`configs/sweep/`, sets the launcher; `hydra.launcher.KEY=VALUE` changes a line of it. Every run is composed and checked
here, before the first one starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from sparring.configs.core.errors import ConfigError, choose
from sparring.configs.load import CONFIG_DIR, load
from sparring.configs.schema import RunConfig

FOLDER, DEFAULT = CONFIG_DIR / "sweep", "joblib"
LAUNCHER = "hydra.launcher."
MOST = 1000


@dataclass(frozen=True)
class Sweep:
    """Runs to launch, and how: `launcher` and `options` in Hydra's terms."""

    launcher: str
    options: dict[str, Any]
    runs: list[RunConfig]
    """Their names are as given, the same for all, or empty."""
    varied: list[str]
    """Differing values of each run, such as "seed=1 ppo.clip=0.1"."""


def read_sweep(arguments: Sequence[str]) -> Sweep:
    """Read the arguments of a sweep; raises `InputError` if any of its runs could not start."""
    file = _file(arguments)
    options = dict(file["options"])
    given: list[list[str]] = []
    for text in arguments:
        if text.startswith(LAUNCHER):
            key, _, value = text.removeprefix(LAUNCHER).partition("=")
            options[key] = yaml.safe_load(value)
        elif not text.startswith("sweep="):
            given.append(_values(text))
    combinations = list(product(*given))
    if len(combinations) > MOST:
        raise ConfigError(f"{len(combinations)} runs: a sweep has at most {MOST}; give fewer values")
    runs = [_without_bar(load(combination)) for combination in combinations]
    varied = [
        " ".join(text for text, values in zip(one, given, strict=True) if len(values) > 1) for one in combinations
    ]
    varied = [text.replace("\\", "") for text in varied]  # the parser quotes, as in device=cuda\:1
    return Sweep(file["launcher"], options, runs, varied)


def launchers() -> list[str]:
    """Return the names for `sweep=`."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def _without_bar(config: RunConfig) -> RunConfig:
    """Return the run without a progress bar, since several bars would overlap."""
    if config.resume:
        raise ConfigError(f"resume={config.resume}: a sweep begins runs; repeat it with its name= to continue them")
    return replace(config, logger=replace(config.logger, progress=False))


def _file(arguments: Sequence[str]) -> dict[str, Any]:
    names = [text.removeprefix("sweep=") for text in arguments if text.startswith("sweep=")]
    name = choose("sweep", names[-1] if names else DEFAULT, launchers())
    return dict(yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8")))


def _values(text: str) -> list[str]:
    """Split `key=1,2` into ["key=1", "key=2"]; other text is unchanged, and `load` checks it."""
    try:
        override: Override = OverridesParser.create().parse_override(text)
        if not override.is_sweep_override():
            return [text]
        key = text.partition("=")[0]
        return [f"{key}={value}" for value in override.sweep_string_iterator()]
    except HydraException as error:
        raise ConfigError(f"{text!r} cannot be read: write key=value or key=value,value") from error
