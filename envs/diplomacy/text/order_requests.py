"""Prompts of a phase in games of Diplomacy with language models in some seats, and their answers as orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.orders.choices import Choices, choices
from sparring.envs.diplomacy.text.prompts import PromptRules, render
from sparring.envs.text import Answered, Prompt


def seat_bots(batch: DiplomacyBatch, players: Sequence[Sequence[str]]) -> None:
    """Assign the batch's bots to the `players` [G][7] with a bot's name; the other seats stay open."""
    batch.players.copy_(torch.tensor([[_bot(name) for name in game] for game in players]))


def pending_requests(
    batch: DiplomacyBatch,
    players: Sequence[Sequence[str]],
    rules: PromptRules,
    seed: Callable[[int, int], int] = lambda game, power: 0,
) -> list[Prompt]:
    """Return the prompts of all powers with orders to give in running games, except bots, game by game.

    `seed` returns the seed of a power of a game. Games in equal positions, such as new forks, share menus and texts,
    and therefore caches keyed by them.
    """
    known: dict[tuple[bytes, int], tuple[Choices, str]] = {}
    state = {name: tensor.cpu().numpy() for name, tensor in batch.state.items()}
    found = []
    for game in np.flatnonzero(state["done"] == 0).tolist():
        asked = [power for power, name in enumerate(players[game]) if name not in codes.BOTS]
        row = {name: values[game] for name, values in state.items()}
        alike = b"".join(value.tobytes() for value in row.values())
        unknown = [power for power in asked if (alike, power) not in known]
        listed = batch.legal_orders(game) if unknown else {}
        for power in unknown:
            options = choices(row, listed, power)
            text = render(row, power, options, rules, last_year=batch.last_year) if options.lines else ""
            known[alike, power] = options, text
        for power in asked:
            options, text = known[alike, power]
            if options.lines:
                found.append(Prompt(text, options, seed(game, power), row, game, power, players[game][power]))
    return found


def written_orders(batch: DiplomacyBatch, answered: Answered) -> torch.Tensor:
    """Return the answers as orders int32 [G, 75]; 0 for bots and for provinces without an order."""
    orders = np.zeros((batch.num_games, codes.NUM_PROVINCES), dtype=np.int32)
    for prompt, answer in answered:
        menu = prompt.menu
        assert isinstance(menu, Choices)
        menu.write(answer.chosen, orders[prompt.game])
    return torch.from_numpy(orders)


def _bot(name: str) -> int:
    return codes.BOTS.index(name) if name in codes.BOTS else codes.ACTIONS
