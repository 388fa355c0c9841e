"""Rollout players without a model, for tests of worker processes.

Kept apart from the tests, because a new process imports the module of its player: this one needs no language model.
"""

import os
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple

import torch

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.config import DiplomacyGRPORunConfig


class Job(NamedTuple):
    """Stand in for `RolloutJob`, whose module needs a language model."""

    plan: SimpleNamespace
    weights: bytes


def idle_config(*, workers=1, threads=1, deterministic=False):
    config = DiplomacyGRPORunConfig(threads=threads, deterministic=deterministic)
    return replace(config, grpo=replace(config.grpo, workers=workers))


class Actor:
    """Play nothing, and do what the plan says instead."""

    def __init__(self, config):
        pass

    def play(self, plan, weights):
        return getattr(self, plan.what)()

    def close(self):
        pass

    def report(self):
        return torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()

    def wait(self):
        time.sleep(0.5)
        return "waited"

    def play_for_long(self):
        time.sleep(300.0)

    def fault(self):
        raise ValueError("two\nlines")

    def refuse(self):
        raise InputError("model.name=x: is no model")

    def fall_silent(self):
        """Exit with code 7, later than the pipe's closing waits."""
        os.closerange(3, 1000)
        time.sleep(1.3)
        os._exit(7)


class Patient:
    """Answer with the weights it was given."""

    def __init__(self, config):
        pass

    def play(self, plan, weights):
        return weights

    def close(self):
        pass
