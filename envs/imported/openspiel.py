"""Matches of OpenSpiel's games (`pyspiel`): turn-based and simultaneous ones, with chance sampled here.

Players observe the tensor of their information state, which contains everything they remember, or else the tensor of
their current observation. Both have the same shape and meaning for every player. Rewards are differences of
`State.returns`, since in some games, such as 2048, `State.rewards` does not change before a chance node.
"""

from __future__ import annotations

import math
import os
import random
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import chain
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, Space

from sparring.configs.core.errors import ConfigError, choices, suggestion
from sparring.envs.imported.config import OBSERVATIONS, module_of_game
from sparring.envs.imported.match import ImportedMatch, raised
from sparring.envs.imported.names import found_elsewhere, module_of

CHANCE, SIMULTANEOUS = -1, -2
"""Special values of `State.current_player`; other negative values mean the end."""
PLACE = re.compile(r"^/\S+:\d+ ")
"""Source location that OpenSpiel puts before a message."""


def make(
    game_id: str, kwargs: dict[str, Any], render_mode: str | None = None, observation: str = "auto"
) -> ImportedMatch:
    """Create a match of a game such as leduc_poker, or leduc_poker(players=3), with parameters `kwargs`.

    `observation` is information_state, observation, or auto, the first of them that the game has. Texts are rendered.
    Raises `ConfigError` for anything but a game, or if the package is missing.
    """
    if render_mode not in (None, "ansi"):
        raise ConfigError(f"render_mode={render_mode}: OpenSpiel's games are rendered as text; choose ansi")
    return SpielMatch(*open_parts(game_id, kwargs, observation))


def open_parts(game_id: str, kwargs: Mapping[str, Any], observation: str) -> tuple[Any, list[Any], list[int], bool]:
    """Return the game, each player's tensor writer, its shape, and whether rewards arrive before the end.

    Raises `ConfigError` as `make` does.
    """
    if observation not in OBSERVATIONS:
        raise ConfigError(f"env.observation={observation}: is unknown; {choices(observation, OBSERVATIONS)}")
    game = open_game(game_id, kwargs)
    kind = game.get_type()
    has = {"information_state": kind.provides_information_state_tensor, "observation": kind.provides_observation_tensor}
    tensors = [observation] if observation != "auto" else list(has)
    chosen = next((name for name in tensors if has[name]), None)
    if chosen is None:
        other = next((name for name in has if has[name]), None)
        fix = f"; give env.observation={other}" if other else "; choose another game"
        raise ConfigError(f"env.id={game_id}: does not offer a tensor of its {' or '.join(tensors)}{fix}")
    import pyspiel
    from open_spiel.python.observation import make_observation

    recall = pyspiel.IIGObservationType(perfect_recall=True) if chosen == "information_state" else None
    try:
        shape = getattr(game, f"{chosen}_tensor_shape")()
        observers = [make_observation(game, recall) for _ in range(game.num_players())]
        return game, observers, shape, kind.reward_model == pyspiel.GameType.RewardModel.REWARDS
    except Exception as error:  # of games that have less than their type says
        raise ConfigError(f"env.id={game_id}: does not show its {chosen}: {raised(error)}; choose another") from error


def open_game(game_id: str, kwargs: Mapping[str, Any]) -> Any:
    """Return a `pyspiel.Game` that has matches. Raises `ConfigError` for anything else, or without the package."""
    try:
        import pyspiel
    except ImportError as error:
        raise ConfigError(f"env.id={game_id}: needs open_spiel: run `sparring install open-spiel`") from error
    game = _load(pyspiel, game_id, dict(kwargs))
    if game.get_type().dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
        raise ConfigError(f"env.id={game_id}: is a mean field game, without matches; choose a game of players")
    return game


def is_constant_sum(game_id: str, kwargs: Mapping[str, Any]) -> bool:
    """Return whether a game is registered as constant-sum."""
    import pyspiel

    kinds, utility = pyspiel.GameType.Utility, _load(pyspiel, game_id, dict(kwargs)).get_type().utility
    return bool(utility in (kinds.ZERO_SUM, kinds.CONSTANT_SUM))


