"""Complete games of Diplomacy between any players: bots, policies, language models and Python objects.

All games run in parallel. In every phase the kernels write the bots' orders, and each other player writes those of all
its powers in all games. Then all games are adjudicated together. `references` are the games of a learner against fixed
players: alone against six DumbBots, and against six copies of its base model.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import torch

from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.config import DiplomacyGRPORunConfig
from sparring.envs.diplomacy.movement_batch import OrderWriter
from sparring.envs.diplomacy.prompts.prompts import PromptRules
from sparring.envs.diplomacy.prompts.requests import pending_requests, written_orders
from sparring.envs.diplomacy.records.phase_format import orders_by_power
from sparring.envs.diplomacy.rewards.scoring import count_centres, solos
from sparring.envs.text import Prompt, ReferenceTable, TextPlayer, mix

Seats = Sequence[tuple[str | OrderWriter, torch.Tensor]]
"""Players with their powers, bool [G, 7], or [1, 7] for the same in all games; a bot is its name."""
BOT = "dumbbot"
PAST = "Orders of the last phases:\n"
SEED = 0
"""Seed of the bots' draws, the same in every evaluation of every run."""
COLUMNS = {"win_rate": "solos", "survival_rate": "survived", "avg_centers": "centres"}


@torch.no_grad()
def play_to_end(
    batch: DiplomacyBatch, seats: Seats, *, seed: int, after_phase: Callable[[], Any] | None = None
) -> None:
    """Play every game of `batch` from its start to its end, in place.

    Bots draw from `seed`, independently of other games, and stochastic players are reseeded from it. `after_phase` is
    called after every phase. Raises `InputError` if a player fails.
    """
    batch.reset()
    reseed([player for player, _ in seats], seed)
    seats = seated(batch, seats)
    while not bool(batch.done.all()):
        batch.draw_orders(seed)  # for the bots only
        for player, powers in seats:
            if not isinstance(player, str):
                player.write(batch, powers & (batch.done == 0).unsqueeze(1))
        for player, _ in seats:
            if isinstance(player, ModelOrders):
                player.remember(batch)
        batch.process()
        if after_phase is not None:
            after_phase()
    batch.check()


def reseed(players: Iterable[Any], seed: int) -> None:
    """Reseed all stochastic players, each with its own seed."""
    for number, player in enumerate(dict.fromkeys(players)):
        if again := getattr(player, "reseed", None):
            again(2 * seed + number)


def seated(batch: DiplomacyBatch, seats: Seats) -> Seats:
    """Assign the batch's bots to their powers, and leave the others open; return `seats` on the batch's device."""
    batch.players.fill_(codes.ACTIONS)
    seats = [(player, powers.to(batch.device)) for player, powers in seats]
    for player, powers in seats:
        if bot := player if isinstance(player, str) else player.bot:
            batch.players.masked_fill_(powers, codes.BOTS.index(bot))
    return seats


def in_order(players: Sequence[str | OrderWriter]) -> Seats:
    """Return the seats of seven players, one for each power."""
    return list(zip(players, torch.eye(codes.NUM_POWERS).bool().split(1), strict=True))


def one_of_seven(games: int) -> torch.Tensor:
    """Return the seats bool [G, 7] of a player that has power i % 7 of game i."""
    return torch.arange(games).unsqueeze(1) % codes.NUM_POWERS == torch.arange(codes.NUM_POWERS)


