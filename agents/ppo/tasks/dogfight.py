"""The dogfight as a task: bots and snapshots dealt by the plan, a league, and checks against the bots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch

from sparring.agents.distributed.processes import ALONE, Processes
from sparring.agents.distributed.shards import Shard
from sparring.agents.play.duel import Duel
from sparring.agents.play.matches import MatchSettings
from sparring.agents.policies.actor_critic import ActorCritic, network_shape
from sparring.agents.ppo.evaluation import BotEvaluation
from sparring.agents.ppo.metrics import curriculum_metrics, league_metrics, rollout_metrics
from sparring.agents.ppo.promotion import Promotion
from sparring.agents.ppo.self_play import SelfPlay
from sparring.agents.ppo.tasks.broadcast import BroadcastEnv, cut, follow, join
from sparring.agents.run.folder import RunFolder
from sparring.configs.core.status import COMPILING, said_if_long
from sparring.configs.schema import RunConfig
from sparring.curriculum.league.file import LeagueFile
from sparring.curriculum.league.league import CHALLENGER, known_win_rates
from sparring.curriculum.league.serialization import read_league
from sparring.curriculum.pool import Pool
from sparring.curriculum.schedule import TrainingPlan
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.rules import BOTS, MAX_TICKS


class DogfightTask:
    """See `agents.ppo.tasks.task.Task`; `batch`, `duel`, `self_play` and `checks` are its parts.

    `self_play` and `checks` exist in the first process only, which tells the others what they need of them.
    """

    cannot_save = ""
    physics = True
    win = "won"

    def __init__(
        self,
        config: RunConfig,
        device: torch.device,
        threads: int,
        *,
        seeds: Mapping[str, int],
        processes: Processes = ALONE,
    ) -> None:
        self.config, self.processes, self._seeds = config, processes, seeds
        share = processes.share(config.env.num_envs)
        shown = config.logger.progress and processes.first
        with said_if_long(COMPILING, shown=shown), processes.one_before_the_others():  # all find the compiled kernels
            self.batch = make_batch(config, device, threads, seed=seeds["env"], share=share)
        self.num_envs = self.batch.num_envs
        self.longest_episode = -(-MAX_TICKS // config.env.action_repeat)
        obs_dim, continuous, binary = (self.batch.contract[key] for key in ("obs_dim", "continuous", "binary"))
        self.network_shape = network_shape(obs_dim, continuous, binary, config.network)
        slots, mirror = config.self_play.slots, config.env.mirror
        self.duel = self.env = Duel(
            self.batch,
            slots=slots,
            network_shape=self.network_shape,
            seed=seeds["opponents"],
            mirror=mirror,
            share=share,
        )
        self._setting = check_setting(config, device, threads)
        self._win_rates: dict[str, float] = {}  # as process 0 says, in the others

    @property
    def contract(self) -> dict[str, Any]:
        """The duel's."""
        return self.duel.contract

    @property
    def simulator_seconds(self) -> float:
        """The duel's."""
        return self.duel.simulator_seconds

    @simulator_seconds.setter
    def simulator_seconds(self, seconds: float) -> None:
        self.duel.simulator_seconds = seconds

    def open(self, folder: RunFolder, alert: Callable[[str], None]) -> None:
        """Open the pool and the league in the run's folder."""
        if not self.processes.first:
            return
        options = self.config.self_play
        pool = Pool(folder.pool, options.pool_size, options.eviction, shape=self.network_shape)
        seed, promotion = self._seeds["league"], None
        if options.promotion == "sprt":
            promotion = Promotion(options, self._setting, self.contract, seed=seed)
        duel = self.duel if self.processes.alone else BroadcastEnv(self.duel, self.processes)
        file = LeagueFile(folder.path)
        self.self_play = SelfPlay(duel, pool, file, options, alert, seed=seed, promotion=promotion)
        self.checks = BotEvaluation(self.config.evaluation, self._setting, alert, seed=self._seeds["checks"])

    def rehearse(self) -> None:
        """Meet all bots alike."""
        self.duel.assign(np.arange(self.duel.share.total) % len(BOTS))

    def prepare(self, plan: TrainingPlan, network: ActorCritic) -> None:
        """Set the physics and seat the opponents."""
        self.batch.set_ranges(plan.randomization.ranges())
        if self.processes.first:
            self.self_play.deal(plan, network)
        else:
            follow(self.duel, self.processes)

    def results(self, plan: TrainingPlan) -> dict[str, float]:
        """Wins, draws and losses per opponent, the recent rates that steer the schedule, and ratings."""
        tally = self.duel.harvest(self.processes)
        invalid = int(self.processes.add_up(self.batch.invalid_actions.sum()))
        if self.processes.first:
            self.self_play.record(tally)
        self._win_rates = self.processes.same(self.win_rates())
        if not self.processes.first:
            return {}
        metrics = rollout_metrics(tally) | curriculum_metrics(plan, self.win_rates()) | league_metrics(self.self_play)
        return metrics | {"guard/invalid_actions": float(invalid)}

    def check(self, plan: TrainingPlan, network: ActorCritic) -> tuple[dict[str, float], bool]:
        """Matches of the deterministic policy against bots."""
        if not self.processes.first:
            return {}, False
        return self.checks.after(plan.update, network, self.contract, plan.bots), self.checks.improved

    def win_rates(self) -> dict[str, float]:
        """Recent win rate against every bot met often enough."""
        return self.self_play.win_rates() if self.processes.first else self._win_rates

    def headline(self, plan: TrainingPlan) -> str:
        """The bots with win rates, and the share of self-play."""
        rates = self.win_rates()
        bots = " ".join(f"{bot} {rates[bot]:.0%}" if bot in rates else bot for bot in plan.bots)
        return bots + (f" selfplay {1.0 - plan.scripted_share:.0%}" if plan.scripted_share < 1.0 else "")

    def standing(self) -> dict[str, Any]:
        """Win rates and rating."""
        standing: dict[str, Any] = {"win_rates": self.win_rates()}
        return standing | ({"elo": self.self_play.league[CHALLENGER].elo} if self.processes.first else {})

    def broken(self) -> int:
        """Matches put into quarantine."""
        return int(self.processes.add_up(self.duel.quarantined.clone()))

    def files(self) -> list[str]:
        """The snapshots of the pool."""
        return [snapshot.name for snapshot in self.self_play.pool.snapshots] if self.processes.first else []

    def sweep(self, names: Iterable[str]) -> None:
        """Write the league beside the state, and delete snapshots that left the pool and that no kept state has."""
        self.self_play.save_league()
        self.self_play.pool.sweep(names)

    def state_dict(self, *, episodes: bool = True) -> dict[str, Any]:
        """Matches, league and checks."""
        duel = join(self.duel.state_dict(), self.processes) if episodes else {}
        if not self.processes.first:
            return {}
        return {"duel": duel, "league": self.self_play.state_dict(), "checks": self.checks.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any], *, episodes: bool) -> None:
        """Continue from a `state_dict`."""
        self._win_rates = known_win_rates(read_league(state["league"]["league"]), CHALLENGER)
        if episodes:
            self.duel.load_state_dict(cut(state["duel"], self.duel.share))
        if not self.processes.first:
            return
        self.self_play.load_state_dict(state["league"])
        self.checks.load_state_dict(state["checks"])
        if not episodes:
            self.self_play.slots = [""] * self.duel.slots  # drawn anew with the next deal

    def begin_anew(self) -> None:
        """Empty the pool and the league."""
        if self.processes.first:
            self.self_play.begin_anew()

    def close(self) -> None:
        """End the simulator's threads."""
        self.batch.close()


def make_batch(config: RunConfig, device: torch.device, threads: int, *, seed: int, share: Shard) -> DogfightBatch:
    """The matches of a run that are this process's share."""
    env = config.env
    batch = DogfightBatch(
        share.count,
        device=str(device),
        rules=env.rules,
        action_repeat=env.action_repeat,
        bot_rate=env.bot_rate,
        spawn=env.spawn,
        observe_physics=env.observe_physics,
        reward=env.reward,
        gamma=config.ppo.gamma,
        threads=threads,
        seed=seed,
    )
    if not share.whole:
        batch.match_id += share.first
        batch.reset(seed)
    return batch


def check_setting(config: RunConfig, device: torch.device, threads: int) -> MatchSettings:
    """What the checks' matches are played under: as in training, in the default physics."""
    env = config.env
    return MatchSettings(
        rules=env.rules,
        action_repeat=env.action_repeat,
        bot_rate=env.bot_rate,
        spawn=env.spawn,
        observe_physics=env.observe_physics,
        device=str(device),
        threads=threads,
    )
