"""External players in PettingZoo games.

Zips, ONNX models and HTTP agents use the same code as in OpenSpiel games, on `RowState`s. Python objects are the same
as in training: `act(obs, mask)` for a batch, or `choose(match, seat)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sparring.agents.opponents.onnx_file import read_contract
from sparring.agents.opponents.players import find_checkpoint
from sparring.agents.play.seat_matches import SeatPlayer, seat_actions
from sparring.configs.core.errors import InputError
from sparring.configs.games import is_imported
from sparring.configs.opponents import is_code
from sparring.envs.imported.batch import MatchBatch
from sparring.envs.imported.evaluation.players.row_states import RowGame
from sparring.envs.imported.evaluation.players.state_players import READERS, REPLAYED, WALKS, Asked, open_player
from sparring.envs.imported.evaluation.players.state_seats import StateSeats
from sparring.envs.imported.training.opponents import (
    RandomSeats,
    load_seat_policy,
    open_seat_player,
)

BY_ROWS = ("http", "https")
"""State players, besides those in `FILES`, that can play any game."""


class AskedSeats(Asked):
    """A Python object in a batch of matches, timed."""

    memory_size = 0

    def __init__(self, player: SeatPlayer) -> None:
        super().__init__(player.name)
        self._player = player

    def reseed(self, seed: int) -> None:
        """Restart the random numbers of the object."""
        self._player.reseed(seed)

    def act(self, obs: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions [B, A] for rows [B, D], and `memory` as it is."""
        return self.timed(len(obs), lambda: self._player.act(obs, memory))

    def choose_rows(self, batch: MatchBatch, rows: Tensor) -> Tensor:
        """Return actions [R, A] for `rows` [R] of the N * S seats of a batch."""
        memory = torch.zeros(len(rows), 0)
        return self.timed(len(rows), lambda: seat_actions(self._player, batch, rows, memory)[0])


@dataclass(frozen=True)
class RowPlayer:
    """An external player, or a policy of this project."""

    asked: Asked | None
    """Timer of its answers; None for a policy."""
    seats: Callable[[bool], SeatPlayer]
    """The player, sampling or greedy; an object has only one way to act."""

    def check_twice(self, batch: MatchBatch) -> None:
        """Query up to `REPLAYED` decisions of random games twice. Raises `InputError` if answers differ."""
        player, random = self.seats(True), RandomSeats(batch.contract)
        asked = changed = 0
        for move in range(WALKS):
            rows = batch.deciding.flatten().nonzero().squeeze(1)
            shown, answers = batch.obs.flatten(0, 1)[rows], list[Tensor]()
            for _ in range(2):
                player.reseed(move)
                answers.append(seat_actions(player, batch, rows, torch.zeros(len(rows), player.memory_size))[0])
            asked += len(rows)
            changed += int((answers[0] != answers[1]).any(1).sum())
            if asked >= REPLAYED:
                break
            actions = torch.zeros(batch.num_envs * batch.seats, batch.action_size)
            actions[rows] = random.act(shown, torch.zeros(len(rows), 0))[0]
            batch.step(actions.unflatten(0, (batch.num_envs, -1)))
        if changed:
            raise InputError(
                f"{player.name}: {changed} of {asked} answers changed when asked again; fix its seed, or give the "
                "object reseed(seed)"
            )


def open_row_player(text: str, contract: Mapping[str, Any]) -> RowPlayer:
    """Return the player that `text` names, in matches of a contract. Raises `InputError` for one of other games."""
    if is_code(text):
        asked = AskedSeats(open_seat_player(text, contract))
        return RowPlayer(asked, lambda sampled: asked)
    kind = text.partition(":")[0]
    if (kind in READERS and kind not in BY_ROWS) or text.endswith(".json"):
        raise InputError(f"{text}: plays only OpenSpiel games, but this is {contract['id']}; name another player")
    if kind in BY_ROWS or (text.endswith((".zip", ".onnx")) and not _own(text)):
        player, game = open_player(text, RowGame(contract)), RowGame(contract)
        return RowPlayer(player, lambda sampled: StateSeats(player if sampled else player.likeliest, text, game=game))
    file = find_checkpoint(text)
    return RowPlayer(None, lambda sampled: load_seat_policy(file, contract, deterministic=not sampled))


def _own(text: str) -> bool:
    """Return whether a file is a model that this project exported."""
    return text.endswith(".onnx") and is_imported(read_contract(find_checkpoint(text)))
