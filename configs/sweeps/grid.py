"""Runs of a grid from its command line: one for every combination of the values given.

`train.py --multirun +run=quickstart seed=1,2,3 ppo.clip=0.1,0.2` gives six runs. Every run is composed and checked
here, before the first one starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from hydra.errors import HydraException

from sparring.configs.core.errors import ConfigError
from sparring.configs.load import load
from sparring.configs.overrides import parse_override
from sparring.configs.sweeps.plan import MOST_RUNS, SweepPlan, read_launcher, without_bar


def read_grid(arguments: Sequence[str]) -> SweepPlan:
    """Read the arguments of a grid; raises `InputError` if any of its runs could not start."""
    launcher, rest = read_launcher(arguments)
    given = [values(text) for text in rest]
    count = prod(map(len, given))
    if count > MOST_RUNS:
        raise ConfigError(f"{count} runs: a sweep has at most {MOST_RUNS}; give fewer values")
    combinations = list(product(*given))
    runs = [without_bar(load(combination)) for combination in combinations]
    varied = [
        " ".join(text for text, several in zip(one, given, strict=True) if len(several) > 1) for one in combinations
    ]
    varied = [text.replace("\\", "") for text in varied]  # the parser quotes, as in device=cuda\:1
    return SweepPlan(runs[0].name, launcher, runs, [str(number) for number in range(count)], varied)


def values(text: str) -> list[str]:
    """Split `key=1,2` into ["key=1", "key=2"]; other text is unchanged, and `load` checks it."""
    override = parse_override(text)
    if not override.is_sweep_override():
        return [text]
    try:
        return [f"{text.partition('=')[0]}={value}" for value in override.sweep_string_iterator()]
    except HydraException as error:
        raise ConfigError(f"{text!r} cannot be read: write key=value or key=value,value") from error
