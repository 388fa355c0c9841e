"""The policy of a network in copies of the states of an OpenSpiel game, as attacks by sampling need it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from sparring.agents.play.exploitability import probabilities
from sparring.envs.imported.rows import SeatRows
from sparring.envs.imported.states import check_copies, first_state, rows_of
from sparring.eval.paired.response_game import Choices, StateGame


def network_states(name: str, match: Any, encoder: SeatRows, network: Any, *, deterministic: bool) -> StateGame:
    """Return the game of `match` with the choices of a network without memory, its likeliest or as it samples.

    Raises `InputError`, which begins with `name`, for hidden information without texts of information states.
    """
    check_copies(name, match.game)
    device = network.log_std.device

    @torch.no_grad()
    def choices(states: Sequence[Any]) -> list[Choices]:
        rows, legal = rows_of(match, encoder, states)
        seen = torch.from_numpy(rows).to(device)
        table = probabilities(network, seen, seen[:, :0], legal, deterministic=deterministic)
        return [[(int(k), float(row[k])) for k in np.flatnonzero(row)] for row in table]

    game = match.game
    ends = game.min_utility(), game.max_utility()
    return StateGame(lambda: first_state(game), game.num_players(), *ends, choices, str(game))
