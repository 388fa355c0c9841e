"""Observations, action masks and infos of the agents after every phase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.interfaces.slots import Slots
from sparring.envs.diplomacy.interfaces.spaces import action_mask
from sparring.envs.diplomacy.observation import observe
from sparring.envs.diplomacy.rewards.scoring import alive, count_centres

Observation = dict[str, np.ndarray]
Info = dict[str, Any]


def living(batch: DiplomacyBatch) -> dict[str, bool]:
    """Return whether each power of the batch's only game is still in play."""
    return dict(zip(POWERS, alive(batch.state)[0].tolist(), strict=True))


def observations(batch: DiplomacyBatch, agents: Sequence[str], slots: Slots) -> dict[str, Observation]:
    """Return each agent's observation and mask; all agents are observed in one batched call."""
    powers = torch.tensor([POWERS.index(agent) for agent in agents], dtype=torch.int64)
    game = {name: values.expand(len(agents), *values.shape[1:]) for name, values in batch.state.items()}
    boards = observe(game, powers, last_year=batch.last_year).numpy()
    return {
        agent: {"observation": board, "action_mask": action_mask(slots[agent])}
        for agent, board in zip(agents, boards, strict=True)
    }


def info(batch: DiplomacyBatch, agent: str, slots: Slots, *, plays_on: bool) -> Info:
    """Return an agent's centres and slots, and its result once it has left the game."""
    power = POWERS.index(agent)
    told: Info = {
        "centres": int(count_centres(batch.owner)[0, power]),
        "provinces": np.array([province for province, _ in slots[agent]], dtype=np.int64),
        "orders": [listed for _, listed in slots[agent]],
    }
    if not plays_on:
        winner = int(batch.winner[0])
        lost = "lost" if winner >= 0 else "draw" if living(batch)[agent] else "eliminated"
        told["result"] = "won" if winner == power else lost
    return told
