"""Diplomacy as a task: one power of every game against six times a bot, policy or Python object, or a snapshot.

Self-play is against six of one snapshot of the pool, which draws its orders; as in all games, a bot decides retreats
and adjustments, unless `network.all_phases` has the policy and its snapshots decide them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from sparring.agents.distributed.processes import ALONE, Processes, restore_generator
from sparring.agents.opponents.training import open_opponents
from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.policies.networks import PolicyNetwork, build_network, load_snapshot, shape_for
from sparring.agents.ppo import self_play
from sparring.agents.ppo.tasks.task import VIDEO, Film, TaskStatus
from sparring.agents.run.folder import RunFolder
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.status import COMPILING, said_if_long
from sparring.curriculum.league.file import read_league
from sparring.curriculum.league.league import CHALLENGER
from sparring.curriculum.schedule import TrainingPlan
from sparring.envs.diplomacy import GAME
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import BOTS, NUM_POWERS
from sparring.envs.diplomacy.config import DiplomacyRunConfig
from sparring.envs.diplomacy.drawing.render import gif_bytes
from sparring.envs.diplomacy.movement_batch import MovementBatch, OrderWriter, movement_contract
from sparring.envs.diplomacy.records.history import PhaseRecord, WatchedBatch
from sparring.envs.diplomacy.records.timeline import phases_of
from sparring.envs.diplomacy.rewards.scoring import count_centres, sum_of_squares
from sparring.envs.diplomacy.training.opponents import PolicyOrders, open_player

VIDEO_SIZE = (480, 400)
"""Width and height of a video, pixels."""


class SnapshotSeats:
    """The last `writers` among the opponents of `env` as slots for snapshots, the others as `bots`."""

    def __init__(self, env: LearnerEnv, writers: Sequence[PolicyOrders]) -> None:
        self._env, self._writers = env, writers
        self.slots, self.device = len(writers), env.device
        self.bots = env.bots[: -self.slots]

    @property
    def opponents(self) -> np.ndarray:
        """Opponents of all games."""
        return self._env.opponents

    def assign(self, opponents: np.ndarray) -> None:
        """Set the opponents of all games; those that change restart."""
        self._env.assign(opponents)

    def load_slot(self, slot: int, weights: dict[str, torch.Tensor]) -> None:
        """Load a snapshot; the games of its slot restart."""
        self._writers[slot].network.load_state_dict(weights)
        mask = torch.from_numpy(self.opponents == len(self.bots) + slot).to(self.device)
        self._env.batch.assign(None, mask)


class DiplomacyTask:
    """See `agents.ppo.tasks.task.PPOTask`; opponents are assigned to sets of seven games, one for each power."""

    def __init__(
        self,
        config: DiplomacyRunConfig,
        device: torch.device,
        threads: int,
        *,
        seeds: Mapping[str, int],
        processes: Processes = ALONE,
    ) -> None:
        if not processes.alone:
            raise ConfigError(f"env.id={config.env.id}: learns in one process; start it without torchrun")
        self.config, self._seeds, self._threads = config, seeds, threads
        games, last_year = config.env.num_envs, config.env.last_year
        with said_if_long(COMPILING, enabled=config.logger.progress):
            batch = DiplomacyBatch(games, device=str(device), last_year=last_year, threads=threads)
            batch.load_kernels()
        self._noise = torch.Generator(device).manual_seed(seeds["opponents"])
        self.opponents = open_opponents(config, lambda text: open_player(text, device, noise=self._noise))
        all_phases = config.network.all_phases
        self._shape = shape_for(movement_contract(last_year, all_phases=all_phases), config.network)
        self._snapshots = [self._new_snapshot(device) for _ in range(config.self_play.slots)]
        writers = [*self.opponents.policies.values(), *self._snapshots]
        self.games = MovementBatch(batch, seed=seeds["env"], writers=writers, all_phases=all_phases)
        slots = [f"slot {number}" for number in range(config.self_play.slots)]
        self.env = LearnerEnv(self.games, bots=(*BOTS, *self.opponents.policies, *slots), seed=seeds["opponents"])
        self._seats = SnapshotSeats(self.env, self._snapshots)
        self._best = -1.0
        self._opponent_share = 0.0

    def _new_snapshot(self, device: torch.device) -> PolicyOrders:
        return PolicyOrders(build_network(self._shape).to(device).eval(), generator=self._noise)

    def open(self, folder: RunFolder, alert: Callable[[str], None], film: Film) -> self_play.SelfPlay:
        """Open the pool and the league in the run's folder; keep `film`."""
        self._film = film
        self.self_play = self_play.open_self_play(
            self._seats,
            folder,
            self.config.self_play,
            alert,
            shape=self._shape,
            seed=self._seeds["league"],
            seats=NUM_POWERS,
        )
        return self.self_play

    def prepare(self, plan: TrainingPlan, network: PolicyNetwork) -> None:
        """Assign the opponents."""
        self.self_play.deal(plan, network)

    def results(self, plan: TrainingPlan) -> dict[str, float]:
        """Return per opponent how often the learner led, its centres and share of the score; shares and ratings."""
        tally = self.env.harvest()
        self.self_play.record(tally)
        metrics = self_play.rollout_metrics(tally, self._seats.bots)
        metrics |= self_play.curriculum_metrics(plan, self.self_play.win_rates())
        metrics.pop("curriculum/randomization")
        return metrics | self_play.league_metrics(self.self_play) | self._cost()

    def evaluate(self, plan: TrainingPlan, network: PolicyNetwork) -> tuple[dict[str, float], bool]:
        """Play games of the deterministic policy against six of each bot met so far."""
        interval = self.config.evaluation.every
        if interval == 0 or (plan.update + 1) % interval:
            return {}, False
        seed = (self._seeds["checks"] + plan.update) % 2**31
        videos = self.config.evaluation.video_every
        filmed = videos > 0 and (plan.update + 1) % (interval * videos) == 0
        metrics: dict[str, float] = {}
        games: dict[str, list[PhaseRecord]] = {}
        for bot in plan.bots:
            measured, games[bot] = self._evaluate_against(bot, network, seed, filmed=filmed)
            metrics |= measured
        if filmed:
            worst = games[min(plan.bots, key=lambda bot: metrics[f"eval/{bot}/score"])]
            self._film(VIDEO, lambda: gif_bytes(phases_of(worst), size=VIDEO_SIZE))
        mean = float(np.mean([metrics[f"eval/{bot}/score"] for bot in plan.bots]))
        improved, self._best = mean >= self._best, max(mean, self._best)
        return metrics, improved

    def _evaluate_against(
        self, bot: str, network: PolicyNetwork, seed: int, *, filmed: bool
    ) -> tuple[dict[str, float], list[PhaseRecord]]:
        """Return metrics, and the phases of the first game if it is `filmed`, where the learner is Austria."""
        games, kind = self.config.evaluation.games, WatchedBatch if filmed else DiplomacyBatch
        last_year, device = self.config.env.last_year, str(self.env.device)
        batch = kind(games, device=device, last_year=last_year, threads=self._threads)
        try:
            values = play_against(batch, network, self.opponents.policies.get(bot, bot), seed=seed)
        finally:
            batch.close()
        metrics = {f"eval/{bot}/{name}": float(value.float().mean()) for name, value in values.items()}
        return metrics, batch.past() if isinstance(batch, WatchedBatch) else []

    def status(self, plan: TrainingPlan | None = None) -> TaskStatus:
        """Return the opponents and how often the learner had most centres, the share of self-play, and the rating."""
        rates, elo = self.self_play.win_rates(), self.self_play.league[CHALLENGER].elo
        cost = f"opponents {self._opponent_share:.0%} of play" if self._opponent_share and plan else ""
        return TaskStatus(*self_play.league_status(plan, rates, {"elo": elo}, cost, win=GAME.win))

    def state_dict(self, *, episodes: bool = True) -> dict[str, Any]:
        """Return games, league and the best evaluation."""
        games: dict[str, Any] = {}
        if episodes:
            batch, env = self.env.batch.state_dict(), self.env.state_dict()
            games = {"games": batch["games"], "length": batch["length"], "draws": batch["draws"]}
            games |= {"opponent": env["opponents"].long(), "return": env["return"], "noise": self._noise.get_state()}
        records = {"league": self.self_play.state_dict(), "best": self._best, **self.opponents.state_dict()}
        return {"diplomacy": {"games": games, **records}}

    def load_state_dict(self, state: Mapping[str, Any], *, episodes: bool) -> None:
        """Continue from a `state_dict`; raises `InputError` for other sizes and impossible positions."""
        stored = state["diplomacy"]
        self.opponents.check_unchanged(stored)
        if "pool" in stored["league"]:
            self.self_play.load_state_dict(stored["league"])
        else:  # of a version without self-play in Diplomacy
            self.self_play.league = read_league(stored["league"])
        self._best = stored["best"]
        if not episodes:
            self.self_play.slots = [""] * len(self._snapshots)  # the next deal draws all of them
            return
        for snapshot, name in zip(self._snapshots, self.self_play.slots, strict=True):
            if name:
                snapshot.network.load_state_dict(load_snapshot(self.self_play.pool, name, self.env.device))
        saved, now = stored["games"], self.env.state_dict()
        if "noise" in saved:
            restore_generator(self._noise, saved["noise"], "games.noise")
            now["return"] = saved["return"]
        games = {name: saved[name] for name in ("games", "length", "draws")}
        self.env.load_state_dict(now | {"batch": games, "opponents": saved["opponent"].int()})

    def _cost(self) -> dict[str, float]:
        """Return the share of playing time that policies among the opponents take; empty if none has played."""
        seconds, self.games.writer_seconds = self.games.writer_seconds, 0.0
        if not self.opponents.policies and not any(self.self_play.slots):
            return {}
        self._opponent_share = min(seconds / max(self.env.simulator_seconds, 1e-9), 1.0)
        return {"time/opponent_share": self._opponent_share}


