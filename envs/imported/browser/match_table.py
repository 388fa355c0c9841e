"""A game of PettingZoo on the page: the person sees the game's picture or text, or the numbers of an observation.

A game's picture may show what other seats hide. Until the end it appears only in a game that hides nothing.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from typing import Any, cast

import numpy as np
import torch
from gymnasium.spaces import Discrete
from torch import Tensor

from sparring.agents.play.seat_matches import seat_actions
from sparring.configs.core.errors import InputError
from sparring.envs.imported.browser.table import PersonTable, Seen, TableStep
from sparring.envs.imported.evaluation.players.row_states import RowGame
from sparring.envs.imported.evaluation.policy import ImportedGame
from sparring.envs.imported.match import ImportedMatch, raised_where
from sparring.envs.imported.states import is_open
from sparring.envs.imported.training.opponents import open_seat_player
from sparring.envs.imported.twins import find_twin

MODES = ("rgb_array", "ansi")
"""Render modes in order of preference."""
WIDEST = 480
"""Maximum side of a picture in pixels."""
SEEDS = 2**31


def hides_nothing(game_id: str) -> bool:
    """Return whether a game of PettingZoo is known to have perfect information: OpenSpiel says it of its twin."""
    twin = find_twin(game_id)
    if twin is None or not find_spec("pyspiel"):
        return False
    import pyspiel

    return is_open(pyspiel.load_game(twin.game))


@dataclass(frozen=True)
class OneMatch:
    """A running match in the form of a batch, as players expect it."""

    one: ImportedMatch
    obs: Tensor
    """Rows of the deciding seats, float32 [1, S, D]."""
    deciding: Tensor
    """bool [1, S]."""
    action_size: int

    def match(self, number: int) -> ImportedMatch:
        """Return the match."""
        return self.one


class MatchTable(PersonTable):
    """A game of PettingZoo whose seats choose among numbered actions.

    Raises `InputError` for another game, and for an unknown player, as `open_seat_player` does.
    """

    def __init__(self, game: ImportedGame, opponent: str, seat: int, seed: int, *, open_game: bool) -> None:
        sample = game.match()
        self.game, self._rows = game, game.rows(sample)
        modes = getattr(sample, "env").metadata.get("render_modes", ())  # noqa: B009 - not of the protocol
        sample.close()
        RowGame(self._rows.contract)  # raises an error for actions that are not numbered
        self._mode = next((mode for mode in MODES if mode in modes), None)
        self.title = self.name = game.id
        self.seats, self.told = len(self._rows.seats), open_game or hides_nothing(game.id)
        self._player = open_seat_player(opponent, self._rows.contract, seed=seed)
        self._seeds = np.random.default_rng(seed)
        super().__init__(opponent, seat)

    @property
    def yours(self) -> bool:
        """See `PersonTable.yours`."""
        return self.seat in self.match.deciding() and self.seat not in self._chosen

    @property
    def returns(self) -> Sequence[float]:
        """See `PersonTable.returns`."""
        return self._totals.tolist() if self.match.over else []

    def _deal(self) -> None:
        self.match = self.game.match(self._mode)
        self.match.reset(int(self._seeds.integers(SEEDS)))
        self._memory = torch.zeros(self.seats, self._player.memory_size)
        self._totals, self._last = np.zeros(self.seats), ""
        self._chosen: dict[int, np.ndarray] = {}

    def _legal(self) -> list[tuple[int, str]]:
        mask, space = self.match.mask(self.seat), cast(Discrete, self.match.action_spaces[self.seat])
        actions = range(int(space.n)) if mask is None else np.flatnonzero(mask).tolist()
        return [(action, self._own_number(self.seat, action)) for action in actions]

    def _take(self, action: int) -> None:
        self._last = text_of(self.match.observe(self.seat))
        self._choose({self.seat: np.array([action])})

    def _request(self) -> Callable[[], tuple[list[int], Tensor, Tensor]]:
        seats = [seat for seat in self.match.deciding() if seat not in self._chosen]
        obs, deciding = torch.zeros(1, self.seats, self._rows.size), torch.zeros(1, self.seats, dtype=torch.bool)
        for seat in seats:
            row = self._rows.blank[seat]
            self._rows.write(seat, self.match.observe(seat), row)
            self._rows.write_mask(seat, self.match.mask(seat), row)
            obs[0, seat], deciding[0, seat] = torch.from_numpy(row), True
        asked = OneMatch(self.match, obs, deciding, self._rows.action_size)
        rows = torch.tensor(seats)
        return lambda: (seats, *seat_actions(self._player, asked, rows, self._memory[rows]))  # type: ignore[arg-type]

    def _receive(self, answer: tuple[list[int], Tensor, Tensor]) -> None:
        seats, actions, memory = answer
        self._memory[torch.tensor(seats)] = memory
        self._choose(dict(zip(seats, actions.numpy(), strict=True)))

    def _choose(self, actions: Mapping[int, np.ndarray]) -> None:
        """Store decisions, and make the move once every deciding seat has one."""
        self._chosen |= actions
        deciding = list(self.match.deciding())
        if len(self._chosen) < len(deciding):
            return
        joint = np.zeros((1, self.seats, self._rows.action_size), dtype=np.float32)
        for seat, numbers in self._chosen.items():
            joint[0, seat, : len(numbers)] = numbers
        chosen, self._chosen = self._rows.to_actions(joint), {}
        try:
            self.match.step({seat: chosen[seat][0] for seat in deciding})
        except InputError:
            raise
        except Exception as error:  # any exception of the game's code becomes one line
            raise InputError(f"{self.name}: the game raised {raised_where(error)}") from error
        self._totals += self.match.rewards
        after = self._drawn()
        for seat in deciding:
            self.played.append(TableStep(self._who(seat), self._own_number(seat, int(joint[0, seat, 0])), after))

    def _own_number(self, seat: int, action: int) -> str:
        """Return an action as the game numbers it."""
        return str(action + int(getattr(self.match.action_spaces[seat], "start", 0)))

    def _seen(self) -> Seen:
        if self.returns or self.told:
            whole = self._drawn()
            if whole.text or whole.picture:
                return whole
        return Seen(text_of(self.match.observe(self.seat)) if self.yours else self._last)

    def _drawn(self) -> Seen:
        """Return the game's own picture or text of the position, empty without one."""
        try:
            frame = self.match.render() if self._mode else None
        except Exception as error:  # a game may need a package to draw, or fail; it goes on as text
            return Seen(f"The game cannot draw itself: {raised_where(error)}")
        if isinstance(frame, np.ndarray):
            return Seen("", picture=picture_of(frame))
        return Seen(frame or "")


def picture_of(frame: np.ndarray) -> str:
    """Return an image [H, W, 3] as the address of a PNG of at most `WIDEST` pixels a side."""
    from PIL import Image

    image, written = Image.fromarray(np.asarray(frame, dtype=np.uint8)), BytesIO()
    image.thumbnail((WIDEST, WIDEST))
    image.save(written, "PNG")
    return f"data:image/png;base64,{b64encode(written.getvalue()).decode()}"


def text_of(observation: Any) -> str:
    """Return an observation as text: planes [H, W, C] one below the other, entries of a mapping by name."""
    if isinstance(observation, Mapping):
        parts = {name: text_of(value) for name, value in observation.items() if name != "action_mask"}
        return "\n".join(parts.values() if len(parts) == 1 else (f"{name}:\n{text}" for name, text in parts.items()))
    values = np.asarray(observation)
    if values.dtype == bool:
        values = values.astype(int)
    if values.ndim == 3:
        return "\n\n".join(np.array2string(plane) for plane in np.moveaxis(values, -1, 0))
    return np.array2string(values)