def is_zero_sum(game_id: str, kwargs: Mapping[str, Any]) -> bool:
    """Return whether a game is registered as zero-sum."""
    import pyspiel

    return bool(_load(pyspiel, game_id, dict(kwargs)).get_type().utility == pyspiel.GameType.Utility.ZERO_SUM)


def _load(pyspiel: Any, game_id: str, kwargs: dict[str, Any]) -> Any:
    """Return the game; its name is checked first, because the package's own message lists all names on many lines.

    `module:name` imports the module first, which registers the game.
    """
    if module := module_of_game("openspiel", game_id):
        module_of(game_id, module)
    try:
        with _silent():
            stated, options = stated_options(game_id)
        name, options = stated.removeprefix(f"{module}:"), options | kwargs
        if str(name).startswith("python_"):  # those in Python are registered by their import
            import_module("open_spiel.python.games")
        registered = pyspiel.registered_names()
        if name not in registered:
            near = suggestion(str(name), registered) or found_elsewhere(str(name))
            raise ConfigError(f"env.id={game_id}: is not a game of OpenSpiel{near}")
        with _silent():
            return pyspiel.load_game(name, options)
    except ConfigError:
        raise
    except Exception as error:  # of several types: SpielError, TypeError for a parameter of another type
        with_options = f" with {kwargs}" if kwargs else ""
        raise ConfigError(f"env.id={game_id}: cannot be made{with_options}: {_spoken(error)}") from error


def stated_options(game_id: str) -> tuple[str, dict[str, Any]]:
    """Split a game such as goofspiel(num_cards=4) into its name and its options."""
    import pyspiel

    module = module_of_game("openspiel", game_id)
    own = game_id.removeprefix(f"{module}:")
    options = pyspiel.game_parameters_from_string(own)
    name = str(options.pop("name", own))
    return f"{module}:{name}" if module else name, options


def _spoken(error: Exception) -> str:
    """Return an exception in one line, without the location in OpenSpiel's source but with the compared values."""
    lines = [PLACE.sub("", line) for line in str(error).strip().splitlines()]
    return f"{type(error).__name__}: {', but '.join(lines[:2])}" if lines else type(error).__name__


@contextmanager
def _silent() -> Iterator[None]:
    """Capture what OpenSpiel writes to stderr before it raises: the exception says the same."""
    sys.stderr.flush()
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)


