"""What every game with a league does alike as a task: opponents dealt by the plan, results, evaluation, and its state.

A game's task derives from `LeagueTask` and says what differs. With several processes each plays its share of the
matches; the first keeps the records and broadcasts what the others need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from sparring.agents.distributed.processes import Processes
from sparring.agents.opponents.training import RunOpponents
from sparring.agents.play.learner_env import LearnerEnv, MatchTally
from sparring.agents.policies.memory import NONE
from sparring.agents.policies.networks import PolicyNetwork
from sparring.agents.ppo import self_play
from sparring.agents.ppo.evaluation import BotEvaluation
from sparring.agents.ppo.tasks.task import Film, TaskStatus
from sparring.agents.run.folder import RunFolder
from sparring.configs.core.errors import ConfigError
from sparring.configs.schema import NamedOpponentsRunConfig
from sparring.curriculum.league.file import read_league
from sparring.curriculum.league.league import CHALLENGER, known_win_rates
from sparring.curriculum.schedule import Randomization, TrainingPlan
from sparring.envs.game import WIN_RATE


class LeagueTask(ABC):
    """See `agents.ppo.tasks.task.PPOTask`; a game's constructor sets `env`, `league_env`, `opponents` and `_shape`.

    `self_play` exists in the first process only.
    """

    section: ClassVar[str] = ""
    """Entry of a training state that has all of the task; empty: its records are entries themselves."""
    matches_key: ClassVar[str]
    """Entry of a training state with the matches."""
    lowest: ClassVar[float] = -1.0
    """Below the score of every evaluation."""
    win: ClassVar[str] = WIN_RATE
    randomizes: ClassVar[bool] = False
    """Whether the metrics have the width of the plan's physics."""
    env: LearnerEnv
    league_env: self_play.OpponentsEnv
    """The environment in which self-play assigns opponents."""
    opponents: RunOpponents
    evaluation: BotEvaluation | None = None
    """Evaluations of a duel, in the first process; others play the bots by `measured`."""
    _shape: dict[str, Any]
    """Of the learner's network, and of those in the pool."""

    def __init__(self, config: NamedOpponentsRunConfig, seeds: Mapping[str, int], processes: Processes) -> None:
        network = config.network
        for name, value, default in (("memory", network.memory, NONE), ("styles", network.styles, 0)):
            if value != default and not processes.alone:
                fix = f"start it without torchrun, or set network.{name}={default}"
                raise ConfigError(f"network.{name}={value}: requires a single process; {fix}")
        self.config, self.processes, self._seeds = config, processes, seeds
        self._win_rates: dict[str, float] = {}  # as they were after the last rollout, in every process
        self._share: float | None = None  # of playing time, of the opponents outside the kernels
        self._best = self.lowest
        self._physics: Randomization | None = None

    # ---- what a game says

    def league_options(self) -> dict[str, Any]:
        """Return the options of `open_self_play` that only this game has."""
        return {}

    def set_physics(self, plan: TrainingPlan) -> None:  # noqa: B027 - only some games have physics
        """Set the physics of the plan, where a game can."""

    def open_evaluation(self, alert: Callable[[str], None]) -> BotEvaluation | None:
        """Return the evaluations, in the first process, where the game has those of duels."""
        return None

    def measured(self, plan: TrainingPlan, network: PolicyNetwork, seed: int) -> tuple[dict[str, float], float]:
        """Play the bots of the plan; return metrics, and the score by which a policy is the best.

        Raises `ConfigError` for a game without evaluations.
        """
        section = f"evaluation.every={self.config.evaluation.every}"
        raise ConfigError(f"{section}: {self.config.env.id} has no evaluation during training; set evaluation.every=0")

    def divided(self, tally: MatchTally) -> tuple[MatchTally, dict[str, float]]:
        """Return the results that count in the league, and metrics of the others; every process calls it."""
        return tally, {}

    def opponent_share(self) -> float | None:
        """Return the share of playing time that opponents outside the kernels take; None without any."""
        return None

    @abstractmethod
    def matches_state(self) -> dict[str, Any]:
        """Return the state of the matches of all processes."""

    @abstractmethod
    def load_matches(self, state: Mapping[str, Any]) -> None:
        """Continue this process's share of the matches from a `matches_state`."""

    # ---- the task

    def open(self, folder: RunFolder, alert: Callable[[str], None], film: Film) -> self_play.SelfPlay | None:
        """Open the pool and the league in the run's folder."""
        if not self.processes.first:
            return None
        self.self_play = self_play.open_self_play(
            self.league_env if self.processes.alone else self_play.BroadcastEnv(self.league_env, self.processes),
            folder,
            self.config.self_play,
            alert,
            shape=self._shape,
            seed=self._seeds["league"],
            **self.league_options(),
        )
        self.film = film
        self.evaluation = self.open_evaluation(alert)
        return self.self_play

    def prepare(self, plan: TrainingPlan, network: PolicyNetwork) -> None:
        """Set the physics and assign the opponents."""
        if plan.randomization != self._physics:
            self.set_physics(plan)
            self._physics = plan.randomization
        if self.processes.first:
            self.self_play.deal(plan, network)
        else:
            self_play.follow(self.league_env, self.processes)

    def results(self, plan: TrainingPlan) -> dict[str, float]:
        """Return wins, draws and losses per opponent, the recent rates that control the schedule, and ratings."""
        tally, others = self.divided(self.env.harvest(self.processes))
        if self.processes.first:
            if metrics := self.self_play.exploiter_metrics(tally):
                return metrics
            self.self_play.record(tally)
            self._win_rates = self.self_play.win_rates()
        rates = self._win_rates = self.processes.broadcast(self._win_rates)
        if not self.processes.first:
            return {}
        metrics = self_play.rollout_metrics(tally, self.league_env.bots) | self_play.curriculum_metrics(plan, rates)
        if not self.randomizes:
            metrics.pop("curriculum/randomization")
        if (share := self.opponent_share()) is not None:
            self._share = metrics["time/opponent_share"] = share
        return metrics | self.self_play.metrics() | others

    def evaluate(self, plan: TrainingPlan, network: PolicyNetwork) -> tuple[dict[str, float], bool]:
        """Play the bots met so far if that is due; return metrics, and whether the score is the best so far."""
        if self.processes.first and self.evaluation:
            metrics = self.evaluation.after(plan.update, network, self.env.contract, plan.bots)
            return metrics, self.evaluation.improved
        every = self.config.evaluation.every
        if not self.processes.first or not every or (plan.update + 1) % every:
            return {}, False
        metrics, score = self.measured(plan, network, (self._seeds["checks"] + plan.update) % 2**31)
        improved, self._best = score >= self._best, max(score, self._best)
        return metrics, improved

    def status(self, plan: TrainingPlan | None = None) -> TaskStatus:
        """Return the opponents with win rates, the share of self-play, and the rating."""
        rates, headline = self._win_rates, ""
        if plan:
            cost = "" if self._share is None else f"opponents {self._share:.0%} of play"
            headline = self_play.standing(plan, rates, cost, win=self.win)
        rating = {"elo": self.self_play.league[CHALLENGER].elo} if self.processes.first else {}
        return TaskStatus(headline, rates, {"win_rates": rates, **rating})

    def state_dict(self, *, episodes: bool = True) -> dict[str, Any]:
        """Return matches, league and evaluation."""
        matches = self.matches_state() if episodes else {}
        if not self.processes.first:
            return {}
        best = {"checks": self.evaluation.state_dict()} if self.evaluation else {"best": self._best}
        records = {"league": self.self_play.state_dict(), **best, **self.opponents.state_dict()}
        content = {self.matches_key: matches, **records}
        return {self.section: content} if self.section else content

    def load_state_dict(self, state: Mapping[str, Any], *, episodes: bool) -> None:
        """Continue from a `state_dict`; raises `ContentError` for one of other sizes."""
        stored = state[self.section] if self.section else state
        self.opponents.check_unchanged(stored)
        self._win_rates = known_win_rates(read_league(stored["league"]["league"]), CHALLENGER)
        if episodes:
            self.load_matches(stored[self.matches_key])
        if not self.processes.first:
            return
        weights = stored[self.matches_key].get("slots")
        self.self_play.load_state_dict(stored["league"], weights if isinstance(weights, list) else ())
        self._win_rates = self.self_play.win_rates()  # without lost snapshots
        if self.evaluation:
            self.evaluation.load_state_dict(stored["checks"])
        else:
            self._best = stored["best"]
        if not episodes:
            self.self_play.slots = [""] * len(self.self_play.slots)  # the next deal draws all of them
