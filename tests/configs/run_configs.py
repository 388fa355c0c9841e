"""The configuration of every run file, composed once in a process: each takes 50 ms. Tests share them."""

from functools import cache

import pytest
import yaml

from sparring.configs.load import CONFIG_DIR, load, runs


@cache
def run_config(run):
    return load([f"+run={run}"])


@cache
def run_file(run):
    """What a run file says, which is enough to choose parameters of tests by: those are chosen in every process."""
    return yaml.safe_load((CONFIG_DIR / "run" / f"{run}.yaml").read_text(encoding="utf-8"))


PPO = [run for run in runs() if run_file(run).get("trainer", "ppo") == "ppo"]


def slow_but(kept, runs):
    """Parameters of a test: `runs`, of which `make test` takes those in `kept`."""
    return [pytest.param(run, marks=() if run in kept else pytest.mark.slow) for run in runs]
