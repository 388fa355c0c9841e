"""One match of an imported game, turn-based or simultaneous: the interface of the adapters.

At each move some seats decide: one in a turn-based game, every live seat in a simultaneous one, or any subset. S is the
number of seats, K the number of alternatives of an action.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from traceback import walk_tb
from typing import Any, Protocol

import numpy as np
from gymnasium.spaces import Space

from sparring.configs.core.errors import ConfigError, choices
from sparring.configs.games import PACKAGES
from sparring.envs.imported.config import ImportedEnvConfig


class ImportedMatch(Protocol):
    """A match, undefined before the first `reset`.

    The arrays are written in place: a batch may own them and replace them with rows of larger arrays.
    """

    seats: tuple[str, ...]
    """Names of the players, by seat."""
    observation_spaces: list[Space[Any]]
    """Observation space of each seat, without its mask."""
    action_spaces: list[Space[Any]]
    """Action space of each seat."""
    masked: bool
    """Whether `mask` says which actions are legal."""
    longest: int | None
    """Maximum number of moves of a match, None if unknown."""
    remarks: tuple[str, ...]
    """Notes to print before training."""
    rewards: np.ndarray
    """Rewards received in the last move, float64 [S]."""
    terminated: np.ndarray
    """Seats for which the match is over by its rules, bool [S]; set until the next `reset`."""
    truncated: np.ndarray
    """Seats for which it was cut off, bool [S]; set until the next `reset`. None is in both."""
    over: bool
    """Whether the match has ended for all seats."""

    def reset(self, seed: int) -> None:
        """Start a match; `seed`, an integer from 0 to 2^31 - 1, determines chance."""

    def deciding(self) -> list[int]:
        """Return the seats that act in the next move, in ascending order; none if and only if the match is over."""

    def observe(self, seat: int) -> Any:
        """Return the observation of a deciding or just-ended seat; the next move may overwrite it."""

    def mask(self, seat: int) -> np.ndarray | None:
        """Return the mask [K] of a deciding seat, 1 or true for legal actions; None if all are legal.

        Raises `InputError` for a late, missing or malformed mask.
        """

    def step(self, actions: Mapping[int, Any]) -> None:
        """Make a move: an action of its own space for each deciding seat."""

    def render(self) -> np.ndarray | str | None:
        """Return a picture, uint8 [H, W, 3], or a text, as the game's render mode says."""

    def close(self) -> None:
        """Release the game's resources."""


def make_match(
    package: str,
    game_id: str,
    kwargs: Mapping[str, Any],
    render_mode: str | None = None,
    *,
    observation: str = "auto",
    twin: bool = False,
) -> ImportedMatch:
    """Create a match of the game `game_id` of a `package`, pettingzoo or openspiel, with its own options `kwargs`.

    `observation` chooses what OpenSpiel's players see, see `openspiel.make`. With `twin`, OpenSpiel plays a game of
    PettingZoo, see `twins.py`. Raises `ConfigError` without a game.
    """
    if package not in PACKAGES:
        raise ConfigError(f"env.package={package}: is unknown; {choices(package, PACKAGES)}")
    if twin:
        twin_match: ImportedMatch = import_module("sparring.envs.imported.twins").make(game_id, kwargs)
        return twin_match
    make = import_module(f"sparring.envs.imported.{package}").make
    match: ImportedMatch = make(game_id, dict(kwargs), render_mode, observation)
    return match


def check_promotion(env: ImportedEnvConfig, games: int) -> None:
    """Raise `ConfigError` unless the game has two seats, as a sequential test requires."""
    match = make_match(env.package, env.id, env.kwargs, observation=env.observation)
    seats = len(match.seats)
    match.close()
    if seats != 2:
        why = f"tests in games of two seats, and {env.id} has {seats}; give 0"
        raise ConfigError(f"self_play.promotion_games={games}: {why}")


def raised(error: BaseException) -> str:
    """Return the type and the first line of an exception."""
    first = str(error).strip().splitlines()
    return f"{type(error).__name__}: {first[0]}" if first else type(error).__name__


def raised_where(error: BaseException) -> str:
    """Return the same with the line in the game's own file, not in a package that it uses."""
    frames = [
        (frame.f_globals.get("__name__", ""), frame.f_code.co_filename, n) for frame, n in walk_tb(error.__traceback__)
    ]
    outside = [(Path(file), n) for name, file, n in frames if name.split(".")[0] not in ("sparring", "importlib")]
    outside = [(file, n) for file, n in outside if file.suffix == ".py"]
    lines = [(file, n) for file, n in outside if "site-packages" not in file.parts] or outside
    return f"{raised(error)}, in line {lines[-1][1]} of {lines[-1][0].name}" if lines else raised(error)
