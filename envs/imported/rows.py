"""Numeric rows for the seats of a game: observation, mask of legal actions and role; actions are read from rows too.

An observation row is `[features F][mask K, if masked][number of the role, if several]`, D columns. Features are
flattened as by `gymnasium.wrappers.FlattenObservation`: Discrete and MultiDiscrete become one-hot, Dict and Tuple are
concatenated. Boxes of uint8 are scaled from their bounds to [0, 1] afterwards, because 255 would saturate a network.
An observation outside of its space is refused, except for numbers outside the bounds of a Box. Seats named together
share a role, and so a policy. By default seats share one if they have equal spaces and names that differ only by a
number, such as adversary_0 and adversary_1. Roles may differ in what they observe and in the alternatives of their
choices: features are padded by zeros, and the mask forbids alternatives that a role does not have.

An action row has A columns: the index of each choice, or the numbers or switches of a Box or MultiBinary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import zip_longest
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple, flatdim, flatten
from gymnasium.vector.utils import iterate

from sparring.configs.core.errors import ConfigError, InputError, listed, suggestion
from sparring.envs.imported.masks import alternatives_of, flat_mask
from sparring.envs.imported.match import ImportedMatch
from sparring.envs.spaces import action_sizes, to_actions

IMAGE_SIDE = 16
"""A uint8 Box with two axes of at least this length is an image; a smaller one, such as a 7 x 7 view, is flattened."""
ENCODED = 2
"""Version of contracts whose spaces version 1 encoded differently: Discrete as equal columns, uint8 unscaled."""
BOARD_SIDE = 5
"""A Box of three axes, two of them at least this long, is a picture: a board with planes, or a small view."""
MOST_SEATS = 62
"""The seats in the lead are bits of an integer of 64 bits."""


def check_spaces(env_id: str, observation: Space[Any], action: Space[Any], *, images: bool = False) -> None:
    """Raise `ConfigError` for spaces without a fixed number of numbers, and for images unless they are supported."""
    for leaf in leaves(observation):
        if not isinstance(leaf, Box | Discrete | MultiBinary | MultiDiscrete):
            supported = "Box, Discrete, MultiBinary, MultiDiscrete, and Dict and Tuple of these"
            raise ConfigError(f"env.id={env_id}: observes {leaf}; supported are {supported}")
        if is_image(leaf) and not images:
            raise ConfigError(
                f"env.id={env_id}: observes images {leaf.shape}, and the networks lack convolutions; give an "
                "environment that observes features, such as a wrapped one registered by your own module"
            )
    if not isinstance(action, Box | Discrete | MultiBinary | MultiDiscrete):
        raise ConfigError(
            f"env.id={env_id}: acts by {action}; supported are Box, Discrete, MultiBinary and MultiDiscrete"
        )


def leaves(space: Space[Any]) -> list[Space[Any]]:
    """Return the spaces inside Dict and Tuple, in the order in which they are flattened."""
    if isinstance(space, Dict):
        return [leaf for inner in space.spaces.values() for leaf in leaves(inner)]
    return [leaf for inner in space.spaces for leaf in leaves(inner)] if isinstance(space, Tuple) else [space]


def is_image(space: Space[Any]) -> bool:
    """Return True for a uint8 Box with two axes of `IMAGE_SIDE` or more."""
    return _is_uint8(space) and sum(side >= IMAGE_SIDE for side in space.shape or ()) >= 2


class FlatObservations:
    """Rows of numbers for observations of `space`: D columns; `version` is the version of their encoding.

    Raises `ConfigError` for an observation of the environment `env_id` outside of `space`.
    """

    def __init__(self, env_id: str, space: Space[Any]) -> None:
        self.id, self.space = env_id, space
        inner = leaves(space)
        self.size = flatdim(space)
        self._scaled = any(map(_is_uint8, inner))
        self._low, self._range = (np.concatenate(columns) for columns in zip(*map(_bounds, inner), strict=True))
        self.version = 1 if isinstance(space, Box) and not self._scaled else ENCODED

    def rows(self, flat: np.ndarray) -> np.ndarray:
        """Return float64 [N, D] for flattened observations [N, ...] of N environments."""
        rows = flat.reshape(len(flat), -1).astype(np.float64)
        return (rows - self._low) / self._range if self._scaled else rows

    def flatten(self, observation: Any) -> np.ndarray:
        """Return a copy of one observation, flattened [D] unless the space is a Box."""
        if isinstance(self.space, Box):
            return self._numbers(self.space, observation, self.space.shape)
        return np.concatenate(self._parts(self.space, observation))

    def flatten_batch(self, observations: Any, space: Space[Any], count: int) -> np.ndarray:
        """Return copies of `count` observations, a member of the vector environment's `space`, flattened [N, ...]."""
        if isinstance(self.space, Box):
            return self._numbers(self.space, observations, (count, *self.space.shape))
        return np.stack([self.flatten(observation) for observation in split(observations, space)])

    def _parts(self, space: Space[Any], value: Any) -> list[np.ndarray]:
        if isinstance(space, Dict):
            if not isinstance(value, Mapping) or value.keys() < space.spaces.keys():
                raise self._refusal(space, value)
            return [part for key, inner in space.spaces.items() for part in self._parts(inner, value[key])]
        if isinstance(space, Tuple):
            if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
                raise self._refusal(space, value)
            pairs = zip(space.spaces, value, strict=True)
            return [part for inner, item in pairs for part in self._parts(inner, item)]
        if isinstance(space, Box):
            return [self._numbers(space, value, space.shape).ravel()]
        if not space.contains(value):
            raise self._refusal(space, value)
        return [np.asarray(flatten(space, value))]

    def _numbers(self, space: Box, value: Any, shape: tuple[int, ...]) -> np.ndarray:
        """Return a copy of `value` in the dtype of a Box; values that do not fit, such as 0.5 in uint8, are refused."""
        try:
            array = np.asarray(value)
        except ValueError:  # lists of unequal lengths
            raise self._refusal(space, value) from None
        if array.shape != shape or array.dtype.kind not in "biuf":
            raise self._refusal(space, value)
        with np.errstate(invalid="ignore", over="ignore"):
            numbers = array.astype(space.dtype)
        if numbers.dtype.kind in "iu" and not np.array_equal(numbers, array):
            raise self._refusal(space, value)
        return numbers

    def _refusal(self, space: Space[Any], value: Any) -> ConfigError:
        kind = type(value).__name__
        what = f"{value.dtype} array {value.shape}" if isinstance(value, np.ndarray | np.generic) else kind
        text = str(value)
        printed = f" {text}" if len(text) <= 60 else ""
        return ConfigError(f"env.id={self.id}: observes{printed} ({what}), outside of {space}; fix one of the two")


