"""Checks of a batch's options, seeds, bot ids and physics, each raising a one-line `ConfigError`.

The kernels check nothing: a bot id out of range would play another bot, a wide seed would lose its upper bits. All
checks therefore happen once, when a value is set, and none within a step.
"""

from __future__ import annotations

from dataclasses import fields
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch

from sparring.configs.core.allowed import complaint, inside
from sparring.configs.core.errors import ConfigError
from sparring.envs.dogfight import rules as game
from sparring.envs.dogfight.config import RewardConfig

SEED = "[0, 2147483647]"
COUNTS = {
    "num_envs": "[1, 10000000]",
    "action_repeat": f"[1, {game.MAX_TICKS}]",
    "max_ticks": "[1, 10000000]",
    "threads": "[0, 4096]",
    "trace": "[0, 10000000]",
    "seed": SEED,
}


def check_whole(**values: Any) -> None:
    """Refuse values that are not whole numbers within `COUNTS`."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or not inside(int(value), COUNTS[name]):
            raise ConfigError(f"{name}={value}: must be a whole number in {COUNTS[name]}")


def check_rewards(reward: RewardConfig, gamma: float) -> None:
    """Refuse weights outside the ranges of `RewardConfig`, and a discount outside [0, 1]."""
    check_number("gamma", gamma, "[0, 1]")
    for term in fields(RewardConfig):
        check_number(f"reward.{term.name}", getattr(reward, term.name), term.metadata["allowed"])


def check_bots(bots: torch.Tensor) -> None:
    """Refuse ids that are neither a bot's nor `ACTIONS`; waits for ids on a GPU."""
    low, high = game.ACTIONS, len(game.BOTS) - 1
    if not bool(((bots >= low) & (bots <= high) & (bots == bots.int())).all()):
        names = ", ".join(f"{index} {name}" for index, name in enumerate(game.BOTS))
        raise ConfigError(f"bots={np.unique(bots.cpu().numpy()).tolist()}: choose from {low} actions, {names}")


def check_ranges(ranges: np.ndarray) -> None:
    """Refuse ranges [13, 2] (low, high) that are not finite, ordered, whole where needed and mutually consistent."""
    if ranges.shape != (len(game.PARAMETERS), 2):
        raise ConfigError(f"ranges have shape {ranges.shape}, expected ({len(game.PARAMETERS)}, 2): low and high")
    for parameter, (low, high) in zip(game.PARAMETERS, ranges.tolist(), strict=True):
        _check_range(parameter, low, high)
    bounds = {parameter.name: ranges[index] for index, parameter in enumerate(game.PARAMETERS)}
    slowest, fastest = bounds["min_speed"][1], bounds["max_speed"][0]
    if fastest <= slowest:
        raise ConfigError(f"max_speed from {fastest:g}: must be above min_speed, which goes up to {slowest:g}")
    lifetime, most = bounds["bullet_lifetime_ticks"][1], game.BULLETS_PER_FIGHTER
    # A longer life would overflow the bullet slots of a fighter: `shoot` would overwrite a live bullet.
    if lifetime > most * bounds["gun_cooldown_ticks"][0]:
        raise ConfigError(f"bullet_lifetime_ticks up to {lifetime:g} needs gun_cooldown_ticks >= {lifetime / most:g}")


def _check_range(parameter: game.Parameter, low: float, high: float) -> None:
    said = f"range of {parameter.name} is {low:g}..{high:g}"
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise ConfigError(f"{said}: both must be finite, low <= high")
    if parameter.integer and not (low.is_integer() and high.is_integer() and low >= 1):
        raise ConfigError(f"{said}: both must be whole numbers from 1 up")


def check_number(key: str, value: Any, allowed: str) -> None:
    """Refuse a value that is no number within `allowed`."""
    wrong = complaint(value, allowed) if isinstance(value, Real) else f"must be a number in {allowed}"
    if wrong:
        raise ConfigError(f"{key}={value}: {wrong}")
