"""Measuring the learner while it trains: its deterministic policy, on matches of its own, in the default physics.

Three checks, each with its own interval: every bot met so far; one bot as the guard against regression, with an alert
when its win rate falls after it had been reached; and that bot under every named physics regime. Each check plays new
matches, so that a policy is never selected for one fixed set of starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from agents.matches import MatchResults, Setting, play
from agents.policy import Policy
from agents.ppo.network import ActorCritic
from configs.schema import EvaluationConfig
from envs.dogfight.rules import REGIMES, ranges


class Checks:
    """The checks of a run. `setting` is what the training matches are played under, in default physics.

    `say` is told about alerts; `seed` begins the matches.
    """

    def __init__(self, config: EvaluationConfig, setting: Setting, say: Callable[[str], None], *, seed: int) -> None:
        self.config, self.setting, self.say, self.seed = config, setting, say, seed
        self._reached = False
        self._alert = False

    def after(
        self, update: int, network: ActorCritic, contract: dict[str, object], bots: Iterable[str]
    ) -> dict[str, float]:
        """Metrics of the checks that are due after update number `update` (from 0); `bots` are those met so far."""
        policy = Policy(network, contract, name="the learner")
        metrics: dict[str, float] = {}
        if self._due(self.config.every, update):
            for bot in bots:
                metrics |= result_metrics(f"eval/{bot}", self._play(policy, bot, update))
        if self._due(self.config.check_every, update):
            metrics |= self._guard(policy, update)
        if self._due(self.config.regimes_every, update):
            for regime in REGIMES:
                metrics |= self._regime(policy, regime, update)
        return metrics

    def _due(self, every: int, update: int) -> bool:
        return every > 0 and (update + 1) % every == 0

    def _play(self, policy: Policy, bot: str, update: int, setting: Setting | None = None) -> MatchResults:
        games = self.config.games + self.config.games % 2
        return play(policy, bot, games=games, seed=(self.seed + update) % 2**31, setting=setting or self.setting)

    def _guard(self, policy: Policy, update: int) -> dict[str, float]:
        bot, limit = self.config.check_bot, self.config.check_alert
        rate = self._play(policy, bot, update).win_rate
        alert = self._reached and rate < limit
        if alert and not self._alert:
            self.say(f"alert: after update {update} it wins {rate:.0%} against {bot}, below {limit:.0%} reached before")
        self._reached, self._alert = self._reached or rate >= limit, alert
        return {"guard/check_win_rate": rate, "guard/check_alert": float(alert)}

    def _regime(self, policy: Policy, regime: str, update: int) -> dict[str, float]:
        bot = self.config.check_bot
        results = self._play(policy, bot, update, replace(self.setting, ranges=ranges(regime)))
        return {f"eval/{bot}/{regime}/win_rate": results.win_rate}


def result_metrics(prefix: str, results: MatchResults) -> dict[str, float]:
    """Win, draw and loss rates, mean ticks and mean hp left, under `prefix`."""
    return {
        f"{prefix}/win_rate": results.win_rate,
        f"{prefix}/draw_rate": results.draws / results.games,
        f"{prefix}/loss_rate": results.losses / results.games,
        f"{prefix}/length": float(results.length.mean()),
        f"{prefix}/hp": float(results.left_hp.mean()),
    }
