"""Games of Diplomacy of one policy against six bots of a kind, each power equally often."""

from __future__ import annotations

import torch

from agents.ppo.network import ActorCritic
from agents.table import Table
from envs.diplomacy.batch import DiplomacyBatch


@torch.no_grad()
def play_against(batch: DiplomacyBatch, network: ActorCritic, bot: str, *, seed: int) -> None:
    """Play every game of `batch` from the beginning to its end, the deterministic policy in seat i % 7 of game i.

    The bot also decides the policy's retreats and winters, as in training. How the games ended is in `batch`.
    """
    batch.reset()
    table = Table(batch, (bot,), seed=seed, once=True)
    while not bool(batch.done.all()):
        actions, _ = network.act(table.obs, deterministic=True)
        table.step(actions)
    batch.check()
