"""The dogfight as a task: bots and snapshots assigned by the plan, a league, and evaluation against the bots.

With several processes, training states are split and joined by matches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.agents.distributed.processes import ALONE, Processes, Shard
from sparring.agents.opponents.dogfight.load import open_player
from sparring.agents.opponents.training import open_opponents
from sparring.agents.play.dogfight_matches import MatchSettings, play
from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.play.own_reward import OwnReward
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.memory import NONE
from sparring.agents.policies.networks import shape_for
from sparring.agents.policies.policy import Policy
from sparring.agents.ppo.evaluation import BotEvaluation
from sparring.agents.ppo.self_play import (
    BroadcastEnv,
    Duel,
    Promotion,
    SelfPlay,
    curriculum_metrics,
    follow,
    league_metrics,
    rollout_metrics,
)
from sparring.agents.ppo.tasks.task import VIDEO, Film, TaskStatus
from sparring.agents.run.folder import RunFolder
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.status import COMPILING, said_if_long
from sparring.curriculum.league.file import LeagueFile, read_league
from sparring.curriculum.league.league import CHALLENGER, known_win_rates
from sparring.curriculum.pool import Pool
from sparring.curriculum.schedule import TrainingPlan
from sparring.envs.dogfight.animation import gif_bytes
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.config import DogfightEnvConfig, DogfightRunConfig
from sparring.envs.dogfight.mirror import Mirror
from sparring.envs.dogfight.recording import Recorder as MatchRecorder
from sparring.envs.dogfight.rules import BOTS, REGIMES, ranges

VIDEO_SECONDS, VIDEO_FPS, VIDEO_SIZE = 15.0, 10, (360, 240)
"""A video shows the end of a match; its size is in pixels."""
PER_MATCH = ("obs", "bots", "match_id", "invalid_actions")
"""Tensors in a batch's `state_dict` with a row per match; its `arrays`, flat and in bytes, have one too."""


