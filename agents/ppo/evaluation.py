"""Evaluation of the learner during training: its deterministic policy, in separate matches, in the default physics.

Three evaluations have their own intervals: every bot met so far, one guarded bot, and that bot under every named
physics regime. An alert is raised when the win rate against the guarded bot falls below a level reached before. Each
evaluation plays new matches, so policies are not selected for one fixed set of starts.

Now and then the first match against the strongest opponent is filmed. It is one of the evaluation's own matches, so
videos do not change the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

import numpy as np

from sparring.agents.play.duel_matches import DuelSettings, MatchResults, Recorder, play
from sparring.agents.policies.networks import PolicyNetwork
from sparring.agents.policies.policy import Policy
from sparring.agents.ppo.tasks.task import VIDEO_EVERY
from sparring.configs.schema import EvaluationConfig

R = TypeVar("R", bound=Recorder)
CHECK_ALERT = 0.8
"""Win rate against the guarded bot below which, once reached, an alert is raised."""


class MatchFilms(Protocol[R]):
    """Makes videos of the first match of evaluations."""

    def recorder(self) -> R:
        """Return a recorder for `play`, for matches with `trace=1`."""

    def show(self, recorder: R, opponent: str) -> None:
        """Log a video of the match that `recorder` holds."""


class BotEvaluation:
    """The evaluations of a run. `setting` holds the conditions of the training matches, in default physics.

    `regimes` are the ranges [13, 2] of the named physics regimes, `players` the opponents that are not bots.
    `alert` is called on a regression, `films` makes videos; `seed` seeds the matches. `improved` is true if the last
    update evaluated all bots and the mean win rate was the best so far.
    """

    def __init__(
        self,
        config: EvaluationConfig,
        setting: DuelSettings,
        regimes: Mapping[str, np.ndarray],
        alert: Callable[[str], None],
        *,
        seed: int,
        players: Mapping[str, Policy] | None = None,
        films: MatchFilms[Any] | None = None,
    ) -> None:
        self._films = films
        self.config, self.setting, self.regimes, self.alert, self.seed = config, setting, regimes, alert, seed
        self._players = dict(players or {})
        self.improved = False
        self._best = -1.0
        self._reached = False
        self._low = False

    def after(
        self, update: int, network: PolicyNetwork, contract: dict[str, object], bots: Iterable[str]
    ) -> dict[str, float]:
        """Return the metrics of the evaluations due after update `update` (from 0); `bots` are those met so far."""
        config, self.improved = self.config, False
        metrics: dict[str, float] = {}
        intervals = (config.every, config.check_every, config.regimes_every)
        due = [interval > 0 and (update + 1) % interval == 0 for interval in intervals]
        if not any(due):
            return {}
        policy = Policy(network, contract, name="the learner")
        if due[0]:
            metrics |= self._all(policy, list(bots), update)
        if due[1]:
            metrics |= self._guard(policy, update)
        if due[2]:
            for regime, ranges in self.regimes.items():
                results = self._play(policy, config.check_bot, update, self.setting.under(ranges))
                metrics[f"eval/{config.check_bot}/{regime}/win_rate"] = results.win_rate
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """Return the best mean win rate, whether the guarded one was ever reached, and whether the alert is active."""
        return {"best": self._best, "reached": self._reached, "low": self._low}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict`."""
        self._best, self._reached, self._low = state["best"], state["reached"], state["low"]

    def _recorders(self, update: int, bots: Iterable[str]) -> dict[str, Recorder]:
        """Return a recorder for each bot if a match of the evaluation after `update` is filmed, else none."""
        interval = self.config.every or self.config.check_every
        if self._films is None or not interval or (update + 1) % (interval * VIDEO_EVERY):
            return {}
        return {bot: self._films.recorder() for bot in bots}

    def _play(
        self,
        policy: Policy,
        bot: str,
        update: int,
        setting: DuelSettings | None = None,
        recorder: Recorder | None = None,
    ) -> MatchResults:
        games, setting = self.config.games + self.config.games % 2, setting or self.setting
        opponent, seed = self._players.get(bot, bot), (self.seed + update) % 2**31
        if recorder is None:
            return play(policy, opponent, games=games, seed=seed, setting=setting)
        return play(policy, opponent, games=games, seed=seed, setting=setting.filmed(), recorder=recorder)

    def _all(self, policy: Policy, bots: list[str], update: int) -> dict[str, float]:
        recorders = self._recorders(update, bots)
        results = {bot: self._play(policy, bot, update, recorder=recorders.get(bot)) for bot in bots}
        if self._films and recorders:
            worst = min(reversed(bots), key=lambda bot: results[bot].win_rate)
            self._films.show(recorders[worst], worst)
        mean = sum(result.win_rate for result in results.values()) / len(results)
        # On a tie the later policy wins, because it has met more bots.
        self.improved = mean >= self._best
        self._best = max(mean, self._best)
        return {key: value for bot in bots for key, value in result_metrics(f"eval/{bot}", results[bot]).items()}

    def _guard(self, policy: Policy, update: int) -> dict[str, float]:
        bot, limit = self.config.check_bot, CHECK_ALERT
        recorder = None if self.config.every else self._recorders(update, [bot]).get(bot)
        rate = self._play(policy, bot, update, recorder=recorder).win_rate
        if self._films and recorder:
            self._films.show(recorder, bot)
        low = self._reached and rate < limit
        if low and not self._low:
            self.alert(f"after update {update} it wins {rate:.0%} against {bot}, below {limit:.0%} reached before")
        self._reached, self._low = self._reached or rate >= limit, low
        return {"guard/check_win_rate": rate, "guard/check_alert": float(low)}


def result_metrics(prefix: str, results: MatchResults) -> dict[str, float]:
    """Return win, draw and loss rates, the score, mean ticks and mean hp left, under `prefix`."""
    return {
        f"{prefix}/win_rate": results.win_rate,
        f"{prefix}/draw_rate": results.draws / results.games,
        f"{prefix}/loss_rate": results.losses / results.games,
        f"{prefix}/score": results.score,
        f"{prefix}/length": float(results.length.mean()),
        f"{prefix}/hp": float(results.left_hp.mean()),
    }