def mixed_seats(games: int, kinds: int) -> list[torch.Tensor]:
    """Return the seats bool [G, 7] of `one_of_seven`, then those of each of `kinds` others.

    The others follow it around the powers in turn, one place on after every seven games.
    """
    own = one_of_seven(games)
    place = (torch.arange(codes.NUM_POWERS) - own.int().argmax(1, keepdim=True)) % codes.NUM_POWERS
    turn = (place - 1 + torch.arange(games).unsqueeze(1) // codes.NUM_POWERS) % kinds
    return [own, *((place > 0) & (turn == kind) for kind in range(kinds))]


def seats_of_pairs(pairs: Sequence[tuple[str, str]], games: int) -> dict[str, torch.Tensor]:
    """Return the seats bool [P * G, 7] by player in G games of each pair: one of its seven, and six."""
    seat = one_of_seven(games)
    seats = {name: torch.zeros(len(pairs), games, codes.NUM_POWERS) for name in chain(*pairs)}
    for number, (single, six) in enumerate(pairs):
        seats[single][number] += seat
        seats[six][number] += ~seat
    return {name: seats[name].flatten(0, 1).bool() for name in sorted(seats)}


class ModelOrders:
    """A language model as a player: one batch of prompts per phase, for its powers in all games.

    The random draws of a game depend on `seed` and its `batch.game_id`. `ask` is called with the prompts, `watch` with
    every prompt and decision.
    """

    bot = ""

    def __init__(
        self,
        name: str,
        model: TextPlayer,
        rules: PromptRules,
        *,
        seed: int,
        ask: Callable[[Sequence[Prompt]], Any] | None = None,
        watch: Callable[[Prompt, Any], Any] | None = None,
    ) -> None:
        self._name, self._model, self._rules, self._seed = name, model, rules, seed
        self._ask, self._watch = ask, watch
        self._past: dict[int, deque[str]] = defaultdict(lambda: deque(maxlen=rules.past_orders))

    def write(self, batch: DiplomacyBatch, seats: torch.Tensor) -> None:
        """Write the orders of the powers `seats` bool [G, 7]. Raises `InputError` if the model is not available."""
        games = batch.game_id.tolist()
        when = (batch.year.long() * len(codes.PHASES) + batch.phase.long()).tolist()
        players = [[self._name if seat else BOT for seat in game] for game in seats.tolist()]  # bots are not queried

        def draws(game: int, power: int) -> int:
            return mix(self._seed, games[game], when[game], power)

        pending = pending_requests(batch, players, self._rules, draws, self._lines)
        prompts = [replace(prompt, number=games[prompt.game]) for prompt in pending]
        if not prompts:
            return
        if self._ask is not None:
            self._ask(prompts)
        answered = list(zip(prompts, self._model.decide(prompts), strict=True))
        for prompt, decision in answered if self._watch is not None else ():
            self._watch(prompt, decision)  # type: ignore[misc]
        orders = written_orders(batch, answered).to(batch.device)
        batch.orders.copy_(torch.where(orders != codes.NO_ORDER, orders, batch.orders))

    def remember(self, batch: DiplomacyBatch) -> None:
        """Remember the orders of a phase, before they are carried out, if the prompts show any."""
        if not self._rules.past_orders:
            return
        state = {name: tensor.cpu().numpy() for name, tensor in batch.state.items()}
        for game, orders in enumerate(batch.orders.cpu().numpy()):
            row = {name: values[game] for name, values in state.items()}
            if not row["done"] and orders.any():
                written = [f"{power} {', '.join(texts)}" for power, texts in orders_by_power(orders, row).items()]
                phase = f"{codes.PHASES[int(row['phase'])]} {int(row['year'])}"
                self._past[game].append(f"{phase}: {'; '.join(written)}\n")

    def _lines(self, game: int) -> str:
        """Return the lines of a prompt on earlier phases, the oldest first; empty if there are none."""
        past = self._past[game] if self._rules.past_orders else ()
        return "".join([PAST, *past]) if past else ""


def references(
    config: DiplomacyGRPORunConfig, models: Mapping[str, TextPlayer], *, learner: str, base: str, threads: int
) -> ReferenceTable:
    """Play `config.evaluation.games` games against each opponent, every power in turn.

    Raises `InputError` if a model is not available.
    """
    games, opponents = config.evaluation.games, (BOT, base)
    seats = seats_of_pairs([(learner, name) for name in opponents], games)
    rules = PromptRules.of(config.model)
    players = {name: ModelOrders(name, models[name], rules, seed=SEED) for name in (learner, base)}
    batch = DiplomacyBatch(len(opponents) * games, last_year=config.env.last_year, threads=threads)
    try:
        batch.game_id.copy_(torch.arange(games).repeat(len(opponents)))
        play_to_end(batch, [(players.get(name, name), powers) for name, powers in seats.items()], seed=SEED)
        owners = batch.owner.cpu().split(games)
    finally:
        batch.close()
    scores = {name: measured(owner) for name, owner in zip(opponents, owners, strict=True)}
    return ReferenceTable(COLUMNS, scores, games, heading="against six of", prefix="vs_")


def measured(owner: torch.Tensor) -> dict[str, float]:
    """Return means over games that ended with `owner` [G, 34], for the player with power i % 7 of game i."""
    game = torch.arange(len(owner))
    centres, won = (score(owner)[game, game % codes.NUM_POWERS].double() for score in (count_centres, solos))
    values = {"win_rate": won, "survival_rate": (centres > 0).double(), "avg_centers": centres}
    return {name: float(value.mean()) for name, value in values.items()}
