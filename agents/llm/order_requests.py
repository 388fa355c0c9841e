"""Games of Diplomacy with language models in some seats: who is to be asked in a phase, and with which prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from sparring.agents.llm.backend import Request
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.orders.choices import Choices, choices
from sparring.envs.diplomacy.text.prompts import PromptRules, render


@dataclass(frozen=True)
class OrderRequest:
    """A language model to be asked: a power of a game, its player, and what it may order."""

    game: int
    power: int
    player: str
    choices: Choices
    prompt: str
    position: Mapping[str, np.ndarray]

    def request(self, seed: int) -> Request:
        """What its player is asked, with the draws of `seed`."""
        return Request(self.prompt, self.choices, seed, self.position)


def seat_bots(batch: DiplomacyBatch, players: Sequence[Sequence[str]]) -> None:
    """Let the batch's bots play for the `players` [G][7] that have a bot's name, and nobody for the others."""
    batch.players.copy_(torch.tensor([[_bot(name) for name in game] for game in players]))


def pending_requests(batch: DiplomacyBatch, players: Sequence[Sequence[str]], rules: PromptRules) -> list[OrderRequest]:
    """Everybody who has something to order in a game that goes on and is no bot, game by game.

    Games that stand alike, as forks do at first, share their choices and prompts, and so what is made of these.
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
            prompt = render(row, power, options, rules, last_year=batch.last_year) if options.lines else ""
            known[alike, power] = options, prompt
        for power in asked:
            options, prompt = known[alike, power]
            if options.lines:
                found.append(OrderRequest(game, power, players[game][power], options, prompt, row))
    return found


def mix(*numbers: int) -> int:
    """One number in [0, 2^31) from several, the same everywhere."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0]) >> 1


def _bot(name: str) -> int:
    return codes.BOTS.index(name) if name in codes.BOTS else codes.ACTIONS