def split(observations: Any, space: Space[Any]) -> list[Any]:
    """Return the observations in a batch, a member of a vector environment's `space`."""
    return list(iterate(space, observations))


class SeatRows:
    """Columns of the rows of a game `name` ("env.id=..."), from a match of it.

    `roles` are the seats of each role as `env.roles` names them; without them seats that are alike share one. Raises
    `ConfigError` for spaces that cannot be rows, and for roles that cannot share a network.
    """

    def __init__(
        self, package: str, game_id: str, match: ImportedMatch, kwargs: Mapping[str, Any], roles: Sequence[str] = ()
    ) -> None:
        self.name, self.seats = f"env.id={game_id}", match.seats
        if len(match.seats) > MOST_SEATS:
            raise ConfigError(f"{self.name}: has {len(match.seats)} seats; at most {MOST_SEATS} are supported")
        self.spaces = list(match.action_spaces)
        for observed, acted in zip(match.observation_spaces, self.spaces, strict=True):
            check_spaces(game_id, observed, acted, images=True)
            if not leaves(observed):
                raise ConfigError(f"{self.name}: observes only its mask; add the player's observation")
        self.roles = _named_roles(match, roles) if roles else _roles(match)
        flat = {
            role: FlatObservations(game_id, match.observation_spaces[self.roles.index(role)]) for role in self.roles
        }
        self._flat = [flat[role] for role in self.roles]
        self._plans = [_plan(part) for part in self._flat]
        self.features = max(part.size for part in self._flat)
        self.categorical = isinstance(self.spaces[0], Discrete | MultiDiscrete)
        self._own = [alternatives_of(space) for space in self.spaces]
        self.alternatives = _common(self.name, self.spaces, self._own)
        self._game_masks = match.masked and self.categorical
        self.masked = self._game_masks or any(sizes != self.alternatives for sizes in self._own)
        self.first = np.cumsum([0, *self.alternatives])[:-1]
        self._offsets = self.features + self.first
        self.size_of_mask = sum(self.alternatives) if self.masked else 0
        count = max(self.roles) + 1
        self.mask = slice(self.features, self.features + self.size_of_mask)
        self._padding, self._own_columns = self._paddings()
        self.size = self.mask.stop + (count > 1)
        self.contract = self._contract(package, game_id, kwargs)
        single = not self.categorical
        self.action_size = flatdim(self.spaces[0]) if single else len(self.alternatives)
        discrete = all(isinstance(space, Discrete) for space in self.spaces)
        self._starts = np.array([space.start for space in self.spaces]) if discrete else None  # type: ignore[attr-defined]

    @property
    def blank(self) -> np.ndarray:
        """Rows float32 [S, D] without observations: all alternatives of a seat are legal."""
        rows = np.zeros((len(self.seats), self.size), dtype=np.float32)
        rows[:, self.mask] = self._padding
        if self.size > self.mask.stop:
            rows[:, self.mask.stop] = self.roles
        return rows

    def write(self, seat: int, observation: Any, row: np.ndarray) -> None:
        """Write the features of a seat's observation to its `row` [D] of `blank`.

        Raises `ConfigError` for what is outside the observation space.
        """
        plan = self._plans[seat]
        if plan is not None:
            try:
                for key, shape, dtype, span, low, reach in plan:
                    value = observation if key is None else observation[key]
                    if type(value) is not np.ndarray or value.shape != shape or value.dtype != dtype:
                        break
                    if reach is None:
                        row[span] = value.reshape(-1)
                    else:
                        np.subtract(value.reshape(-1), low, out=row[span])
                        row[span] /= reach
                else:
                    return
            except (KeyError, IndexError, TypeError):
                pass  # the general path raises the error
        flat = self._flat[seat]
        row[: flat.size] = flat.rows(flat.flatten(observation)[None])[0]

    def write_mask(self, seat: int, mask: Any, row: np.ndarray) -> None:
        """Write a seat's mask to its row; without one, all actions are legal. Raises as `masks.flat_mask` does."""
        if not self._game_masks:
            return
        if mask is None:
            row[self.mask] = self._padding[seat]
        else:
            row[self._own_columns[seat]] = flat_mask(mask, self._own[seat], self.seats[seat])

    def check(self, rows: np.ndarray, seats: np.ndarray) -> tuple[int, str]:
        """Return the first of the current rows [R, D] of `seats` [R] whose mask is wrong, and why; "" if none is."""
        if not self._game_masks:
            return 0, ""
        masks = rows[:, self.mask]
        wrong = ((masks != 0.0) & (masks != 1.0)).any(axis=1)
        if wrong.any():
            row = int(wrong.argmax())
            value = masks[row][(masks[row] != 0.0) & (masks[row] != 1.0)][0]
            return row, f"the mask of {self.seats[seats[row]]} holds {value:g}; give 1 for legal actions, 0 for others"
        empty = (np.logical_or.reduceat(masks == 1.0, self.first, axis=1) == 0).any(axis=1)
        if empty.any():
            row = int(empty.argmax())
            return row, f"{self.seats[seats[row]]} decides and its mask allows no action; allow one, or end the match"
        return 0, ""

    def check_actions(self, rows: np.ndarray, actions: np.ndarray, seats: np.ndarray) -> None:
        """Raise `InputError` unless actions [R, A] of `seats` [R] are legal by the observation rows [R, D]."""
        if not self.categorical:
            bad = ~np.isfinite(actions).all(axis=1)
            if bad.any():
                row = int(bad.argmax())
                raise InputError(f"{self.name}: {self.seats[seats[row]]} acts {actions[row]}; give finite numbers")
            return
        with np.errstate(invalid="ignore"):
            index = actions.astype(np.int64)
        bad = (index != actions) | (index < 0) | (index >= self.alternatives)
        if self.masked:
            index[bad] = 0
            bad |= rows[np.arange(len(rows))[:, None], self._offsets + index] != 1.0
        if bad.any():
            row, choice = (int(axis[0]) for axis in np.nonzero(bad))
            which = f" in choice {choice}" if len(self.alternatives) > 1 else ""
            legal = f"an index from 0 to {self.alternatives[choice] - 1}"
            what = f"{legal} that its mask allows" if self.masked else legal
            raise InputError(
                f"{self.name}: {self.seats[seats[row]]} chooses {actions[row, choice]:g}{which}; give {what}"
            )

    def to_actions(self, actions: np.ndarray) -> list[Any]:
        """Return the actions [N] of each seat in its own space, by seat, for action rows [N, S, A].

        Rows of seats that do not decide may hold anything.
        """
        with np.errstate(invalid="ignore"):
            if self._starts is not None:
                by_seat: list[Any] = (actions[:, :, 0].astype(np.int64) + self._starts).T.tolist()
                return by_seat
            used = [len(sizes) if self.categorical else self.action_size for sizes in self._own]
            return [
                to_actions(space, actions[:, seat, : used[seat]], scale=True) for seat, space in enumerate(self.spaces)
            ]

    def _paddings(self) -> tuple[np.ndarray, list[slice | np.ndarray]]:
        """Return the mask [S, K] of the alternatives that a seat has, and the columns of its own mask in a row."""
        padding = np.zeros((len(self.seats), self.size_of_mask), dtype=np.float32)
        columns: list[slice | np.ndarray] = []
        for seat, sizes in enumerate(self._own if self.masked else []):
            parts = [
                first + np.arange(size)
                for first, size in zip(self.first, [*sizes, *[1] * (len(self.alternatives) - len(sizes))], strict=True)
            ]
            padding[seat, np.concatenate(parts)] = 1.0
            at = np.concatenate(parts[: len(sizes)])
            dense = len(at) == at[-1] + 1  # without gaps: a slice is written faster
            columns.append(slice(self.features, self.features + len(at)) if dense else self.features + at)
        return padding, columns

    def _contract(self, package: str, game_id: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        sizes = action_sizes(self.spaces[0])
        if self.categorical:
            several = any(isinstance(space, MultiDiscrete) for space in self.spaces)
            sizes["categorical"] = self.alternatives if several else self.alternatives[0]
        return {
            "id": f"{package}:{game_id}",
            "version": 1,
            "obs_dim": self.size,
            **sizes,
            "masked": self.masked,
            "roles": list(self.roles),
            "picture": self._picture(),
            "kwargs": dict(kwargs),
        }

    def _picture(self) -> list[int]:
        """Return the columns of the picture, as in the contract: those of all roles must be equal."""
        pictures = [_picture(self.name, flat.space) for flat in self._flat]
        if all(picture == pictures[0] for picture in pictures):
            return pictures[0]
        large = next((picture for picture in pictures if picture and min(picture[1], picture[2]) >= IMAGE_SIDE), None)
        if large:
            raise ConfigError(
                f"{self.name}: observes pictures of other sizes by role, one of {large[1]} x {large[2]}; roles with "
                "pictures must observe equal spaces"
            )
        return []


def _roles(match: ImportedMatch) -> list[int]:
    """Return the role of each seat, numbered by their first seats."""
    kinds: list[tuple[Any, ...]] = []
    roles = []
    for name, observed, acted in zip(match.seats, match.observation_spaces, match.action_spaces, strict=True):
        kind = (re.sub(r"\d+", "#", name), observed, acted)
        if kind not in kinds:
            kinds.append(kind)
        roles.append(kinds.index(kind))
    return roles


def _named_roles(match: ImportedMatch, named: Sequence[str]) -> list[int]:
    """Return the role of each seat, numbered by their first seats, where `named` has the names of each role's seats.

    A name may have the wildcards of a shell; several are joined by +.
    """
    key = f"env.roles=[{','.join(named)}]"
    for name in (pattern for text in named for pattern in text.split("+")):
        if not any(fnmatchcase(seat, name) for seat in match.seats):
            near = suggestion(name, match.seats)
            raise ConfigError(f"{key}: {name} is not a seat of this game; it has {listed(match.seats)}{near}")
    chosen: list[int] = []
    for seat in match.seats:
        fits = [k for k, text in enumerate(named) if any(fnmatchcase(seat, pattern) for pattern in text.split("+"))]
        if len(fits) > 1:
            raise ConfigError(f"{key}: {seat} is in {named[fits[0]]} and in {named[fits[1]]}; name it in one of them")
        if not fits:
            raise ConfigError(f"{key}: {seat} is without a policy; add it to one of them, or {seat} as one of its own")
        chosen += fits
    for kind, spaces in (("observe", match.observation_spaces), ("act by", match.action_spaces)):
        for number, role in enumerate(chosen):
            first = chosen.index(role)
            if spaces[number] != spaces[first]:
                pair = f"{match.seats[first]} and {match.seats[number]}"
                unequal = f"they {kind} {spaces[first]} and {spaces[number]}"
                raise ConfigError(f"{key}: {pair} cannot share a policy: {unequal}; give each its own")
    return [list(dict.fromkeys(chosen)).index(role) for role in chosen]


def _common(name: str, spaces: list[Space[Any]], sizes_of: list[list[int]]) -> list[int]:
    """Return the largest number of alternatives of each choice over the roles, 1 for choices that a role lacks."""
    for space, sizes in zip(spaces, sizes_of, strict=True):
        same = type(space) is type(spaces[0]) and flatdim(space) == flatdim(spaces[0])
        if not (sizes and sizes_of[0]) and not same:
            raise ConfigError(
                f"{name}: its players act by {spaces[0]} and by {space}; give all players the same kind of action "
                "space, with equally many numbers or switches"
            )
    return [max(sizes) for sizes in zip_longest(*sizes_of, fillvalue=1)]


def _plan(flat: FlatObservations) -> list[tuple[Any, ...]] | None:
    """Return key, shape, type, columns, lower bound and range of the arrays of an observation; None if it has others.

    This writes rows as `FlatObservations` does, without its checks of each value.
    """
    space = flat.space
    parts = dict(space.spaces) if isinstance(space, Dict) else {None: space}
    if not all(isinstance(part, Box) for part in parts.values()):
        return None
    plan: list[tuple[Any, ...]] = []
    start = 0
    for key, part in parts.items():
        columns = slice(start, start + flatdim(part))
        low = reach = None
        if isinstance(part, Box) and part.dtype == np.uint8:
            low = _single(part.low.ravel().astype(np.float32))
            wide = part.high.ravel().astype(np.float32) - low
            reach = _single(np.where(wide > 0, wide, np.float32(1)))
        plan.append((key, part.shape, part.dtype, columns, low, reach))
        start = columns.stop
    return plan


def _single(numbers: np.ndarray) -> np.ndarray:
    """Return one number, float32 [1], if all are equal, as for most pictures; this is faster."""
    return numbers[:1] if (numbers == numbers[0]).all() else numbers


def _picture(name: str, space: Space[Any]) -> list[int]:
    """Return [start column, height, width, channels, channels first] of the picture in an observation, if any.

    This is the only large one, else the only board.
    """
    boards: list[list[int]] = []
    start = 0
    for leaf in leaves(space):
        shape = _picture_shape(leaf)
        if shape:
            boards.append([start, *shape])
        start += flatdim(leaf)
    large = [board for board in boards if min(board[1], board[2]) >= IMAGE_SIDE]
    if len(large) > 1:
        sizes = " and ".join(f"{board[1]} x {board[2]}" for board in large)
        raise ConfigError(f"{name}: observes pictures of {sizes}; one picture is supported, put the others out of it")
    return large[0] if large else boards[0] if len(boards) == 1 else []


def _picture_shape(space: Space[Any]) -> list[int]:
    """Return height, width, channels, and whether these come first; an empty list for other spaces.

    Two equal axes are the sides; else the shorter of the outer axes holds the channels, the last one if equal.
    """
    if not isinstance(space, Box):
        return []
    shape = space.shape
    if len(shape) == 2:
        return [*shape, 1, 0] if space.dtype == np.uint8 and min(shape) >= IMAGE_SIDE else []
    if len(shape) != 3:
        return []
    a, b, c = shape
    first = b == c if (a == b) != (b == c) else a < c
    sides = (b, c) if first else (a, b)
    return [*sides, a if first else c, int(first)] if min(sides) >= BOARD_SIDE else []


def _is_uint8(space: Space[Any]) -> bool:
    return isinstance(space, Box) and space.dtype == np.uint8


def _bounds(space: Space[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower bound and the range of every column; 0 and 1 where nothing is scaled."""
    size = flatdim(space)
    if not _is_uint8(space):
        return np.zeros(size), np.ones(size)
    assert isinstance(space, Box)
    low, high = (bound.ravel().astype(np.float64) for bound in (space.low, space.high))
    return low, np.where(high > low, high - low, 1.0)
