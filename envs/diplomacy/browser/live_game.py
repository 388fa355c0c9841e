"""A game of Diplomacy with a person in one seat and loaded players in the others, saved after each phase.

The person's orders are drafted one by one. Only orders from the list of legal ones are kept, in the list's spelling.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import torch

from sparring.agents.language.opponents import POLICY, Settings
from sparring.agents.opponents.players import Player, display_name
from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, location_name
from sparring.envs.diplomacy.movement_batch import OrderWriter
from sparring.envs.diplomacy.orders.choices import Choices, choices
from sparring.envs.diplomacy.orders.listing import find
from sparring.envs.diplomacy.orders.notation import LETTERS, as_retreat, read_order
from sparring.envs.diplomacy.prompts.report import legal_alike
from sparring.envs.diplomacy.records.history import PhaseRecord, WatchedBatch
from sparring.envs.diplomacy.records.saved_game import save
from sparring.envs.diplomacy.records.timeline import Phase, phases_of
from sparring.envs.diplomacy.rollouts.games import ModelOrders, seated
from sparring.envs.diplomacy.search.beliefs import described
from sparring.envs.diplomacy.search.history import movements
from sparring.envs.diplomacy.search.player import SearchOrders, played_names
from sparring.envs.diplomacy.training.opponents import DiplomacyPlayer, LanguageOptions, LanguagePlayer, open_player
from sparring.envs.text import Option, Prompt

HINTS = "search:seconds=0.5"
WaitingFor = Callable[[str], None]
"""Callback with a line on what the game waits for."""


class PhaseOpponents:
    """Players by power, None for the person; they cannot see or change the person's orders."""

    def __init__(self, players: Sequence[Player | None], loaded: Mapping[Player, DiplomacyPlayer]) -> None:
        self._names = [display_name(player) if player else "" for player in players]
        self._seats = [loaded[player] if player else None for player in players]

    def begin(self) -> None:
        """Draw new secret seeds for the players that search."""
        for player in {id(seat): seat for seat in self._seats if isinstance(seat, SearchOrders)}.values():
            player.reseed(secrets.randbelow(2**31))

    def played(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the `names` of the seats; searches include their seeds."""
        return tuple(played_names(names, self._seats))

    def order(self, batch: DiplomacyBatch, seed: int, waiting_for: WaitingFor) -> None:
        """Write their orders into a batch of one game. Raises `InputError` if a player fails."""
        models = {id(seat): seat for seat in self._seats if isinstance(seat, LanguagePlayer)}
        seats: list[tuple[str | OrderWriter, torch.Tensor]] = [
            (seat, torch.arange(len(POWERS)).unsqueeze(0) == power)
            for power, seat in enumerate(self._seats)
            if seat is not None and not isinstance(seat, LanguagePlayer)
        ]
        seated(batch, seats)
        batch.draw_orders(seed)
        running = (batch.done == 0).unsqueeze(1)
        for player, mask in seats:
            if not isinstance(player, str):
                power = int(mask.int().argmax())
                waiting_for(f"{self._names[power]} orders for {POWERS[power]}")
                player.write(batch, mask & running)
        for model in models.values():
            is_model = [seat is model for seat in self._seats]
            name = self._names[is_model.index(True)]

            def ask(prompts: Sequence[Prompt], name: str = name) -> None:
                waiting_for(f"{name} thinks about {', '.join(POWERS[prompt.seat] for prompt in prompts)}")

            orders = ModelOrders(POLICY, model.models[POLICY], model.rules, seed=seed, ask=ask)
            orders.write(batch, torch.tensor([is_model]) & running)


def load_opponents(
    players: Sequence[Player | None], *, temperature: float | None, settings: Settings, device: str
) -> PhaseOpponents:
    """Load each player once. Raises `InputError` for unusable players, and for options that apply to none of them."""
    distinct = list(dict.fromkeys(player for player in players if player is not None))
    how = LanguageOptions(temperature or 0.0, settings)
    plain = replace(how, settings={})
    loaded = {player: open_player(player, device, language=plain if _is_file(player) else how) for player in distinct}
    models = [player for player in distinct if isinstance(loaded[player], LanguagePlayer)]
    if temperature is not None and not models:
        raise InputError("--temperature: no opponent is a language model; leave it out")
    if settings and all(_is_file(player) for player in models):
        raise InputError("--set: applies only to language models without an adapter and to servers; no opponent is one")
    return PhaseOpponents(players, loaded)


def _is_file(player: Player) -> bool:
    return isinstance(player, Path) and not player.is_dir()


@dataclass(frozen=True)
class HumanSeat:
    """The person's power, the names of the seven players, and the file of the game."""

    power: int
    names: tuple[str, ...]
    file: Path


class LiveDiplomacy:
    """One game: drafts of the person, then `advance` with all orders. Not thread-safe.

    `past` is a game to continue, from `saved_game.load`. Raises `InputError` for one later than `last_year`.
    """

    phases: list[Phase]
    """All phases so far, the current one last; the list is replaced, not changed."""
    choices: Choices
    """The person's legal orders of this phase."""

    def __init__(
        self,
        seat: HumanSeat,
        opponents: PhaseOpponents,
        *,
        seed: int,
        last_year: int,
        past: Sequence[PhaseRecord] = (),
    ) -> None:
        self.seat, self._opponents, self._seed = seat, opponents, seed
        self._past = list(past[:-1])
        self._batch = WatchedBatch(1, last_year=last_year, threads=1)
        self._batch.load_kernels()
        if past:
            over, year = (int(past[-1].position[name]) for name in ("done", "year"))
            if year > last_year and not over:
                raise InputError(f"--last-year {last_year}: the game is in {year} already; give it or a later year")
            self._batch.set_position(0, past[-1].position)
        opponents.begin()
        self._search: SearchOrders | None = None
        self.problem = ""
        """Reason why the last phase was not saved; empty if it was."""
        self._drafts: list[dict[int, Option]] = [{}]
        self._read_position()

    @property
    def over(self) -> bool:
        """True after the last phase."""
        return bool(self._batch.done[0])

    @property
    def out(self) -> bool:
        """True if the person's power has neither units nor centres."""
        units = self._row["units"], self._row["dislodged"]
        has_units = any((codes.power_of(row) == self.seat.power).any() for row in units)
        return not has_units and not (self._row["owner"] == self.seat.power).any()

    @property
    def drafts(self) -> dict[int, Option]:
        """The person's orders by province, in the order in which they were given."""
        return self._drafts[-1]

    @property
    def can_undo(self) -> bool:
        """True if a draft can be undone."""
        return len(self._drafts) > 1

    @property
    def drafted(self) -> Phase:
        """The current phase with the drafts as its orders."""
        orders = [0] * codes.NUM_PROVINCES
        for province, option in self.drafts.items():
            orders[province] = option.value
        return {**self.phases[-1], "orders": orders}

    def draft(self, text: str) -> None:
        """Order in standard notation, replacing an earlier order for the unit; raises `InputError` if not legal."""
        province, option = self._legal(text)
        drafts = {slot: order for slot, order in self.drafts.items() if slot != province} | {province: option}
        if len(drafts) > self.choices.lines:
            what = f"{'build' if self.choices.winter > 0 else 'disband'}{'s' if self.choices.lines > 1 else ''}"
            raise InputError(f"order {text!r}: {self.choices.lines} {what} due; remove another order first")
        self._drafts.append(drafts)

    def drop(self, name: str) -> None:
        """Remove the order of a province, such as PAR; raises `InputError` without one."""
        drafts = {province: draft for province, draft in self.drafts.items() if location_name(province) != name}
        if len(drafts) == len(self.drafts):
            raise InputError(f"{name} does not have an order")
        self._drafts.append(drafts)

    def clear(self) -> None:
        """Remove all orders."""
        if self.drafts:
            self._drafts.append({})

    def undo(self) -> None:
        """Return to the drafts before the last change; raises `InputError` if there was none."""
        if not self.can_undo:
            raise InputError("there is nothing to undo")
        self._drafts.pop()

    def hint(self) -> str:
        """Draft the moves that a search finds for the person's power; return a line with their value.

        Raises `InputError` in other phases than spring and fall.
        """
        if int(self._row["phase"]) not in (codes.SPRING, codes.FALL) or not self.choices.lines:
            raise InputError("a hint is for moves; this phase does not have any")
        self._search = self._search or cast(SearchOrders, open_player(HINTS))
        past = movements(self._records)
        self._search.recall(self._batch, past)
        game = self._search.searched(self._batch, torch.zeros(1, dtype=torch.int64), torch.tensor([self.seat.power]))[0]
        drafts = {}
        for province, legal in zip(self.choices.provinces, self.choices.options, strict=True):
            number = find(int(game.orders[province]), np.array([option.value for option in legal], dtype=np.int32))
            drafts[province] = legal[number]
        self._drafts.append(drafts)
        line = f"the search would order this; it expects a position worth {game.value:.1f} centres after the next fall"
        others = described(self._search.beliefs(self._batch, 0), but=self._silent()) if past else []
        return "; ".join([line, *others])

    def _silent(self) -> set[int]:
        """Return the powers that a search does not query: the person's, and those without a unit."""
        present = set(codes.power_of(self._row["units"]).tolist())
        return {power for power in range(len(POWERS)) if power == self.seat.power or power not in present}

    def advance(self, waiting_for: WaitingFor) -> None:
        """Collect all orders, carry them out and save the game; units of the person without an order hold.

        Raises `InputError` if an opponent fails; the phase and the drafts are then unchanged.
        """
        try:
            self._opponents.order(self._batch, self._seed, waiting_for)
        except BaseException:
            self._batch.orders.zero_()
            raise
        for province, option in self.drafts.items():
            self._batch.orders[0, province] = option.value
        self._batch.process()
        self._batch.check()
        self._drafts = [{}]
        self._read_position()
        try:
            self.save()
            self.problem = ""
        except InputError as error:
            self.problem = f"not saved: {error}"

    def save(self) -> None:
        """Write the game to its file, atomically. Raises `InputError` if it cannot be written."""
        names = self._opponents.played(self.seat.names) if self.over else self.seat.names
        save(self.seat.file, self._records, players=names)

    def close(self) -> None:
        """Stop the simulator's threads."""
        self._batch.close()

    def _read_position(self) -> None:
        self._row = {name: tensor[0].cpu().numpy().copy() for name, tensor in self._batch.state.items()}
        self._records = [*self._past, *self._batch.past()]
        self.choices = choices(self._row, self._batch.legal_orders(0), self.seat.power)
        self.phases = phases_of(self._records)

    def _legal(self, text: str) -> tuple[int, Option]:
        """Return the province and the legal order that a text denotes."""
        order = read_order(text)
        power = POWERS[self.seat.power]
        if order is None:
            raise InputError(f"order {text!r}: a build without an order is waived; leave it out")
        where = location_name(order.province)
        if order.province not in self.choices.provinces:
            raise InputError(f"order {text!r}: {power} cannot order anything in {where} in this phase")
        legal = self.choices.options[self.choices.provinces.index(order.province)]
        unit = int(self._row["dislodged" if int(self._row["phase"]) in codes.RETREATS else "units"][order.province])
        if unit and order.letter not in ("", letter := LETTERS[min((unit - 1) // codes.NUM_POWERS, 1)]):
            raise InputError(f"order {text!r}: the unit in {where} is {letter} {where}")
        listed = np.array([option.value for option in legal], dtype=np.int32)
        meant = as_retreat(order.order) if int(self._row["phase"]) in codes.RETREATS else order.order
        number = find(meant, listed)
        if number < 0:
            alike = legal_alike(meant, order.province, unit, listed)
            raise InputError(f"order {text!r} is not legal now; legal there: {alike}")
        return order.province, legal[number]
