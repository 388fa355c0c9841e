"""The PettingZoo interface: one match of air combat as a `ParallelEnv` with all aircraft as agents.

    python train.py +run=pettingzoo env.id=sparring.envs.air_combat.parallel_env

trains on it by self-play. With `opponent` a scripted pilot flies the other side, and only the first side has agents.
`missiles`, `flares`, `team_size` and all other fields of `rules.CombatOptions` are arguments.

A match can be recorded as a text file of Tacview (`tacview.py`).
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import torch
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, MultiDiscrete
from pettingzoo import ParallelEnv

from sparring.configs.core.errors import InputError, choose
from sparring.envs.air_combat import rules, spaces
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.recording import AirRecorder
from sparring.envs.air_combat.tacview import acmi_text

RENDER_MODES = ("acmi",)
MATCH_OPTIONS = (
    "model", "gun", "action_repeat", "max_ticks", "reward", "gamma", "chase", "low_start", "ground_limit", "seed",
    "device",
)  # fmt: skip
"""Arguments of `AirCombatBatch` that are options of a match."""


class AirCombatParallelEnv(ParallelEnv[str, np.ndarray, np.ndarray]):
    """Agents `player_0`, `player_1`, ...: 44 numbers observed (`rules.OBSERVATION`), 4 acted (`rules.ACTION_NAMES`).

    Both grow with the options. An aircraft that is lost while its side fights on terminates its agent.

    Args:
        opponent: a scripted pilot of `rules.BOTS` for the other side; empty for agents on both sides.
        render_mode: "acmi" records every step; `render` returns the match as the text of a Tacview file.
        options: fields of `rules.CombatOptions`, and those arguments of `AirCombatBatch` in `MATCH_OPTIONS`.

    The step that ends the match puts `outcome` (1 win, 0 draw, -1 loss), `ticks` and `hp` into each agent's info.
    Raises `UnknownNameError` for an unknown pilot, model or gun, and `ConfigError` for a value out of range.

    """

    metadata = {"name": "air_combat_v0", "render_modes": RENDER_MODES, "is_parallelizable": True}  # noqa: RUF012

    def __init__(self, *, opponent: str = "", render_mode: str | None = None, **options: Any) -> None:
        if render_mode not in (None, *RENDER_MODES):
            raise InputError(f"render_mode={render_mode}: must be None or acmi, the text of a Tacview file")
        names = {entry.name for entry in fields(rules.CombatOptions)}
        for name in options:
            choose("option", name, (*names, *MATCH_OPTIONS))
        chosen = rules.CombatOptions(**{name: value for name, value in options.items() if name in names})
        plain = {name: value for name, value in options.items() if name not in names}
        self._batch = AirCombatBatch(1, threads=1, options=chosen, **plain)
        size, seats = chosen.team_size, self._batch.seats
        self.contract = self._batch.contract
        self.seat_pilot(opponent)
        self._names = tuple(f"player_{seat}" for seat in range(seats))
        self.render_mode, self._recorder = render_mode, AirRecorder(self._batch)
        self.possible_agents = [f"player_{seat}" for seat in range(size if opponent else seats)]
        self.agents: list[str] = []
        self._random = np.random.default_rng()
        self._bounds = spaces.observation_space(chosen)
        self.observation_spaces = {agent: spaces.observation_space(chosen) for agent in self.possible_agents}
        self.action_spaces = {agent: spaces.action_space(chosen) for agent in self.possible_agents}

    def seat_pilot(self, name: str) -> None:
        """Set the scripted pilot of the other side; an empty name lets actions control it."""
        size = self._batch.seats // 2
        pilot = rules.bot_id(name) if name else rules.ACTIONS
        self._batch.assign(torch.tensor([[rules.ACTIONS] * size + [pilot] * size]))

    def observation_space(self, agent: str) -> Box:
        """Return the agent's observation space, the same object at every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Box | MultiDiscrete:
        """Return the agent's action space, the same object at every call."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
        """Start a new match; a seed decides this match and all later ones. `options` is ignored."""
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self._batch.reset(int(self._random.integers(2**31)))
        self.agents = list(self.possible_agents)
        self._recorder = AirRecorder(self._batch)
        return self._rows(self._batch.obs), {agent: {} for agent in self.agents}

    def step(
        self, actions: dict[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Play one step. Raises `ValueError` for a missing agent or an action of another shape or not finite."""
        if not self.agents:
            raise ResetNeeded("no match is running: call reset() before step()")
        if set(actions) != set(self.agents):
            raise ValueError(f"actions for {sorted(actions)}: give one for each of {', '.join(self.agents)}")
        for agent in self.agents:
            self._batch.actions[0, self._seat(agent)] = torch.from_numpy(self._checked(agent, actions[agent]))
        batch = self._batch
        batch.step(batch.actions)
        if self.render_mode:
            self._recorder(batch)
        terminated, truncated = bool(batch.terminated[0]), bool(batch.truncated[0])
        over = terminated or truncated
        infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        ended = dict.fromkeys(self.agents, terminated)
        if over:
            code = int(batch.outcome[0])
            for agent in self.agents:
                seat = self._seat(agent)
                result = 0 if code == 0 else 1 if code >> seat & 1 else -1
                infos[agent] = {"outcome": result, "ticks": int(batch.length[0]), "hp": float(batch.final_hp[0, seat])}
        elif batch.seats > 2:
            hp = batch.snapshot()["planes"]["hp"][0]
            ended = {agent: bool(hp[self._seat(agent)] <= 0.0) for agent in self.agents}
        rewards = {agent: float(batch.reward[0, self._seat(agent)]) for agent in self.agents}
        cut = dict.fromkeys(self.agents, truncated)
        rows = self._rows(batch.final_obs if over else batch.obs)
        self.agents = [] if over else [agent for agent in self.agents if not ended[agent]]
        return rows, rewards, ended, cut, infos

    def render(self) -> str | None:
        """Return the match so far as the text of a Tacview file; None without a render mode."""
        return acmi_text(self._recorder.recordings(self._names, unfinished=True)[0]) if self.render_mode else None

    def close(self) -> None:
        """Release the simulator."""
        self._batch.close()

    def _rows(self, obs: torch.Tensor) -> dict[str, np.ndarray]:
        low, high = self._bounds.low, self._bounds.high
        return {agent: np.clip(obs[0, self._seat(agent)].numpy(), low, high) for agent in self.agents}

    def _checked(self, agent: str, values: np.ndarray) -> np.ndarray:
        """Return an agent's action, float32 [A]; raises `ValueError` for another shape and for numbers out of range."""
        action, space = np.asarray(values, dtype=np.float32), self.action_spaces[agent]
        if isinstance(space, MultiDiscrete):
            fits = action.shape == space.shape and bool((action == np.clip(np.rint(action), 0, space.nvec - 1)).all())
            numbers = f"choices of {space.nvec.tolist()}"
        else:
            fits = action.shape == space.shape and bool(np.isfinite(action).all())
            numbers = "finite numbers in [-1, 1]"
        if not fits:
            raise ValueError(f"action of {agent} is {action}: must be {self._batch.action_size} {numbers}")
        return action

    def _seat(self, agent: str) -> int:
        return self.possible_agents.index(agent)


parallel_env = AirCombatParallelEnv
"""Factory function under PettingZoo's usual name."""
