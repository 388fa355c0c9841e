"""Test whether a PettingZoo game and its OpenSpiel twin are equal by playing the same games, move by move.

Both must agree on who decides, the legal actions, how the game ends, its rewards and the deciding seat's observation.
They are compared in games of random legal actions and in fixed games for rules that random play seldom reaches. The
first difference rejects the twin.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.opponents import is_code
from sparring.envs.imported import pettingzoo, twins
from sparring.envs.imported.config import ImportedEnvConfig
from sparring.envs.imported.masks import draw_legal
from sparring.envs.imported.match import ImportedMatch, raised
from sparring.envs.imported.openspiel import seat_rows
from sparring.envs.imported.rows import SeatRows
from sparring.envs.imported.twins import Twin, TwinMatch, find_twin

GAMES = 200
"""Number of random games to replay."""
NAMED = 4
"""Maximum number of actions listed in a difference."""


@dataclass(frozen=True)
class Equality:
    """Result of a test."""

    twin: Twin
    difference: str
    """The first difference, empty for equal games."""
    games: int
    """Number of equal random games."""
    faster: float
    """Time of PettingZoo's game divided by the twin's."""


def equality(game_id: str, kwargs: Mapping[str, Any]) -> Equality:
    """Test the twin of a PettingZoo game with options `kwargs`; the result is cached per process.

    Raises `ConfigError` without a twin, without OpenSpiel, or for an option that the twin lacks.
    """
    return _tested(game_id, tuple(sorted(kwargs.items())))


@cache
def _tested(game_id: str, options: tuple[tuple[str, Any], ...]) -> Equality:
    kwargs = dict(options)
    twin_match = twins.make(game_id, kwargs)
    match = pettingzoo.make(game_id, kwargs)
    replay = _Replay(match, twin_match, SeatRows("pettingzoo", game_id, match, kwargs))
    difference, games = "", 0
    try:
        for name, line in _games(twin_match.twin, kwargs):
            if what := replay.difference(games, line):
                difference = f"{name}, after {replay.moves} moves: {what}"
                break
            games += not line
        kind = twin_match.game.get_type()
        if not difference and kind.chance_mode.name != "DETERMINISTIC":
            difference = "it samples chance differently, so the games cannot be compared"
        if not difference and not twin_match.twin.columns:
            difference = "PettingZoo's observations cannot be built from its tensor"
    finally:
        match.close()
    return Equality(twin_match.twin, difference, games, replay.seconds[0] / max(replay.seconds[1], 1e-9))


def _games(twin: Twin, kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield the label and the actions of each game to replay; random games have no actions."""
    yield from (("a known game", line) for line in twin.lines(kwargs))
    yield from ((f"random game {number + 1}", ()) for number in range(GAMES))


