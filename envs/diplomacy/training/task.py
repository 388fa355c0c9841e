"""Diplomacy as a task: one power of every game against six copies of a bot, policy, Python object or snapshot.

Self-play is against six copies of one pool snapshot that samples its orders. A bot decides retreats and adjustments,
unless `network.all_phases` lets the policy and its snapshots do so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from sparring.agents.distributed.processes import ALONE, Processes, restore_generator
from sparring.agents.opponents.training import open_opponents
from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.policies.networks import PolicyNetwork, build_network, load_snapshot, shape_for
from sparring.agents.ppo.tasks.league_task import LeagueTask
from sparring.agents.ppo.tasks.task import VIDEO, VIDEO_EVERY
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.status import COMPILING, said_if_long
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


class DiplomacyTask(LeagueTask):
    """See `LeagueTask`; opponents are assigned to sets of seven games, one for each power."""

    section, matches_key, win = "diplomacy", "games", GAME.win
    config: DiplomacyRunConfig

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
        super().__init__(config, seeds, processes)
        self._threads = threads
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
        self._seats = self.league_env = SnapshotSeats(self.env, self._snapshots)

    def _new_snapshot(self, device: torch.device) -> PolicyOrders:
        return PolicyOrders(build_network(self._shape).to(device).eval(), generator=self._noise)

    def league_options(self) -> dict[str, Any]:
        """See `LeagueTask`."""
        return {"seats": NUM_POWERS}

    def measured(self, plan: TrainingPlan, network: PolicyNetwork, seed: int) -> tuple[dict[str, float], float]:
        """Play the bots; the best policy has the highest mean score."""
        filmed = (plan.update + 1) % (self.config.evaluation.every * VIDEO_EVERY) == 0
        metrics: dict[str, float] = {}
        games: dict[str, list[PhaseRecord]] = {}
        for bot in plan.bots:
            values, games[bot] = self._evaluate_against(bot, network, seed, filmed=filmed)
            metrics |= values
        if filmed:
            worst = games[min(plan.bots, key=lambda bot: metrics[f"eval/{bot}/score"])]
            self.film(VIDEO, lambda: gif_bytes(phases_of(worst), size=VIDEO_SIZE))
        return metrics, float(np.mean([metrics[f"eval/{bot}/score"] for bot in plan.bots]))

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

    def matches_state(self) -> dict[str, Any]:
        """See `LeagueTask`."""
        batch, env = self.env.batch.state_dict(), self.env.state_dict()
        games = {"games": batch["games"], "length": batch["length"], "draws": batch["draws"]}
        return games | {
            "opponent": env["opponents"].long(),
            "return": env["return"],
            "noise": self._noise.get_state(),
        }

    def load_matches(self, state: Mapping[str, Any]) -> None:
        """Do nothing: snapshots come from the pool, which is loaded later."""

    def load_state_dict(self, state: Mapping[str, Any], *, episodes: bool) -> None:
        """Continue from a `state_dict`; raises `InputError` for other sizes and impossible positions."""
        stored = state[self.section]
        if "pool" not in stored["league"]:  # from a version without self-play in Diplomacy
            stored = {**stored, "league": self.self_play.state_dict() | {"league": stored["league"]}}
        super().load_state_dict({self.section: stored}, episodes=episodes)
        if not episodes:
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

    def opponent_share(self) -> float | None:
        """Return the share of playing time that policies among the opponents take; None if none has played."""
        seconds, self.games.writer_seconds = self.games.writer_seconds, 0.0
        if not self.opponents.policies and not any(self.self_play.slots):
            return None
        return min(seconds / max(self.env.simulator_seconds, 1e-9), 1.0)


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
