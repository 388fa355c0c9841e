"""Forked games played to their horizon: every decision of the learner with what it was paid, and how the games ended.

A phase at a time: bots write their orders in the kernels, language models are asked once for all games and powers at
the same time, and everything is adjudicated together. A player that cannot answer fails its game; the others go on,
and the failure is counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch

from sparring.agents.grpo.objective.groups import BeforeMove
from sparring.agents.grpo.rollouts.decide_batch import decide_batch
from sparring.agents.grpo.rollouts.fork import Warmup, warmed_up
from sparring.agents.grpo.rollouts.forked_games import Ending, ForkedGames
from sparring.agents.grpo.rollouts.plan import RolloutPlan
from sparring.agents.llm.backend import Backend, Decision
from sparring.configs.schema import RunConfig
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.rewards.reward_rules import RewardRules
from sparring.envs.diplomacy.rewards.sample_reward import sample_rewards
from sparring.envs.diplomacy.rewards.scorer import Scorer
from sparring.envs.diplomacy.text.prompts import PromptRules


@dataclass(frozen=True)
class DecisionRecord:
    """A decision of the learner: in which game, as which power, in which of the rollout's phases, and what it knew."""

    decision: Decision
    game: int
    power: int
    phase: int
    before: BeforeMove
    lines: int


@dataclass
class RolloutBatch:
    """What one plan became: `rewards` float64 [len(turns)]."""

    plan: RolloutPlan
    turns: list[DecisionRecord]
    rewards: np.ndarray
    endings: list[Ending]
    failed: int
    years: float
    seconds: float
    alerts: list[str] = field(default_factory=list)
    cache: dict[str, float] = field(default_factory=dict)
    """What reading prompts cost, `cache/...`, from whoever played."""


class Rollouts:
    """Plays plans; `backend_of` has a model for the name of every player that is no bot."""

    def __init__(self, config: RunConfig, backend_of: Callable[[str], Backend], *, threads: int = 1) -> None:
        grpo, model = config.grpo, config.model
        self._backend_of = backend_of
        self._last_year = config.env.last_year
        self._rules = PromptRules.of(model)
        self._warmup = Warmup(grpo.rollout_warmup_player, self._rules, backend_of)
        self.rewards = RewardRules(
            win_bonus=grpo.win_bonus,
            winner_threshold_sc=grpo.winner_threshold_sc,
            use_position_scoring=grpo.use_position_scoring,
            reward_discount_gamma=grpo.reward_discount_gamma,
            use_strategic_step_scoring=grpo.use_strategic_step_scoring,
            use_trajectory_level_rewards=grpo.use_trajectory_level_rewards,
            use_elo_conditioned_rewards=grpo.use_elo_conditioned_rewards,
            elo_scale=grpo.elo_scale,
        )
        games = grpo.groups * grpo.samples_per_group
        self._masters = DiplomacyBatch(grpo.groups, last_year=self._last_year, threads=threads)
        self._batch = DiplomacyBatch(games, last_year=self._last_year, threads=threads)

    def play(self, plan: RolloutPlan) -> RolloutBatch:
        """Play the plan's games; the same plan and weights give the same batch."""
        begun = time.perf_counter()
        table = ForkedGames(self._batch, warmed_up(self._masters, plan.groups, self._warmup), plan)
        scorer = Scorer({"strategic" if self.rewards.use_strategic_step_scoring else "dense": 1.0})
        scorer.begin(table.batch.state, table.influence)
        turns: list[DecisionRecord] = []
        steps: list[torch.Tensor] = []
        while table.playing.any():
            before, playing = table.batch.snapshot(), torch.from_numpy(table.playing)
            turns += self._decide(table, len(steps))
            table.process(len(steps))
            earned = scorer.score(before, table.batch.state, table.batch.results)
            steps.append(earned * playing.to(earned.device).unsqueeze(1))
        rewards = self._pay(table, torch.stack(steps), turns)
        good = [number for number, turn in enumerate(turns) if turn.game not in table.failed]
        return RolloutBatch(
            plan=plan,
            turns=[turns[number] for number in good],
            rewards=rewards[good],
            endings=table.endings(),
            failed=len(table.failed),
            years=table.years(),
            seconds=time.perf_counter() - begun,
            alerts=[f"a game failed: {why}" for why in sorted(set(table.failed.values()))],
        )

    def close(self) -> None:
        """End the simulators' threads."""
        self._masters.close()
        self._batch.close()

    def _decide(self, table: ForkedGames, phase: int) -> list[DecisionRecord]:
        """Write the orders of every language model, and return what the learner decided."""
        seats, orders, turns = table.pending_requests(self._rules), table.orders(), []
        for player in sorted({seat.player for seat in seats}):
            asked = [seat for seat in seats if seat.player == player and seat.game not in table.failed]
            decided = decide_batch(
                partial(self._backend_of, player), asked, seed=partial(table.seed, phase), fail=table.fail
            )
            for seat, decision in decided:
                seat.choices.write(decision.chosen, orders[seat.game])
                if seat.power in table.group(seat.game).heroes:
                    turns.append(
                        DecisionRecord(decision, seat.game, seat.power, phase, table.known(seat), seat.choices.lines)
                    )
        table.write(orders)
        return turns

    def _pay(self, table: ForkedGames, steps: torch.Tensor, turns: Sequence[DecisionRecord]) -> np.ndarray:
        ratings = torch.tensor([table.group(game).ratings for game in range(table.games)], dtype=torch.float64)
        paid = sample_rewards(steps.cpu(), table.batch.snapshot(), self.rewards, ratings=ratings).numpy()
        return np.array([paid[turn.phase, turn.game, turn.power] for turn in turns])