class _Replay:
    """Both games, played with the same actions."""

    def __init__(self, match: ImportedMatch, twin: TwinMatch, rows: SeatRows) -> None:
        self._match, self._twin, self._rows = match, twin, rows
        self._random = np.random.default_rng(0)
        self.moves, self.seconds = 0, [0.0, 0.0]

    def difference(self, seed: int, line: Sequence[int]) -> str:
        """Play a game along `line`, or with random legal actions without one; return the first difference, or ""."""
        match, twin = self._match, self._twin
        try:
            match.reset(seed)
            twin.reset(seed)
            self.moves, following = 0, iter(line)
            while True:
                if what := self._unequal():
                    return what
                if match.over or (line and self.moves == len(line)):
                    return ""
                actions = {seat: next(following, None) for seat in match.deciding()}
                for seat, action in actions.items():
                    if action is None:
                        actions[seat] = draw_legal(match.action_spaces[seat], match.mask(seat), self._random)
                started = time.perf_counter()
                match.step(actions)
                middle = time.perf_counter()
                twin.step(actions)
                self._spend(middle - started, time.perf_counter() - middle)
                self.moves += 1
        except InputError:
            raise
        except Exception as error:  # of either game
            return raised(error)

    def _unequal(self) -> str:
        """Return the difference in the current position, or ""."""
        match, twin, name = self._match, self._twin, self._twin.twin.name
        if match.over != twin.over:
            ends, goes_on = ("PettingZoo", name) if match.over else (name, "PettingZoo")
            return f"the game ends in {ends} but continues in {goes_on}"
        for what in ("rewards", "terminated", "truncated"):
            values, others = getattr(match, what), getattr(twin, what)
            if (values != others).any():
                seat = int((values != others).argmax())
                return f"{what} of {match.seats[seat]} is {values[seat]:g}, but {others[seat]:g} in {name}"
        if match.deciding() != twin.deciding():
            deciding, others = (", ".join(match.seats[seat] for seat in m.deciding()) for m in (match, twin))
            return f"{deciding} decides, but {others} in {name}"
        for seat in match.deciding():
            if what := self._unequal_rows(seat):
                return what
        return ""

    def _unequal_rows(self, seat: int) -> str:
        """Return the difference in a deciding seat's legal actions or observation, or ""."""
        match, twin, rows, name = self._match, self._twin, self._rows, self._twin.twin.name
        mask = match.mask(seat)
        legal = np.ones(len(twin.mask(seat)), dtype=bool) if mask is None else np.asarray(mask) == 1
        other = twin.mask(seat)
        who = match.seats[seat]
        if (legal != other).any():
            only, others = (np.flatnonzero(side).tolist() for side in (legal & ~other, other & ~legal))
            actions = ", ".join(map(str, (only or others)[:NAMED]))
            where = ("PettingZoo", name) if only else (name, "PettingZoo")
            return f"{who} may take {actions} in {where[0]} but not in {where[1]}"
        if not twin.twin.columns:
            return ""
        row, rebuilt = rows.blank[seat], rows.blank[seat]
        started = time.perf_counter()
        rows.write(seat, match.observe(seat), row)
        rows.write_mask(seat, mask, row)
        middle = time.perf_counter()
        rebuilt[: rows.features], rebuilt[rows.mask] = (part[0] for part in seat_rows([(twin, seat)]))
        self._spend(middle - started, time.perf_counter() - middle)
        if (row != rebuilt).any():
            column = int((row != rebuilt).argmax())
            return f"{who} observes {row[column]:g} in column {column}, but {rebuilt[column]:g} in {name}"
        return ""

    def _spend(self, seconds: float, of_twin: float) -> None:
        self.seconds[0] += seconds
        self.seconds[1] += of_twin


def chosen(env: ImportedEnvConfig, opponents: Sequence[str]) -> tuple[bool, str]:
    """Return whether a run plays the twin of its game under `env.twin`, and a line that reports the choice.

    `auto` plays PettingZoo's own game if an opponent is a Python object, since it may read the match. The line is empty
    if there is nothing to choose. Raises `ConfigError` for `on` without an equal twin.
    """
    if env.package != "pettingzoo" or env.twin == "off":
        return False, ""
    twin = find_twin(env.id)
    if twin is None:
        if env.twin == "on":
            twins.make(env.id, env.kwargs)  # refuses it
        return False, ""
    start = f"env.twin={env.twin}"
    objects = [text for text in opponents if is_code(text)]
    if env.twin == "auto" and objects:
        reason = f"{objects[0]} is a Python object that may read them"
        return False, f"{start}: playing PettingZoo's own matches, since {reason}"
    if env.twin == "auto" and find_spec("pyspiel") is None:
        return False, f"{start}: playing PettingZoo's own matches; for faster ones run `sparring install open-spiel`"
    try:
        tested = equality(env.id, env.kwargs)
        difference = tested.difference
    except ConfigError as error:
        if env.twin == "on":
            raise
        difference = str(error)
    if not difference:
        return True, f"{start}: {described(tested)}"
    if env.twin == "on":
        raise ConfigError(f"{start}: OpenSpiel's {twin.name} differs from {env.id}: {difference}; set env.twin=off")
    return False, f"{start}: playing PettingZoo's own matches, since OpenSpiel's {twin.name} differs: {difference}"


def described(tested: Equality) -> str:
    """Describe a passed test."""
    same = "decisions, legal actions, observations, rewards and ends"
    return f"playing OpenSpiel's {tested.twin.name}: {same} were equal in {tested.games} random games"
