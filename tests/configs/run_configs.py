"""The configuration of every run file, composed once in a process: each takes 50 ms. Tests share them."""

from functools import cache

import pytest

from sparring.configs.load import load, runs


@cache
def run_config(run):
    return load([f"+run={run}"])


PPO = [run for run in runs() if run_config(run).trainer == "ppo"]


def slow_but(kept, runs):
    """Parameters of a test: `runs`, of which `make test` takes those in `kept`."""
    return [pytest.param(run, marks=() if run in kept else pytest.mark.slow) for run in runs]
