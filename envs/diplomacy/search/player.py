"""The player that searches. From the orders in its games it learns who the players of the other powers are."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.board.tensors import power_of
from sparring.envs.diplomacy.movement_batch import OrderWriter
from sparring.envs.diplomacy.search.beliefs import Beliefs, described
from sparring.envs.diplomacy.search.history import Movements, OrderHistory
from sparring.envs.diplomacy.search.policy_model import PolicyModel
from sparring.envs.diplomacy.search.search import NO_HINTS, Hints, OrderSearch, SearchedGame
from sparring.envs.diplomacy.search.settings import BUILT, SearchSettings, with_seed

SIDE_BY_SIDE = 16
"""Most decisions searched at once; their candidates need about 100 MB at most."""
NEXT_GAME = 324_037
"""Difference between the sample ids of consecutive games in one row of a batch."""


class Watched:
    """The orders in the games of one batch, and what they say of the powers."""

    def __init__(self, batch: DiplomacyBatch, candidates: int) -> None:
        self.history, self.beliefs = OrderHistory(batch), Beliefs(batch.num_games, candidates)


class SearchOrders:
    """The player: searches the moves of a power.

    `source`, if any, proposes orders beside the bot. `models` are its models of the other powers that are not bots, as
    order networks (`PolicyModel`) or as writers of orders. Without a seed in the settings, the seed is random and
    secret until `reseed`. Raises `InputError` if `models` lacks a model that the settings name.
    """

    bot = "dumbbot"
    """Bot of its retreats and adjustments."""

    def __init__(
        self,
        settings: SearchSettings,
        source: OrderWriter | None = None,
        models: Mapping[str, OrderWriter | PolicyModel] | None = None,
    ) -> None:
        for name in settings.models:
            if name not in (*codes.BOTS, *BUILT, *(models or {})):
                raise InputError(f"SearchOrders: opponents={name}: missing in `models`; add it, or use open_player")
        self.settings, self._source = settings, source
        self._policies = {name: each for name, each in (models or {}).items() if isinstance(each, PolicyModel)}
        self._writers = {name: each for name, each in (models or {}).items() if not isinstance(each, PolicyModel)}
        self.seed = secrets.randbelow(2**31) if settings.seed is None else settings.seed
        self._search: OrderSearch | None = None
        self._watched: WeakKeyDictionary[DiplomacyBatch, Watched] = WeakKeyDictionary()

    def reseed(self, seed: int) -> None:
        """Set the seed, unless the settings name one, and the seeds of the models that take one."""
        if self.settings.seed is None:
            self.seed = seed % 2**31
            if self._search:
                self._search.reseed(self.seed)
        for number, model in enumerate(self._writers.values(), start=1):
            if hasattr(model, "reseed"):
                model.reseed((seed * 1_000_003 + number) % 2**31)

    def write(self, batch: DiplomacyBatch, seats: Tensor) -> None:
        """Write the moves of the powers `seats` bool [G, 7]; other phases stay as they are."""
        moving = ((batch.phase == codes.SPRING) | (batch.phase == codes.FALL)) & (batch.done == 0)
        owners = power_of(batch.units)
        alive = (owners.unsqueeze(-1) == torch.arange(codes.NUM_POWERS, device=batch.device)).any(dim=1)
        due = torch.nonzero(seats & moving.unsqueeze(1) & alive)
        if not len(due):
            return
        start = time.perf_counter()
        watched = self._watch(batch, due[:, 0].cpu())
        proposed = None if self._source is None else _written(self._source, batch, seats)
        everyone = (batch.done == 0).unsqueeze(1).expand_as(seats)
        foretold = {name: _written(model, batch, everyone).cpu() for name, model in self._writers.items()}
        watched.history.foretell(foretold)
        seconds = (time.perf_counter() - start) / len(due)
        for part in due.split(SIDE_BY_SIDE):
            rows, powers = part.unbind(dim=1)
            own_units = owners[rows] == powers.unsqueeze(1)
            hints = Hints(
                None if proposed is None else proposed[rows].masked_fill(~own_units, 0).cpu(),
                {name: orders[rows.cpu()] for name, orders in foretold.items()},
                seconds=seconds * len(part),
            )
            games = self.searched(batch, rows, powers, hints)
            watched.history.foretell_each(rows.cpu(), [game.foretold for game in games])
            for row, ordered, game in zip(rows.tolist(), own_units, games, strict=True):
                orders = torch.from_numpy(game.orders).to(batch.device)
                batch.orders[row] = torch.where(ordered, orders, batch.orders[row])

    @property
    def positions(self) -> int:
        """Positions searched so far."""
        return self._search.positions if self._search else 0

    def searched(
        self, batch: DiplomacyBatch, rows: Tensor, powers: Tensor, hints: Hints = NO_HINTS
    ) -> list[SearchedGame]:
        """Return the results of the search for `powers` [n] in the games `rows` [n], which are in a movement phase."""
        search = self._opened(batch)
        if watched := self._watched.get(batch):
            hints = replace(hints, shares=watched.beliefs.shares(rows.cpu()))
        state = {name: values[rows].cpu() for name, values in batch.state.items()}
        listed = {row: batch.legal_orders(row) for row in set(rows.tolist())}
        ids = self._ids(batch, rows.cpu()) * codes.NUM_POWERS + powers.cpu()
        return search.choose(state, powers.cpu(), [listed[row] for row in rows.tolist()], ids, hints)

    def recall(self, batch: DiplomacyBatch, past: Iterable[Movements]) -> None:
        """Start without knowledge of the powers, and learn from the movements of a game so far."""
        candidates = self._opened(batch).candidates
        watched = self._watched[batch] = Watched(batch, len(candidates.names))
        for played in past if len(candidates.names) > 1 else ():
            ids = self._ids(batch, played.rows)
            watched.beliefs.learn(played.rows, candidates.log_likelihoods(played, ids, self._opened(batch).seed))

    def beliefs(self, batch: DiplomacyBatch, row: int) -> list[dict[str, float]]:
        """Return for each power the probability of each candidate; empty if there is only one."""
        if (watched := self._watched.get(batch)) is None or len(self.settings.models) == 1:
            return []
        shares = watched.beliefs.shares(torch.tensor([row]))[0].tolist()
        return [dict(zip(self.settings.models, power, strict=True)) for power in shares]

    def _opened(self, batch: DiplomacyBatch) -> OrderSearch:
        if self._search is None or self._search.simulator.batch.last_year != batch.last_year:
            self._search = OrderSearch(self.settings, last_year=batch.last_year, policies=self._policies)
            self._search.reseed(self.seed)
        return self._search

    def _watch(self, batch: DiplomacyBatch, rows: Tensor) -> Watched:
        """Learn from the movements since the last look, and watch the next one of the games `rows`."""
        search = self._opened(batch)
        count = len(search.candidates.names)
        if batch not in self._watched:
            self._watched[batch] = Watched(batch, count)
        watched = self._watched[batch]
        others, past = watched.history.look(batch)
        watched.beliefs.forget(others)
        for played in past if count > 1 else ():
            ids = self._ids(batch, played.rows)
            watched.beliefs.learn(played.rows, search.candidates.log_likelihoods(played, ids, search.seed))
        watched.history.watched[rows] = True
        return watched

    def _ids(self, batch: DiplomacyBatch, rows: Tensor) -> Tensor:
        """Return ids int64 [n] of the games `rows`; a game that replaces another in its row gets another id."""
        ids = batch.game_id.cpu()[rows].long()
        watched = self._watched.get(batch)
        return ids if watched is None else ids + NEXT_GAME * watched.history.restarts[rows]


def played_names(names: Sequence[str], players: Sequence[Any]) -> list[str]:
    """Return the `names` of players; names of searches include the seed that was used."""
    pairs = zip(names, players, strict=True)
    return [with_seed(name, player.seed) if isinstance(player, SearchOrders) else name for name, player in pairs]


def expected(batch: DiplomacyBatch, players: Sequence[Any], row: int = 0) -> list[str]:
    """Return a line for each of the seven players that searches: which players it takes the other powers for.

    The list is empty outside movement phases, because a search plays only these.
    """
    if int(batch.phase[row]) not in (codes.SPRING, codes.FALL):
        return []
    present = set(power_of(batch.units[row]).tolist())
    lines = []
    for power, player in enumerate(players):
        if power in present and isinstance(player, SearchOrders):
            absent = {other for other in range(codes.NUM_POWERS) if other == power or other not in present}
            if believed := described(player.beliefs(batch, row), absent):
                lines.append(f"{POWERS[power]} expects {', '.join(believed)}")
    return lines


def _written(writer: OrderWriter, batch: DiplomacyBatch, seats: Tensor) -> Tensor:
    """Return what a player would order for `seats`, int32 [G, 75], without showing it or changing present orders."""
    before = batch.orders.clone()
    batch.orders.zero_()
    writer.write(batch, seats)
    written = batch.orders.clone()
    batch.orders.copy_(before)
    return written
