"""The vector interface: N matches as a `gymnasium.vector.VectorEnv`, a learner against named opponents.

A finished match restarts within the same step (`AutoresetMode.SAME_STEP`): `obs` belongs to the next match, and
`infos["final_obs"]` is the last observation of the finished one. Every returned array is a copy. `infos["episode"]`
carries the return `r`, the decisions `l` and the seconds of play `t` of each match that finished in this step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from sparring.configs.core.errors import choose
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.interfaces import numpy_batch
from sparring.envs.dogfight.interfaces.spaces import action_space, check_actions, observation_space

RENDERED_MATCHES = 4
RENDER_MODES = ["rgb_array"]
SEATS = ("0", "1", "alternate")


class DogfightVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """N parallel dogfights, each a learner against a scripted opponent; see `DogfightEnv` for the game.

    In addition to the arguments of `DogfightEnv` (`MatchOptions`):

    - `num_envs`: matches.
    - `opponent`: a bot or another opponent (docs/opponents.md), or a list that cycles over the matches.
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
        options = numpy_batch.MatchOptions.of(match, extra=("num_envs", "opponent", "seat", "threads"))
        if options.render_mode is not None:
            choose("render_mode", options.render_mode, RENDER_MODES)
        self._batch = numpy_batch.NumpyBatch(
            num_envs, options, rendered=min(RENDERED_MATCHES, num_envs), threads=threads
        )
        self.num_envs = num_envs
        self.render_mode = options.render_mode
        self.metadata = {**self.metadata, "render_fps": numpy_batch.render_fps(options)}
        self.single_action_space = action_space()
        self.single_observation_space = observation_space(options.rules, options.observe_physics)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._seat = choose("seat", str(seat), SEATS)
        self._default_opponent = opponent
        self._returns = np.zeros(num_envs, dtype=np.float64)
        self._assign_opponents(opponent)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Restart every match; `options` may hold `opponent` and `regime` for all matches until the next reset."""
        super().reset(seed=seed)
        opponent, regime = numpy_batch.read_options(options)
        self._assign_opponents(self._default_opponent if opponent is None else opponent)
        self._batch.set_regime(regime)
        self._returns[:] = 0.0
        return self._own(self._batch.reset(numpy_batch.match_seed(seed, self.np_random))), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Play one decision in every match; `actions` [N, 3]. Raises `ValueError` for an invalid shape or value."""
        self._batch.actions.reshape(-1, 3)[self._rows] = check_actions(actions, (self.num_envs, 3))
        step = self._batch.step()
        reward = self._own(step.reward)
        self._returns += reward
        infos = self._infos(step)
        return self._own(step.obs), reward, step.terminated.copy(), step.truncated.copy(), infos

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Return pictures of the first four matches, uint8 [H, W, 3]; None without a render mode."""
        return None if self.render_mode is None else tuple(self._batch.frames())

    def close_extras(self, **kwargs: Any) -> None:
        """Release the simulator."""
        self._batch.close()

    @property
    def opponent_share(self) -> float:
        """Share of the time of all steps spent in opponents other than bots, outside the kernels."""
        return self._batch.opponent_share

    def _assign_opponents(self, opponent: Any) -> None:
        names = list(opponent) if isinstance(opponent, list | tuple) else [opponent]
        if not names:
            raise ValueError(f"opponent={opponent!r} is not a bot: choose from {', '.join(rules.BOTS)}")
        # Alternating per round of opponents, not per match: an even number of them would otherwise keep one seat each.
        matches = np.arange(self.num_envs)
        rounds = matches // len(names)
        self._seats = rounds % 2 if self._seat == "alternate" else np.full_like(rounds, int(self._seat))
        self._rows = 2 * matches + self._seats
        self._batch.seat_opponents([names[i % len(names)] for i in matches], self._seats)

    def _own(self, seats: np.ndarray) -> np.ndarray:
        """Return a copy [N, ...] of the learner's rows of `seats` [N, 2, ...]."""
        return seats.reshape(2 * self.num_envs, *seats.shape[2:]).take(self._rows, axis=0)

    def _infos(self, step: numpy_batch.Step) -> dict[str, Any]:
        """Return the infos of SAME_STEP autoreset, each key with its mask; empty unless a match finished."""
        done = step.terminated | step.truncated
        ended = done.nonzero()[0]
        if not len(ended):
            return {}
        final_obs = np.empty(self.num_envs, dtype=object)  # of None
        for match, obs in zip(ended, self._batch.last_obs(self._rows[ended]), strict=True):
            final_obs[match] = obs
        infos = {
            "final_obs": final_obs,
            "final_info": self._final_info(step, ended),
            "episode": self._episode(step, ended),
        }
        self._returns[ended] = 0.0
        return infos | {f"_{key}": done.copy() for key in infos}

    def _final_info(self, step: numpy_batch.Step, ended: np.ndarray) -> dict[str, np.ndarray]:
        decided = ended[step.outcome[ended] >= 0]
        rows, hp = self._rows[decided], step.hp.reshape(-1)
        values = {
            "outcome": numpy_batch.learner_result(step.outcome[decided], self._seats[decided]),
            "ticks": step.ticks[decided].astype(np.int64),
            "hp": hp[rows],
            "opponent_hp": hp[rows ^ 1],
        }
        mask = self._spread(np.ones(len(decided), dtype=bool), decided)
        full = {key: self._spread(column, decided) for key, column in values.items()}
        return full | {f"_{key}": mask.copy() for key in values}

    def _episode(self, step: numpy_batch.Step, ended: np.ndarray) -> dict[str, np.ndarray]:
        values = {"r": self._returns[ended], "l": step.decisions[ended], "t": step.ticks[ended] * rules.DT}
        return {key: self._spread(column, ended) for key, column in values.items()}

    def _spread(self, values: np.ndarray, matches: np.ndarray) -> np.ndarray:
        """Return [N] with `values` at `matches`, zeros elsewhere."""
        out = np.zeros(self.num_envs, dtype=values.dtype)
        out[matches] = values
        return out
