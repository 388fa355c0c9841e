"""The vector interface: N matches as a `gymnasium.vector.VectorEnv`, a learner against named opponents.

A finished match restarts within the same step (`AutoresetMode.SAME_STEP`): `obs` is that of the next match, the last
observation of the finished one is in `infos["final_obs"]`. Every returned array is a copy. `infos["episode"]` carries
the return `r`, the decisions `l` and the seconds of play `t` of each match that finished in this step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from sparring.configs.core.errors import choose
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.interfaces.numpy_batch import (
    RENDER_MODES,
    MatchOptions,
    NumpyBatch,
    Step,
    learner_result,
    match_seed,
    read_options,
    render_fps,
)
from sparring.envs.dogfight.interfaces.spaces import action_space, check_actions, observation_space

RENDERED_MATCHES = 4
SEATS = ("0", "1", "alternate")


class DogfightVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """N dogfights at once, each a learner against a scripted opponent; see `DogfightEnv` for the game.

    Beside the arguments of `DogfightEnv` (`MatchOptions`):

    - `num_envs`: matches.
    - `opponent`: a bot or any other (docs/opponents.md), or a list of several that cycle over the matches.
    - `seat`: the learner's seat, 0 or 1, or "alternate": every opponent plays both seats in turn.
    - `threads`: simulator threads on the CPU; 0 is every core this process may use.

    With `render_mode="rgb_array"`, `render()` draws the first four matches.
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": 12, "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        *,
        opponent: Any = "ace",
        seat: int | str = "alternate",
        threads: int = 0,
        **match: Any,
    ) -> None:
        options = MatchOptions.of(match, own=("num_envs", "opponent", "seat", "threads"))
        self._batch = NumpyBatch(num_envs, options, rendered=min(RENDERED_MATCHES, num_envs), threads=threads)
        self.num_envs = num_envs
        self.render_mode = options.render_mode
        self.metadata = {**self.metadata, "render_fps": render_fps(options)}
        self.single_action_space = action_space()
        self.single_observation_space = observation_space(options.rules, options.observe_physics)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._seat = choose("seat", str(seat), SEATS)
        self._default_opponent = opponent
        self._returns = np.zeros(num_envs, dtype=np.float64)
        self._matches = np.arange(num_envs)
        self._seats = np.zeros(num_envs, dtype=np.int64)
        self._assign_opponents(opponent)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Restart every match; `options` may hold `opponent` and `regime` for all matches until the next reset."""
        super().reset(seed=seed)
        opponent, regime = read_options(options)
        self._assign_opponents(self._default_opponent if opponent is None else opponent)
        self._batch.set_regime(regime)
        self._returns[:] = 0.0
        return self._batch.reset(match_seed(seed, self.np_random))[self._matches, self._seats], {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Play one decision in every match; `actions` [N, 3]. Raises `ValueError` for an invalid shape or value."""
        both = np.zeros((self.num_envs, 2, 3), dtype=np.float32)
        both[self._matches, self._seats] = check_actions(actions, (self.num_envs, 3))
        step = self._batch.step(both)
        reward = step.reward[self._matches, self._seats]
        self._returns += reward
        infos = self._infos(step, step.terminated | step.truncated)
        return step.obs[self._matches, self._seats], reward, step.terminated, step.truncated, infos

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Return pictures of the first four matches, uint8 [H, W, 3]; None without a render mode."""
        return None if self.render_mode is None else tuple(self._batch.frames())

    def close_extras(self, **kwargs: Any) -> None:
        """Release the simulator."""
        self._batch.close()

    @property
    def opponent_share(self) -> float:
        """Share of the time of all steps that opponents other than bots took, outside the kernels."""
        return self._batch.opponent_share

    def _assign_opponents(self, opponent: Any) -> None:
        names = list(opponent) if isinstance(opponent, list | tuple) else [opponent]
        if not names:
            raise ValueError(f"opponent={opponent!r} names no bot: choose from {', '.join(rules.BOTS)}")
        # Alternating per round of opponents, not per match: an even number of them would otherwise keep one seat each.
        rounds = self._matches // len(names)
        self._seats = rounds % 2 if self._seat == "alternate" else np.full_like(rounds, int(self._seat))
        self._batch.seat_opponents([names[i % len(names)] for i in self._matches], self._seats)

    def _infos(self, step: Step, done: np.ndarray) -> dict[str, Any]:
        """Return the infos of SAME_STEP autoreset, each key with its mask; empty unless a match finished."""
        if not done.any():
            return {}
        final_obs = np.full(self.num_envs, None, dtype=object)
        for match in np.flatnonzero(done):
            final_obs[match] = step.final_obs[match, self._seats[match]].copy()
        infos = {
            "final_obs": final_obs,
            "final_info": self._final_info(step, done),
            "episode": self._episode(step, done),
        }
        self._returns[done] = 0.0
        return infos | {f"_{key}": done.copy() for key in infos}

    def _final_info(self, step: Step, done: np.ndarray) -> dict[str, np.ndarray]:
        decided = done & (step.outcome >= 0)
        values = {
            "outcome": learner_result(step.outcome, self._seats),
            "ticks": step.ticks,
            "hp": step.hp[self._matches, self._seats],
            "opponent_hp": step.hp[self._matches, 1 - self._seats],
        }
        masked = {key: np.where(decided, value, 0) for key, value in values.items()}
        return masked | {f"_{key}": decided.copy() for key in values}

    def _episode(self, step: Step, done: np.ndarray) -> dict[str, np.ndarray]:
        return {
            "r": np.where(done, self._returns, 0.0),
            "l": np.where(done, step.decisions, 0),
            "t": np.where(done, step.ticks * rules.DT, 0.0),
        }