@torch.no_grad()
def play_against(
    batch: DiplomacyBatch,
    network: PolicyNetwork,
    opponent: str | OrderWriter,
    *,
    seed: int,
    generator: torch.Generator | None = None,
) -> dict[str, torch.Tensor]:
    """Play every game of `batch` from start to end, the policy in seat i % 7 of game i; it draws from a `generator`.

    A bot as the opponent also decides the policy's retreats and adjustments, as in training; beside another opponent a
    DumbBot does. A policy of `network.all_phases=true` decides them itself.

    Returns the policy's centres, its share of the squares (score), and whether it led (win_rate), [G].
    """
    batch.reset()
    writers = () if isinstance(opponent, str) else (opponent,)
    all_phases = network.config.all_phases
    movements = MovementBatch(batch, seed=seed, autoreset=False, writers=writers, all_phases=all_phases)
    env = LearnerEnv(movements, bots=(*BOTS, *map(str, writers)), seed=0)
    number = BOTS.index(opponent) if isinstance(opponent, str) else len(BOTS)
    env.assign(np.full(batch.num_games, number))
    while not bool(batch.done.all()):
        actions, _ = network.act(env.obs, deterministic=generator is None, generator=generator)
        env.step(actions)
    batch.check()
    game = torch.arange(batch.num_games, device=batch.device)
    index = (game, game % NUM_POWERS)
    centres, squares = (score(batch.owner)[index] for score in (count_centres, sum_of_squares))
    centres_of_others = count_centres(batch.owner).index_put(index, torch.tensor(-1, device=batch.device))
    return {"centres": centres, "score": squares, "win_rate": centres > centres_of_others.max(1).values}
