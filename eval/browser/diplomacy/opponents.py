"""Players of the other six powers, loaded: all of them order for one phase of one game."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from sparring.agents.opponents.diplomacy import PolicyOrders, PythonOrders, order_player
from sparring.agents.opponents.players import Player, display_name
from sparring.configs.core.errors import InputError
from sparring.configs.opponents import is_code
from sparring.envs.diplomacy import GAME
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.prompts.requests import pending_requests, written_orders
from sparring.envs.text import mix
from sparring.eval.diplomacy.models import POLICY, LanguagePlayer, load
from sparring.eval.diplomacy.settings import Settings

Loaded = str | PolicyOrders | PythonOrders | LanguagePlayer
"""A bot by its name, or an object."""
WaitingFor = Callable[[str], None]
"""Takes a line on what is being waited for."""


class PhaseOpponents:
    """Players by power, None for the person, whose orders they neither see nor change."""

    def __init__(self, players: Sequence[Player | None], loaded: Mapping[Player, Loaded]) -> None:
        self._names = [display_name(player) if player else "" for player in players]
        self._seats = [loaded[player] if player else None for player in players]
        self._bots = torch.tensor([_bot_of(seat) for seat in self._seats], dtype=torch.int32)

    def order(self, batch: DiplomacyBatch, seed: int, waiting_for: WaitingFor) -> None:
        """Write their orders into a batch of one game. Raises `InputError` if a player fails."""
        batch.players.copy_(self._bots[None])
        batch.draw_orders(seed)
        running = ~batch.done.bool()
        for power, seat in enumerate(self._seats):
            if isinstance(seat, PolicyOrders | PythonOrders):
                waiting_for(f"{self._names[power]} orders for {POWERS[power]}")
                seat.write(batch, power, running)
        models = {id(seat): seat for seat in self._seats if isinstance(seat, LanguagePlayer)}
        for model in models.values():
            self._ask(model, batch, seed, waiting_for)

    def _ask(self, model: LanguagePlayer, batch: DiplomacyBatch, seed: int, waiting_for: WaitingFor) -> None:
        """Let a language model order for all its powers in one call."""
        mine = [seat is model for seat in self._seats]
        asked = [[POLICY if own else codes.BOTS[0] for own in mine]]  # bots are not asked
        when = int(batch.year[0]) * len(codes.PHASES) + int(batch.phase[0])
        prompts = pending_requests(batch, asked, model.rules, lambda game, power: mix(seed, when, power))
        if not prompts:
            return
        powers = ", ".join(POWERS[prompt.seat] for prompt in prompts)
        waiting_for(f"{self._names[mine.index(True)]} thinks about {powers}")
        decisions = model.models[POLICY].decide(prompts)
        orders = written_orders(batch, list(zip(prompts, decisions, strict=True)))
        batch.orders.copy_(torch.where(orders != codes.NO_ORDER, orders, batch.orders))


def load_opponents(
    players: Sequence[Player | None], *, temperature: float | None, settings: Settings, device: str
) -> PhaseOpponents:
    """Load each player once. Raises `InputError` for unusable players, and for options that none of them has."""
    distinct = list(dict.fromkeys(player for player in players if player is not None))
    loaded = {player: _load(player, temperature or 0.0, settings, device) for player in distinct}
    models = [player for player in distinct if isinstance(loaded[player], LanguagePlayer)]
    if temperature is not None and not models:
        raise InputError("--temperature: no opponent is a language model; leave it out")
    if settings and all(_is_file(player) for player in models):
        raise InputError("--set: is for language models without an adapter, and servers; no opponent is one")
    return PhaseOpponents(players, loaded)


def _load(player: Player, temperature: float, settings: Settings, device: str) -> Loaded:
    if player in GAME.bots:
        return str(player)
    if is_code(player):
        return order_player(player)
    own = {} if _is_file(player) else settings
    found = load(player, temperature=temperature, device=device, settings=own)
    return found if isinstance(found, LanguagePlayer) else PolicyOrders(found)


def _is_file(player: Player) -> bool:
    return isinstance(player, Path) and not player.is_dir()


def _bot_of(seat: Loaded | None) -> int:
    """Return the number of the bot that orders for a seat in the simulator, a policy's for its retreats and winters."""
    name = seat if isinstance(seat, str) else seat.bot if isinstance(seat, PolicyOrders) else ""
    return codes.BOTS.index(name) if name else codes.ACTIONS
