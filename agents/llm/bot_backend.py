"""A scripted bot as a backend: it answers what language models are asked, from the position instead of the prompt.

Whole games with bots in some seats are faster without it (`seats.py`: bots write their orders in the kernels, nobody is
asked); this is for whoever has a backend's place to fill, with a player whose strength is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from sparring.agents.llm.backend import Decision, Request
from sparring.configs.core.errors import InputError, choose
from sparring.envs.diplomacy.batch import STATE, DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.board.positions import LAST_YEAR
from sparring.envs.diplomacy.orders.choices import Option
from sparring.envs.diplomacy.orders.completion import chosen_by


class BotBackend:
    """Bot `name`, one of `codes.BOTS`, with the same draws for the same request whatever else is asked.

    A request must say its `position`. Decisions have no log-probabilities, so nothing can learn from them.
    """

    exact = False

    def __init__(self, name: str, *, threads: int = 1) -> None:
        self.name, self._threads = choose("bot", name, codes.BOTS), threads

    def decide(self, requests: Sequence[Request]) -> list[Decision]:
        """One decision for each request, in order; raises `InputError` for a request without a position."""
        asked = [request for request in requests if request.choices.lines]
        answers = iter(self._answers(asked) if asked else [])
        return [Decision(next(answers) if request.choices.lines else ()) for request in requests]

    def close(self) -> None:
        """Nothing to release."""

    def _answers(self, requests: Sequence[Request]) -> list[tuple[Option, ...]]:
        """What the bot orders, each request's game a game of a batch and its seed the game's number."""
        positions = [_position(request) for request in requests]
        batch = DiplomacyBatch(len(requests), last_year=LAST_YEAR, threads=self._threads)
        batch.load({name: torch.from_numpy(np.stack([row[name] for row in positions])) for name in STATE})
        powers = torch.tensor([request.choices.power for request in requests])
        batch.players.fill_(codes.ACTIONS)
        batch.players[torch.arange(len(requests)), powers] = codes.BOTS.index(self.name)
        batch.game_id.copy_(torch.tensor([request.seed % 2**31 for request in requests]))
        batch.draw_orders(0)
        orders = batch.orders.numpy().copy()
        batch.close()
        return [chosen_by(own, request.choices) for own, request in zip(orders, requests, strict=True)]


def _position(request: Request) -> Mapping[str, np.ndarray]:
    if request.position is None:
        raise InputError(
            f"a request for {POWERS[request.choices.power]} without its position: a bot reads no prompt; give Request"
            " the game's rows, such as DiplomacyParallelEnv.row()"
        )
    return request.position
