"""Diplomacy as a task: one power of every game against six times the bot, policy or Python object in the plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from sparring.agents.distributed.processes import ALONE, Processes
from sparring.agents.opponents.diplomacy import open_player
from sparring.agents.opponents.training import open_opponents
from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.ppo.tasks.task import VIDEO, Film, TaskStatus
from sparring.agents.run.folder import RunFolder
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.status import COMPILING, said_if_long
from sparring.curriculum.league.file import read_league, write_league
from sparring.curriculum.league.league import CHALLENGER, known_win_rates, new_league, record
from sparring.curriculum.opponents import deal
from sparring.curriculum.ratings import head_to_head
from sparring.curriculum.schedule import TrainingPlan
from sparring.envs.diplomacy import GAME
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import BOTS, NUM_POWERS
from sparring.envs.diplomacy.config import DiplomacyRunConfig
from sparring.envs.diplomacy.drawing.render import gif_bytes
from sparring.envs.diplomacy.movement_batch import MovementBatch, OrderWriter
from sparring.envs.diplomacy.records.history import PhaseRecord, WatchedBatch
from sparring.envs.diplomacy.records.timeline import phases_of
from sparring.envs.diplomacy.rewards.scoring import count_centres, sum_of_squares

VIDEO_SIZE = (480, 400)
"""Width and height of a video, pixels."""


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
        with said_if_long(COMPILING, shown=config.logger.progress):
            batch = DiplomacyBatch(games, device=str(device), last_year=last_year, threads=threads)
            batch.load_kernels()
        self.opponents = open_opponents(config, lambda text: open_player(text, device))
        self.games = MovementBatch(batch, seed=seeds["env"], writers=[*self.opponents.policies.values()])
        self.env = LearnerEnv(self.games, bots=(*BOTS, *self.opponents.policies), seed=seeds["opponents"])
        self.league = new_league(self.env.bots)
        self._best = -1.0
        self._opponent_share = 0.0

    def open(self, folder: RunFolder, alert: Callable[[str], None], film: Film) -> None:
        """Keep `film`; the task has no files."""
        self._film = film

    def prepare(self, plan: TrainingPlan, network: ActorCritic) -> None:
        """Assign the opponents."""
        shares = [plan.bots.get(bot, 0.0) for bot in self.env.bots]
        now = self.env.opponents[::NUM_POWERS]
        self.env.assign(np.repeat(deal(shares, self.env.num_envs // NUM_POWERS, now), NUM_POWERS))

    def results(self, plan: TrainingPlan) -> dict[str, float]:
        """Return per opponent: games, the learner's centres and share of the score, and how often it led."""
        tally = self.env.harvest()
        metrics = {"rollout/matches": float(tally.games.sum())}
        for k, bot in enumerate(self.env.bots):
            if games := tally.games[k]:
                self.league = record(self.league, head_to_head(CHALLENGER, bot, tally.result(k)))
                values = {"win_rate": tally.wins[k], "draw_rate": tally.draws[k]}
                values |= {name: tally.stats[name][k] for name in ("centres", "score")}
                metrics |= {f"rollout/{bot}/{name}": float(value) / games for name, value in values.items()}
                metrics[f"rollout/{bot}/length"] = float(tally.stats["length"][k]) / games
        rates = known_win_rates(self.league, CHALLENGER)
        metrics |= {f"curriculum/{bot}/share": share for bot, share in plan.bots.items()}
        metrics |= {f"curriculum/{bot}/win_rate": rates[bot] for bot in plan.bots if bot in rates}
        metrics |= {"curriculum/phase": float(plan.phase_index), "curriculum/stage": float(plan.stage)}
        return metrics | self._cost()

    def evaluate(self, plan: TrainingPlan, network: ActorCritic) -> tuple[dict[str, float], bool]:
        """Play games of the deterministic policy against six of each bot met so far."""
        every = self.config.evaluation.every
        if every == 0 or (plan.update + 1) % every:
            return {}, False
        seed = (self._seeds["checks"] + plan.update) % 2**31
        videos = self.config.evaluation.video_every
        filmed = videos > 0 and (plan.update + 1) % (every * videos) == 0
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
        self, bot: str, network: ActorCritic, seed: int, *, filmed: bool
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
        """Return the bots, and how often the learner had most centres."""
        rates = known_win_rates(self.league, CHALLENGER)
        bots = plan.headline(rates) if plan else ""
        cost = f" opponents {self._opponent_share:.0%} of play" if self.opponents.policies and plan else ""
        return TaskStatus((f"{GAME.win}: {bots}" if rates else bots) + cost, rates, {"win_rates": rates})

    def state_dict(self, *, episodes: bool = True) -> dict[str, Any]:
        """Return games, recent results and the best evaluation."""
        games: dict[str, Any] = {}
        if episodes:
            batch = self.env.batch.state_dict()
            opponents = {"opponent": torch.from_numpy(self.env.opponents).long()}
            games = {"games": batch["games"], **opponents, "length": batch["length"], "draws": batch["draws"]}
        records = {"league": write_league(self.league), "best": self._best, **self.opponents.state_dict()}
        return {"diplomacy": {"games": games, **records}}

    def load_state_dict(self, state: Mapping[str, Any], *, episodes: bool) -> None:
        """Continue from a `state_dict`; raises `InputError` for other sizes and impossible positions."""
        stored = state["diplomacy"]
        self.opponents.check_unchanged(stored)
        self.league = read_league(stored["league"])
        self._best = stored["best"]
        if episodes:
            saved = stored["games"]
            games = {name: saved[name] for name in ("games", "length", "draws")}
            self.env.load_state_dict(self.env.state_dict() | {"batch": games, "opponents": saved["opponent"].int()})

    def _cost(self) -> dict[str, float]:
        """Return the share of playing time that named opponents take, outside the kernels; empty without any."""
        if not self.opponents.policies:
            return {}
        seconds, self.games.writer_seconds = self.games.writer_seconds, 0.0
        self._opponent_share = min(seconds / max(self.env.simulator_seconds, 1e-9), 1.0)
        return {"time/opponent_share": self._opponent_share}


@torch.no_grad()
def play_against(
    batch: DiplomacyBatch, network: ActorCritic, opponent: str | OrderWriter, *, seed: int
) -> dict[str, torch.Tensor]:
    """Play every game of `batch` from start to end, the deterministic policy in seat i % 7 of game i.

    A bot as the opponent also decides the policy's retreats and adjustments, as in training; beside another opponent a
    DumbBot does. Returns the policy's centres, its share of the squares (score), and whether it led (win_rate), [G].
    """
    batch.reset()
    writers = () if isinstance(opponent, str) else (opponent,)
    movements = MovementBatch(batch, seed=seed, autoreset=False, writers=writers)
    env = LearnerEnv(movements, bots=(*BOTS, *map(str, writers)), seed=0)
    number = BOTS.index(opponent) if isinstance(opponent, str) else len(BOTS)
    env.assign(np.full(batch.num_games, number))
    while not bool(batch.done.all()):
        actions, _ = network.act(env.obs, deterministic=True)
        env.step(actions)
    batch.check()
    game = torch.arange(batch.num_games, device=batch.device)
    own = (game, game % NUM_POWERS)
    centres, squares = (score(batch.owner)[own] for score in (count_centres, sum_of_squares))
    others = count_centres(batch.owner).index_put(own, torch.tensor(-1, device=batch.device))
    return {"centres": centres, "score": squares, "win_rate": centres > others.max(1).values}
