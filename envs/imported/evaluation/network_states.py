"""The policy of a network in copies of the states of an OpenSpiel game, as attacks by sampling need it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from sparring.agents.play.exploitability import probabilities
from sparring.envs.imported.rows import SeatRows
from sparring.envs.imported.states import first_state, rows_of
from sparring.eval.paired.response_game import Choices, StateGame, StatePolicy


def network_states(match: Any, encoder: SeatRows, network: Any) -> StateGame:
    """Return the game of `match` with the choices of a network without memory, as it samples."""
    game = match.game
    policy = network_choices(match, encoder, network, deterministic=False)
    return StateGame(
        lambda: first_state(game), game.num_players(), game.min_utility(), game.max_utility(), policy, str(game)
    )


def network_choices(match: Any, encoder: SeatRows, network: Any, *, deterministic: bool) -> StatePolicy:
    """Return the choices of a network without memory in states of its game, its likeliest or as it samples."""
    device = network.log_std.device

    @torch.no_grad()
    def choices(states: Sequence[Any]) -> list[Choices]:
        rows, legal = rows_of(match, encoder, states)
        seen = torch.from_numpy(rows).to(device)
        table = probabilities(network, seen, seen[:, :0], legal, deterministic=deterministic)
        return [[(int(k), float(row[k])) for k in np.flatnonzero(row)] for row in table]

    return choices
