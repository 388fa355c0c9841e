"""Games of a policy of Diplomacy against six of a kind, as in training: one movement phase of all games a step.

`envs/diplomacy/rollouts/games.py` plays games of any seven players.
"""

from __future__ import annotations

import numpy as np
import torch

from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.movement_batch import MovementBatch, OrderWriter


@torch.no_grad()
def play_against(batch: DiplomacyBatch, network: ActorCritic, opponent: str | OrderWriter, *, seed: int) -> None:
    """Play every game of `batch` from start to end, the deterministic policy in seat i % 7 of game i.

    A bot as the opponent also decides the policy's retreats and adjustments, as in training; beside another opponent a
    DumbBot does. The results are in `batch`.
    """
    batch.reset()
    writers = () if isinstance(opponent, str) else (opponent,)
    movements = MovementBatch(batch, seed=seed, autoreset=False, writers=writers)
    env = LearnerEnv(movements, bots=(*codes.BOTS, *map(str, writers)), seed=0)
    number = codes.BOTS.index(opponent) if isinstance(opponent, str) else len(codes.BOTS)
    env.assign(np.full(batch.num_games, number))
    while not bool(batch.done.all()):
        actions, _ = network.act(env.obs, deterministic=True)
        env.step(actions)
    batch.check()
