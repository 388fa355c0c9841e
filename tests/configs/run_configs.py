"""Configurations composed once per process and shared by tests, since composing is slow."""

from copy import deepcopy
from functools import cache

import pytest
import yaml

from sparring.configs.load import CONFIG_DIR, load, runs
from sparring.configs.overrides import parse_override
from sparring.configs.serialization import from_plain, to_plain
from sparring.configs.validate import validate


@cache
def run_config(run):
    return load([f"+run={run}"])


_plain = cache(lambda base: to_plain(load(base)))


def configured(base, *options):
    """Return `load([*base, *options])` with the base composed once; only schema errors are raised."""
    plain = deepcopy(_plain(tuple(base)))
    for override in map(parse_override, options):
        *groups, name = override.key_or_group.split(".")
        section = plain
        for group in groups:
            section = section[group]
        section[name] = override.value()
    config = from_plain(plain)
    validate(config)
    return config


@cache
def run_file(run):
    """Return the content of a run file, enough to choose test parameters in every process."""
    own = yaml.safe_load((CONFIG_DIR / "run" / f"{run}.yaml").read_text(encoding="utf-8"))
    return run_file(own["defaults"][0]) | own if "defaults" in own else own


PPO = [run for run in runs() if run_file(run).get("trainer", "ppo") == "ppo"]


def slow_but(kept, runs):
    """Return test parameters `runs`, of which `make test` only takes those in `kept`."""
    return [pytest.param(run, marks=() if run in kept else pytest.mark.slow) for run in runs]
