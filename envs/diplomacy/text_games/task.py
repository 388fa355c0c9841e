"""Diplomacy as a `TextTask`: forked games phase by phase, bots in the kernels, rewards for every decision."""

from __future__ import annotations

import numpy as np
import torch

from sparring.configs.language import GRPOConfig
from sparring.configs.schema import DiplomacyGRPORunConfig
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import NUM_POWERS
from sparring.envs.diplomacy.rewards.reward_rules import RewardRules
from sparring.envs.diplomacy.rewards.sample_reward import sample_rewards
from sparring.envs.diplomacy.rewards.scorer import Scorer
from sparring.envs.diplomacy.text.order_requests import written_orders
from sparring.envs.diplomacy.text.prompts import PromptRules
from sparring.envs.diplomacy.text_games.ending_metrics import ending_metrics
from sparring.envs.diplomacy.text_games.fork import Warmup, warmed_up
from sparring.envs.diplomacy.text_games.forked_games import ForkedGames
from sparring.envs.text import Answered, DecidePrompts, GameEnding, Prompt, RolloutPlan


class DiplomacyTextTask:
    """Forked games of `config.grpo`, plan after plan; see `envs.text.TextTask`."""

    def __init__(self, config: DiplomacyGRPORunConfig, *, threads: int = 1) -> None:
        grpo = config.grpo
        self._prompt_rules, self._warmup_player = PromptRules.of(config.model), grpo.rollout_warmup_player
        self.reward_rules, self._win_at = _reward_rules(grpo), grpo.winner_threshold_sc
        self._count_fork_year = grpo.count_fork_year
        self._dumbbot_games = grpo.play == "league" and config.league.dumbbot_game_probability > 0
        last_year = config.env.last_year
        self._masters = DiplomacyBatch(grpo.groups, last_year=last_year, threads=threads)
        self._batch = DiplomacyBatch(grpo.groups * grpo.samples_per_group, last_year=last_year, threads=threads)

    def reset(self, plan: RolloutPlan, decide: DecidePrompts) -> None:
        """Play the groups' games to their forks and fork them."""
        warmup = Warmup(self._warmup_player, self._prompt_rules, decide)
        masters = warmed_up(self._masters, plan.groups, warmup)
        self._table = ForkedGames(self._batch, masters, plan, count_fork_year=self._count_fork_year)
        self._scorer = Scorer({"strategic" if self.reward_rules.use_strategic_step_scoring else "dense": 1.0})
        self._scorer.begin(self._batch.state, self._table.influence)
        self._steps: list[torch.Tensor] = []
        self._decided: list[torch.Tensor] = []

    @property
    def over(self) -> bool:
        """True if all games have ended."""
        return not self._table.playing.any()

    @property
    def failed(self) -> dict[int, str]:
        """Abandoned games with the reasons."""
        return self._table.failed

    def prompts(self) -> list[Prompt]:
        """Return all prompts of this phase."""
        self._before, self._playing = self._batch.snapshot(), torch.from_numpy(self._table.playing)
        found = self._table.prompts(self._prompt_rules, len(self._steps))
        decided = torch.zeros(self._table.games, NUM_POWERS, dtype=torch.bool)
        for prompt in found:
            decided[prompt.game, prompt.seat] = True
        self._decided.append(decided)
        return found

    def apply(self, answered: Answered) -> None:
        """Adjudicate a phase and store every power's reward in it."""
        self._table.process(written_orders(self._batch, answered), len(self._steps))
        earned = self._scorer.score(self._before, self._batch.state, self._batch.results)
        self._steps.append(earned * self._playing.to(earned.device).unsqueeze(1))

    def fail(self, games: set[int], why: str) -> None:
        """Abandon games."""
        self._table.fail(games, why)

    def rewards(self) -> np.ndarray:
        """Return the rewards of the decisions, float64 [phases, games, 7]."""
        games = range(self._table.games)
        ratings = torch.tensor([self._table.group(game).ratings for game in games], dtype=torch.float64)
        steps = torch.stack(self._steps).cpu()
        decided = torch.stack(self._decided)
        end = self._batch.snapshot()
        paid: np.ndarray = sample_rewards(steps, end, self.reward_rules, ratings=ratings, decided=decided).numpy()
        return paid

    def endings(self) -> list[GameEnding]:
        """Return the endings of the games that did not fail; scores are centres."""
        return self._table.endings(self.reward_rules)

    def years(self) -> float:
        """Return the years played, summed over all games."""
        return self._table.years()

    def metrics(self) -> dict[str, float]:
        """Return `game/...`, `placement/...` and `dumbbot/...` metrics of the games that did not fail."""
        heroes = [group.heroes for group in self._table.plan.groups]
        return ending_metrics(self.endings(), heroes, self._win_at, dumbbot_games=self._dumbbot_games)

    def close(self) -> None:
        """Stop the simulators' threads."""
        self._masters.close()
        self._batch.close()


def _reward_rules(grpo: GRPOConfig) -> RewardRules:
    options = {name: getattr(grpo, name) for name in RewardRules.__dataclass_fields__}
    # Among seven copies of one player every expected place is 4, and there is nothing to condition on.
    return RewardRules(**options | {"use_elo_conditioned_rewards": _conditions(grpo)})


def _conditions(grpo: GRPOConfig) -> bool:
    return grpo.use_elo_conditioned_rewards and grpo.play == "league"
