"""Promotion of the learner into the pool, decided by a sequential test of seat-swapped games with the newest snapshot.

H0: it is no stronger; H1: it is `promotion_elo` stronger (curriculum/sprt.py). Both sample their actions, as
in training, under the current physics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from sparring.agents.play.matches import MatchSettings, play
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.networks import build_network
from sparring.agents.policies.policy import Policy
from sparring.configs.schema import SelfPlayConfig
from sparring.curriculum.sprt import SCORES, Hypotheses, SPRTVerdict, count_pairs, judge

GAMES_AT_ONCE = 64


class Promotion:
    """Test of candidates under `setting`; `contract` is that of the run's policies, `seed` seeds the games."""

    def __init__(
        self, config: SelfPlayConfig, setting: MatchSettings, contract: Mapping[str, Any], *, seed: int
    ) -> None:
        self.config, self.setting, self.contract, self.seed = config, setting, contract, seed

    def test(
        self, candidate: ActorCritic, champion: Mapping[str, Tensor], update: int, ranges: np.ndarray
    ) -> SPRTVerdict:
        """Test `candidate` against a snapshot's weights, in physics drawn from `ranges` [13, 2]."""
        holder = build_network(candidate.shape).to(candidate.log_std.device)
        holder.load_state_dict(dict(champion))
        networks = {"the learner": candidate, "the newest snapshot": holder}
        left, right = (Policy(net, self.contract, name=name, deterministic=False) for name, net in networks.items())
        hypotheses, setting = Hypotheses(0.0, self.config.promotion_elo), replace(self.setting, ranges=ranges)
        pairs = np.zeros(len(SCORES), dtype=np.int64)
        for batch in range(max(self.config.promotion_games // GAMES_AT_ONCE, 1)):
            games = min(self.config.promotion_games // 2 * 2, GAMES_AT_ONCE)
            seed = (self.seed + update * 1000 + batch) % 2**31
            pairs += count_pairs(play(left, right, games=games, seed=seed, setting=setting).outcome)
            verdict = judge(pairs.tolist(), hypotheses)
            if verdict.accepted:
                break
        return verdict
