"""Diplomacy as a task: one power of every game against six bots of the kind that the plan deals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch

from sparring.agents.distributed.processes import ALONE, Processes
from sparring.agents.play.diplomacy_matches import play_against
from sparring.agents.play.table import POWERS, Table
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.order_network import order_network_shape
from sparring.agents.run.folder import RunFolder
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.status import COMPILING, said_if_long
from sparring.configs.schema import RunConfig
from sparring.curriculum.league.league import CHALLENGER, known_win_rates, new_league, record
from sparring.curriculum.league.serialization import read_league, write_league
from sparring.curriculum.opponent_mix import deal
from sparring.curriculum.ratings.game_results import head_to_head
from sparring.curriculum.schedule import TrainingPlan
from sparring.envs.diplomacy.batch import FIRST_YEAR, DiplomacyBatch
from sparring.envs.diplomacy.board.codes import BOTS
from sparring.envs.diplomacy.rewards.scoring import count_centres, sum_of_squares


class DiplomacyTask:
    """See `agents.ppo.tasks.task.Task`; opponents are dealt to whole sets of seven games, one for each power."""

    cannot_save = ""
    physics = False
    win = "most centres"

    def __init__(
        self,
        config: RunConfig,
        device: torch.device,
        threads: int,
        *,
        seeds: Mapping[str, int],
        processes: Processes = ALONE,
    ) -> None:
        if not processes.alone:
            raise ConfigError(f"env.id={config.env.id}: learns in one process; start it without torchrun")
        self.config, self._seeds, self._threads = config, seeds, threads
        with said_if_long(COMPILING, shown=config.logger.progress):
            self.batch = DiplomacyBatch(
                config.env.num_envs, device=str(device), last_year=config.env.last_year, threads=threads
            )
            self.batch.load_kernels()
        self.table = self.env = Table(self.batch, BOTS, seed=seeds["env"])
        self.num_envs = self.batch.num_games
        self.longest_episode = 2 * (config.env.last_year - FIRST_YEAR + 1)
        self.network_shape = order_network_shape(config.network)
        self.league = new_league(BOTS)
        self._best = -1.0

    @property
    def contract(self) -> dict[str, Any]:
        """Which game, its sizes, and when it ends."""
        sizes = {"obs_dim": self.network_shape["obs_dim"], "continuous": 0, "binary": 0}
        return {"id": self.config.env.id, "version": 1, **sizes, "last_year": self.config.env.last_year}

    @property
    def simulator_seconds(self) -> float:
        """The table's."""
        return self.table.simulator_seconds

    @simulator_seconds.setter
    def simulator_seconds(self, seconds: float) -> None:
        self.table.simulator_seconds = seconds

    def open(self, folder: RunFolder, alert: Callable[[str], None]) -> None:
        """There are no files of its own."""

    def rehearse(self) -> None:
        """Meet all bots alike."""
        self.table.assign(np.arange(self.num_envs) // POWERS % len(BOTS))

    def prepare(self, plan: TrainingPlan, network: ActorCritic) -> None:
        """Seat the opponents."""
        shares = [plan.bots.get(bot, 0.0) for bot in BOTS]
        now = self.table.opponent.cpu().numpy()[::POWERS]
        self.table.assign(np.repeat(deal(shares, self.num_envs // POWERS, now), POWERS))

    def results(self, plan: TrainingPlan) -> dict[str, float]:
        """Per opponent: games, the learner's centres and share of the score, how often it led."""
        found = self.table.harvest()
        metrics = {"rollout/matches": float(found.games.sum())}
        for k, bot in enumerate(BOTS):
            if games := found.games[k]:
                wins, draws = int(found.wins[k]), int(found.draws[k])
                result = (wins, draws, int(games) - wins - draws)
                self.league = record(self.league, head_to_head(CHALLENGER, bot, result))
                values = {"win_rate": wins, "draw_rate": draws, "centres": found.centres[k], "score": found.score[k]}
                metrics |= {f"rollout/{bot}/{name}": float(value) / games for name, value in values.items()}
                metrics[f"rollout/{bot}/length"] = float(found.length[k]) / games
        rates = self.win_rates()
        metrics |= {f"curriculum/{bot}/share": share for bot, share in plan.bots.items()}
        metrics |= {f"curriculum/{bot}/win_rate": rates[bot] for bot in plan.bots if bot in rates}
        return metrics | {"curriculum/phase": float(plan.phase_index), "curriculum/stage": float(plan.stage)}

    def check(self, plan: TrainingPlan, network: ActorCritic) -> tuple[dict[str, float], bool]:
        """Games of the deterministic policy against six of each bot met so far."""
        every = self.config.evaluation.every
        if every == 0 or (plan.update + 1) % every:
            return {}, False
        seed = (self._seeds["checks"] + plan.update) % 2**31
        metrics: dict[str, float] = {}
        for bot in plan.bots:
            metrics |= self._check_against(bot, network, seed)
        mean = float(np.mean([metrics[f"eval/{bot}/score"] for bot in plan.bots]))
        improved, self._best = mean >= self._best, max(mean, self._best)
        return metrics, improved

    def _check_against(self, bot: str, network: ActorCritic, seed: int) -> dict[str, float]:
        games = self.config.evaluation.games
        last_year, device = self.config.env.last_year, str(self.table.device)
        batch = DiplomacyBatch(games, device=device, last_year=last_year, threads=self._threads)
        try:
            play_against(batch, network, bot, seed=seed)
        finally:
            batch.close()
        seats = torch.arange(games, device=batch.device)
        centres, squares = (score(batch.owner)[seats, seats % POWERS] for score in (count_centres, sum_of_squares))
        others = count_centres(batch.owner).index_put((seats, seats % POWERS), torch.tensor(-1, device=batch.device))
        led = centres > others.max(1).values
        values = {"centres": centres, "score": squares, "win_rate": led}
        return {f"eval/{bot}/{name}": float(value.float().mean()) for name, value in values.items()}

    def win_rates(self) -> dict[str, float]:
        """How often it lately had more centres than anybody, per bot met often enough."""
        return known_win_rates(self.league, CHALLENGER)

    def headline(self, plan: TrainingPlan) -> str:
        """The bots, and how often the learner had most centres."""
        rates = self.win_rates()
        bots = " ".join(f"{bot} {rates[bot]:.0%}" if bot in rates else bot for bot in plan.bots)
        return f"{self.win}: {bots}" if rates else bots

    def standing(self) -> dict[str, Any]:
        """Win rates."""
        return {"win_rates": self.win_rates()}

    def broken(self) -> int:
        """Nothing is put into quarantine."""
        return 0

    def files(self) -> list[str]:
        """None."""
        return []

    def sweep(self, names: Iterable[str]) -> None:
        """There is nothing to sweep."""

    def state_dict(self, *, episodes: bool = True) -> dict[str, Any]:
        """Games, recent results and the best check."""
        games = self.table.state_dict() if episodes else {}
        return {"diplomacy": {"games": games, "league": write_league(self.league), "best": self._best}}

    def load_state_dict(self, state: Mapping[str, Any], *, episodes: bool) -> None:
        """Continue from a `state_dict`."""
        mine = state["diplomacy"]
        self.league = read_league(mine["league"])
        self._best = mine["best"]
        if episodes:
            self.table.load_state_dict(mine["games"])

    def begin_anew(self) -> None:
        """There is nothing to forget."""

    def close(self) -> None:
        """End the simulator's threads."""
        self.batch.close()