def seat_rows(asked: Sequence[tuple[SpielMatch, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the observations, float32 [R, F], and legal actions, bool [R, K], of deciding seats.

    `asked` are R pairs of a match, all of one game, and a seat. All are written at once, which is faster than one by
    one. R is at least 1.
    """
    tensors, legal = [], []
    for match, seat in asked:
        tensors.append(match.tensor(seat))
        legal.append(match.legal(seat))
    features = np.concatenate(tensors).reshape(len(asked), -1)
    columns = asked[0][0].columns
    if columns is not None:
        features = np.take_along_axis(features, columns[[seat for _, seat in asked]], axis=1)
    actions: Any = asked[0][0].action_spaces[0]
    mask = np.zeros((len(asked), int(actions.n)), dtype=np.bool_)
    mask[np.repeat(np.arange(len(asked)), list(map(len, legal))), list(chain.from_iterable(legal))] = True
    return features, mask


class SpielMatch:
    """A match of a `pyspiel.Game`; `state` is its current state, for players that need the game itself.

    Each of `observers` writes its player's observation to its own array, which is faster than the lists of `State`.
    Rewards arrive `on_the_way` or only at the end.
    """

    masked = True
    remarks: tuple[str, ...] = ()
    columns: np.ndarray | None = None
    """Indices of a seat's observation in its tensor, int64 [S, F]; None for the whole tensor."""

    def __init__(self, game: Any, observers: list[Any], shape: list[int], on_the_way: bool) -> None:
        self.game, self.over = game, False
        count = game.num_players()
        self.seats = tuple(f"player_{seat}" for seat in range(count))
        box = Box(-np.inf, np.inf, tuple(shape) if len(shape) == 3 else (math.prod(shape),), np.float32)
        self.observation_spaces: list[Space[Any]] = [box] * count
        self.action_spaces: list[Space[Any]] = [Discrete(game.num_distinct_actions())] * count
        self.longest: int | None = game.max_game_length()
        self.rewards = np.zeros(count)
        self.terminated, self.truncated = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        self._tensors, self._shape = [observer.tensor for observer in observers], box.shape
        # the C++ method, if there is one, without the package's wrapper
        self._writers = [getattr(observer, "_observation", observer).set_from for observer in observers]
        self._on_the_way, self._random = on_the_way, random.Random()
        self._seed: int | None = None
        self._turn: list[int] = []
        self._sequential = True  # whether a single player decides next

    def reset(self, seed: int) -> None:
        """See `ImportedMatch.reset`."""
        self._seed = seed
        self.rewards.fill(0.0)
        self.terminated.fill(False)
        self.over = False
        self.state = self.game.new_initial_state()
        if self._on_the_way:
            self._returns = np.zeros(len(self.seats))
        self._advance()

    def deciding(self) -> list[int]:
        """See `ImportedMatch.deciding`."""
        return self._turn

    def observe(self, seat: int) -> np.ndarray:
        """See `ImportedMatch.observe`."""
        return self.tensor(seat).reshape(self._shape).copy()

    def mask(self, seat: int) -> np.ndarray:
        """See `ImportedMatch.mask`."""
        return np.array(self.state.legal_actions_mask(seat), dtype=bool)

    def tensor(self, seat: int) -> np.ndarray:
        """Return a seat's tensor as OpenSpiel writes it, float32 [T]; the next call for the seat overwrites it."""
        self._writers[seat](self.state, seat)
        tensor: np.ndarray = self._tensors[seat]
        return tensor

    def legal(self, seat: int) -> list[int]:
        """Return the legal actions of a deciding seat, in ascending order."""
        legal: list[int] = self.state.legal_actions(seat)
        return legal

    def step(self, actions: Mapping[int, Any]) -> None:
        """See `ImportedMatch.step`."""
        state = self.state
        if self._sequential:
            state.apply_action(actions[self._turn[0]])
            player = state.current_player()
        else:  # a player without a choice has the action 0
            state.apply_actions([actions.get(seat, 0) for seat in range(len(self.seats))])
            player = SIMULTANEOUS
        if player >= 0:  # the usual case
            self._turn = [player]
        else:
            self._advance()
        if self._on_the_way:
            returns = np.array(state.returns())
            self.rewards[:] = returns - self._returns
            self._returns = returns
        elif self.over:
            self.rewards[:] = state.returns()

    def render(self) -> str:
        """Return the state as text."""
        return str(self.state)

    def close(self) -> None:
        """Do nothing: the game holds only memory."""

    def _advance(self) -> None:
        """Sample chance up to the next decision or the end."""
        state = self.state
        while True:
            player = state.current_player()
            if player >= 0:
                self._turn, self._sequential = [player], True
                return
            if player == CHANCE:
                state.apply_action(self._sampled(state.chance_outcomes()))
            elif player == SIMULTANEOUS:
                self._turn = [seat for seat in range(len(self.seats)) if state.legal_actions(seat)]
                self._sequential = False
                if self._turn:
                    return
                state.apply_actions([0] * len(self.seats))
            else:
                break
        self.over, self._turn = True, []
        self.terminated.fill(True)

    def _sampled(self, outcomes: list[tuple[int, float]]) -> int:
        if self._seed is not None:  # games without chance need no generator
            self._random.seed(self._seed)
            self._seed = None
        number = self._random.random()
        for action, probability in outcomes:
            number -= probability
            if number < 0.0:
                return action
        return max(outcomes, key=lambda outcome: outcome[1])[0]  # by rounding