class DogfightTask:
    """See `agents.ppo.tasks.task.PPOTask`; `batch`, `env`, `self_play` and `evaluation` are its parts.

    `self_play` and `evaluation` exist in the first process only, which broadcasts their results.
    """

    def __init__(
        self,
        config: DogfightRunConfig,
        device: torch.device,
        threads: int,
        *,
        seeds: Mapping[str, int],
        processes: Processes = ALONE,
    ) -> None:
        if config.network.memory != NONE and not processes.alone:
            given = f"network.memory={config.network.memory}"
            raise ConfigError(f"{given}: learns in one process; start it without torchrun, or give network.memory=none")
        self.config, self.processes, self._seeds = config, processes, seeds
        share = processes.share(config.env.num_envs)
        shown = config.logger.progress and processes.first
        with said_if_long(COMPILING, shown=shown), processes.one_before_the_others():  # all use the compiled kernels
            self.batch = make_batch(config.env, device, threads, gamma=config.ppo.gamma, seed=seeds["env"], share=share)
            view = Mirror(self.batch.rules, self.batch.obs_dim, device) if config.env.mirror else None
        contract = self.batch.contract
        self._shape = shape_for(contract, config.network)
        self.opponents = open_opponents(config, lambda text: open_player(text, device).opponent())
        self.env = LearnerEnv(
            self.batch,
            bots=BOTS,
            players=self.opponents.policies,
            slots=config.self_play.slots,
            network_shape=self._shape,
            seed=seeds["opponents"],
            view=view,
            share=share,
            contract=contract | {"mirror": config.env.mirror},
        )
        if config.reward:
            self.env.own_reward = OwnReward(config.reward, self.batch, self.env.seat_rows, config.ppo.gamma)
        self._setting = match_settings(config.env, device, threads)
        self._win_rates: dict[str, float] = {}  # broadcast by process 0, in the others
        self._player_share = 0.0

    def open(self, folder: RunFolder, alert: Callable[[str], None], film: Film) -> SelfPlay | None:
        """Open the pool and the league in the run's folder."""
        if not self.processes.first:
            return None
        options = self.config.self_play
        damaged = Pool.put_aside_damaged(folder.pool)
        if damaged:
            alert(damaged)
        pool = Pool(folder.pool, options.pool_size, options.eviction, shape=self._shape)
        seed, promotion = self._seeds["league"], None
        if options.promotion == "sprt":
            promotion = Promotion(options, dogfight_duel(self._setting, self.env.contract), seed=seed)
        env = self.env if self.processes.alone else BroadcastEnv(self.env, self.processes)
        file = LeagueFile(folder.path)
        self.self_play = SelfPlay(env, pool, file, options, alert, seed=seed, promotion=promotion)
        regimes = {regime: ranges(regime) for regime in REGIMES}
        seed = self._seeds["checks"]
        self.evaluation = BotEvaluation(
            self.config.evaluation,
            self._setting,
            regimes,
            alert,
            seed=seed,
            players=self.opponents.policies,
            films=DogfightFilms(film, self._setting.rules),
        )
        return self.self_play

    def prepare(self, plan: TrainingPlan, network: ActorCritic) -> None:
        """Set the physics and assign the opponents."""
        self.batch.set_ranges(plan.randomization.ranges())
        if self.processes.first:
            self.self_play.deal(plan, network)
        else:
            follow(self.env, self.processes)

    def results(self, plan: TrainingPlan) -> dict[str, float]:
        """Return wins, draws and losses per opponent, the recent rates that control the schedule, and ratings."""
        tally = self.env.harvest(self.processes)
        invalid = int(self.processes.add_up(self.batch.invalid_actions.sum()))
        if self.processes.first:
            self.self_play.record(tally)
        rates = self._win_rates = self.processes.broadcast(self._rates())
        if not self.processes.first:
            return {}
        metrics = (
            rollout_metrics(tally, self.env.bots)
            | self._cost()
            | curriculum_metrics(plan, rates)
            | league_metrics(self.self_play)
        )
        return metrics | {"guard/invalid_actions": float(invalid)}

    def evaluate(self, plan: TrainingPlan, network: ActorCritic) -> tuple[dict[str, float], bool]:
        """Play matches of the deterministic policy against bots."""
        if not self.processes.first:
            return {}, False
        metrics = self.evaluation.after(plan.update, network, self.env.contract, plan.bots)
        return metrics, self.evaluation.improved

    def status(self, plan: TrainingPlan | None = None) -> TaskStatus:
        """Return the bots with win rates, the share of self-play, and the rating."""
        rates = self._rates()
        bots = plan.headline(rates) if plan else ""
        selfplay = f" selfplay {1.0 - plan.scripted_share:.0%}" if plan and plan.scripted_share < 1.0 else ""
        rating = {"elo": self.self_play.league[CHALLENGER].elo} if self.processes.first else {}
        cost = f" opponents {self._player_share:.0%} of play" if self.opponents.policies and plan else ""
        return TaskStatus(bots + selfplay + cost, rates, {"win_rates": rates} | rating)

    def state_dict(self, *, episodes: bool = True) -> dict[str, Any]:
        """Return matches, league and evaluation."""
        matches = join(self.env.state_dict(), self.processes) if episodes else {}
        if not self.processes.first:
            return {}
        hashes = {"opponents": dict(self.opponents.hashes)} if self.opponents.hashes else {}
        records = {"league": self.self_play.state_dict(), "checks": self.evaluation.state_dict()}
        return {"duel": matches, **records, **hashes}

    def load_state_dict(self, state: Mapping[str, Any], *, episodes: bool) -> None:
        """Continue from a `state_dict`; raises `ContentError` for one of other sizes."""
        self.opponents.check_unchanged(state.get("opponents", {}))
        self._win_rates = known_win_rates(read_league(state["league"]["league"]), CHALLENGER)
        if episodes:
            self.env.load_state_dict(cut(state["duel"], self.env.share))
        if not self.processes.first:
            return
        self.self_play.load_state_dict(state["league"])
        self.evaluation.load_state_dict(state["checks"])
        if not episodes:
            self.self_play.slots = [""] * self.env.slots  # the next deal draws all of them

    def _cost(self) -> dict[str, float]:
        """Return the share of playing time that named opponents take, outside the kernels; empty without any."""
        if not self.opponents.policies:
            return {}
        seconds, self.env.player_seconds = self.env.player_seconds, 0.0
        self._player_share = seconds / max(seconds + self.env.simulator_seconds, 1e-9)
        return {"time/opponent_share": self._player_share}

    def _rates(self) -> dict[str, float]:
        return self.self_play.win_rates() if self.processes.first else self._win_rates


