"""The PettingZoo interface: one match as a `ParallelEnv` with both seats as agents.

`player_0` starts on the left, `player_1` on the right; both act in every step and both leave when the match ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box
from pettingzoo import ParallelEnv

from sparring.configs.core.errors import reset_option
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.interfaces import numpy_batch
from sparring.envs.dogfight.interfaces.numpy_batch import RENDER_MODES
from sparring.envs.dogfight.interfaces.spaces import action_space, check_actions, observation_space

PLAYERS = ("player_0", "player_1")


class DogfightParallelEnv(ParallelEnv[str, np.ndarray, np.ndarray]):
    """Two agents, `player_0` and `player_1`, with the actions, observations and rewards of `DogfightEnv`.

    With `opponent`, anything of docs/opponents.md plays as `player_1`, and `player_0` is the only agent.

    The step that ends the match puts `outcome` (1 win, 0 draw, -1 loss), `ticks`, `hp` and `opponent_hp` into each
    agent's info. Raises `UnknownNameError` for an unknown argument.
    """

    metadata = {"name": "dogfight_v1", "render_modes": RENDER_MODES, "render_fps": 12, "is_parallelizable": True}  # noqa: RUF012

    def __init__(self, *, opponent: Any = None, **match: Any) -> None:
        options = numpy_batch.MatchOptions.of(match, extra=("opponent",))
        self._batch = numpy_batch.NumpyBatch(1, options, rendered=1)
        self._seated = PLAYERS if opponent is None else PLAYERS[:1]
        if opponent is None:
            self._batch.set_bots(np.full((1, 2), rules.ACTIONS))
        else:
            self._batch.seat_opponents([opponent], np.array([0]))
        self._random = np.random.default_rng()
        self.render_mode = options.render_mode
        self.metadata = {**self.metadata, "render_fps": numpy_batch.render_fps(options)}
        self.possible_agents = list(self._seated)
        self.agents: list[str] = []
        # One space object per agent: seeding one must not reseed the other.
        self.observation_spaces = {
            agent: observation_space(options.rules, options.observe_physics) for agent in self._seated
        }
        self.action_spaces = {agent: action_space() for agent in self._seated}

    def observation_space(self, agent: str) -> Box:
        """Return the agent's observation space, the same object at every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Box:
        """Return the agent's action space, the same object at every call."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
        """Start a new match; `options["regime"]` names its physics, other keys are ignored.

        Raises `UnknownNameError` for a key that looks like a misspelling of `regime`.
        """
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self._batch.set_regime(reset_option(options, "regime"))
        obs = self._batch.reset(numpy_batch.match_seed(seed, self._random))[0]
        self.agents = list(self._seated)
        return {agent: obs[seat].copy() for seat, agent in enumerate(self._seated)}, {
            agent: {} for agent in self._seated
        }

    def step(
        self, actions: dict[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Play one decision of both players. Raises `ValueError` for a missing agent or an invalid action."""
        if not self.agents:
            raise ResetNeeded("no match is running: call reset() before step()")
        self._give(actions)
        step = self._batch.step()
        terminated, truncated = bool(step.terminated[0]), bool(step.truncated[0])
        over = terminated or truncated
        obs = [self._batch.last_obs(np.array([seat]))[0] if over else step.obs[0, seat] for seat in range(2)]
        if over:
            self.agents = []
        return (
            {agent: obs[seat].copy() for seat, agent in enumerate(self._seated)},
            {agent: float(step.reward[0, seat]) for seat, agent in enumerate(self._seated)},
            dict.fromkeys(self._seated, terminated),
            dict.fromkeys(self._seated, truncated),
            {agent: numpy_batch.match_info(step, seat) for seat, agent in enumerate(self._seated)},
        )

    def render(self) -> np.ndarray | None:
        """Return a picture of the match, uint8 [H, W, 3]; None without a render mode, or with a window."""
        return self._batch.frames()[0] if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Release the simulator."""
        self._batch.close()

    def _give(self, actions: dict[str, np.ndarray]) -> None:
        """Return the agents' actions, each checked under its agent's name."""
        if set(actions) != set(self._seated):
            raise ValueError(f"actions for {sorted(actions)}: give one for each of {', '.join(self._seated)}")
        for seat, agent in enumerate(self._seated):
            self._batch.actions[0, seat] = check_actions(actions[agent], (3,), whose=agent)


parallel_env = DogfightParallelEnv
"""Factory function under PettingZoo's usual name."""
