"""The dogfight as a PPO task: its batch, randomized physics, custom rewards, and videos."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from sparring.agents.distributed.processes import ALONE, Processes
from sparring.agents.ppo.evaluation import MatchFilms
from sparring.agents.ppo.tasks.duel import DuelTask
from sparring.agents.ppo.tasks.task import VIDEO, Film
from sparring.curriculum.schedule import TrainingPlan
from sparring.envs.dogfight.animation import gif_bytes
from sparring.envs.dogfight.batch import DogfightBatch, MatchSettings, Mirror
from sparring.envs.dogfight.config import DogfightRunConfig
from sparring.envs.dogfight.recording import Recorder as MatchRecorder
from sparring.envs.dogfight.rules import BOTS, REGIMES, ranges
from sparring.envs.dogfight.training.opponents.load import open_player
from sparring.envs.dogfight.training.own_reward import OwnReward

VIDEO_SECONDS, VIDEO_FPS, VIDEO_SIZE = 15.0, 10, (360, 240)
"""Length of a video, which shows the end of a match, and its size in pixels."""


class DogfightTask(DuelTask):
    """See `DuelTask`."""

    batch_kind = DogfightBatch
    bots, per_match = BOTS, ("obs", "bots", "match_id", "invalid_actions")
    config: DogfightRunConfig
    batch: DogfightBatch

    def __init__(
        self,
        config: DogfightRunConfig,
        device: torch.device,
        threads: int,
        *,
        seeds: Mapping[str, int],
        processes: Processes = ALONE,
    ) -> None:
        super().__init__(config, device, threads, seeds=seeds, processes=processes)
        if config.reward:
            self.env.own_reward = OwnReward(config.reward, self.batch, self.env.seat_rows, config.ppo.gamma)

    @property
    def limit_ends(self) -> bool:  # type: ignore[override]
        """See `LearnerEnv`; only rewards that add up to zero treat the time limit as an ending."""
        return self.config.env.reward.zero_sum

    @property
    def contract(self) -> dict[str, Any]:
        """Contract of the run's policies, including the mirror."""
        return self.batch.contract | {"mirror": self.config.env.mirror}

    def batch_options(self) -> dict[str, Any]:
        """Return the batch options specific to this game."""
        return {name: getattr(self.config.env, name) for name in ("rules", "observe_physics", "closing")}

    def make_view(self) -> Mirror | None:
        """Return the mirror, if policies play in it."""
        batch = self.batch
        return Mirror(batch.rules, batch.obs_dim, batch.device) if self.config.env.mirror else None

    def open_policy(self, text: str, device: torch.device) -> Any:
        """Return the opponent that a run names, if it is not a bot."""
        return open_player(text, device).opponent()

    def conditions(self, device: torch.device, threads: int) -> MatchSettings:
        """Return the conditions of evaluation matches: as in training, in the default physics."""
        env = self.config.env
        return MatchSettings(
            rules=env.rules,
            action_repeat=env.action_repeat,
            observe_physics=env.observe_physics,
            closing=env.closing,
            device=str(device),
            threads=threads,
        )

    def set_physics(self, plan: TrainingPlan) -> None:
        """Randomize the physics as the plan says."""
        self.batch.set_ranges(plan.randomization.ranges())

    def regimes(self) -> Mapping[str, np.ndarray]:
        """Return the ranges of the named regimes."""
        return {regime: ranges(regime) for regime in REGIMES}

    def films(self, film: Film) -> MatchFilms[Any]:
        """Return the recorder of evaluation videos."""
        return DogfightFilms(film, self.config.env.rules)


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