class DogfightFilms:
    """Videos of evaluation matches under `rules`, see `agents.ppo.evaluation.MatchFilms`."""

    def __init__(self, film: Film, rules: str) -> None:
        self._film, self._rules = film, rules

    def recorder(self) -> MatchRecorder:
        """Return a recorder of one match."""
        return MatchRecorder(1)

    def show(self, recorder: MatchRecorder, opponent: str) -> None:
        """Log the end of the match that `recorder` holds."""

        def draw() -> bytes:
            (recording,) = recorder.recordings(left="learner", right=opponent, rules=self._rules)
            return gif_bytes(recording, fps=VIDEO_FPS, size=VIDEO_SIZE, seconds=VIDEO_SECONDS)

        self._film(VIDEO, draw)


def make_batch(
    env: DogfightEnvConfig, device: torch.device, threads: int, *, gamma: float, seed: int, share: Shard
) -> DogfightBatch:
    """Create this process's share of the matches of a run."""
    batch = DogfightBatch(
        share.count,
        device=str(device),
        rules=env.rules,
        action_repeat=env.action_repeat,
        bot_rate=env.bot_rate,
        spawn=env.spawn,
        repeat_unwon=env.repeat_unwon,
        observe_physics=env.observe_physics,
        reward=env.reward,
        gamma=gamma,
        threads=threads,
        seed=seed,
    )
    if not share.whole:
        batch.match_id += share.first
        batch.reset(seed)
    return batch


def dogfight_duel(setting: MatchSettings, contract: Mapping[str, Any]) -> Duel:
    """Return the games of a promotion between networks of `contract`, under the conditions of `setting`."""

    def duel(left: ActorCritic, right: ActorCritic, games: int, seed: int, ranges: np.ndarray) -> np.ndarray:
        named = {"the learner": left, "the newest snapshot": right}
        players = [Policy(network, contract, name=name, deterministic=False) for name, network in named.items()]
        return play(*players, games=games, seed=seed, setting=replace(setting, ranges=ranges)).outcome

    return duel


def match_settings(env: DogfightEnvConfig, device: torch.device, threads: int) -> MatchSettings:
    """Return the conditions of evaluation matches: as in training, in the default physics."""
    return MatchSettings(
        rules=env.rules,
        action_repeat=env.action_repeat,
        bot_rate=env.bot_rate,
        spawn=env.spawn,
        observe_physics=env.observe_physics,
        device=str(device),
        threads=threads,
    )


def join(state: Mapping[str, Any], processes: Processes) -> dict[str, Any]:
    """Join the `LearnerEnv.state_dict` of each process into one of all matches."""
    batch = dict(state["batch"])
    batch["arrays"] = {name: processes.gather(rows) for name, rows in batch["arrays"].items()}
    batch |= {name: processes.gather(batch[name]) for name in PER_MATCH}
    quarantined = processes.add_up(state["quarantined"].clone())
    return {**state, "batch": batch, "return": processes.gather(state["return"]), "quarantined": quarantined}


def cut(state: Mapping[str, Any], share: Shard) -> dict[str, Any]:
    """Return the part of a `LearnerEnv.state_dict` of all matches that belongs to `share`."""
    if share.whole:
        return dict(state)
    batch = dict(state["batch"])
    batch["arrays"] = {name: _rows(rows, share) for name, rows in batch["arrays"].items()}
    batch |= {name: _rows(batch[name], share) for name in PER_MATCH}
    once = state["quarantined"] if share.first == 0 else torch.zeros_like(state["quarantined"])
    return {**state, "batch": batch, "return": _rows(state["return"], share), "quarantined": once}


def _rows(joint: Tensor, share: Shard) -> Tensor:
    width = len(joint) // share.total
    return joint[share.first * width : (share.first + share.count) * width]
