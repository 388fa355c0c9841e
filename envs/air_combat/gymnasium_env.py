"""The Gymnasium interface: one match of air combat as a `gymnasium.Env`, a learner against an opponent.

    env = gymnasium.make("sparring:sparring/AirCombat-v1", opponent="ace", model="f16")

It wraps the PettingZoo environment with an opponent in one seat. For many matches the native batch is far faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from sparring.configs.core.errors import ConfigError, choose
from sparring.envs.air_combat import GAME
from sparring.envs.air_combat.parallel_env import RENDER_MODES, AirCombatParallelEnv

ME, IT = "player_0", "player_1"
RESET_OPTIONS = ("opponent",)


class AirCombatEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """A learner in one aircraft against another; starts are symmetric, so the learner always has seat 0.

    Args:
        opponent: a scripted pilot of `rules.BOTS` (rules.py), or another opponent of docs/opponents.md, without memory.
        render_mode: "acmi": `render` returns the match so far as the text of a Tacview file.
        options: options of `AirCombatParallelEnv`, except `team_size`.

    Observations and actions are those of docs/envs/air_combat.md, within the bounds of `spaces.py`. The step that ends
    a match puts `outcome` (1 win, 0 draw, -1 loss), `ticks` and `hp` into the info. `reset(options={"opponent": ...})`
    chooses another opponent for that match. Raises `InputError` for an unknown opponent or one that cannot play.

    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 15}  # noqa: RUF012

    def __init__(self, *, opponent: Any = "ace", render_mode: str | None = None, **options: Any) -> None:
        if options.get("team_size", 1) != 1:
            raise ConfigError(f"team_size={options['team_size']}: must be 1 here; AirCombatParallelEnv plays teams")
        self._opponent, self.render_mode = opponent, render_mode
        self._seated: Any = None
        self._match = AirCombatParallelEnv(render_mode=render_mode, **options)
        self._seat_opponent(opponent)
        self._theirs: np.ndarray | None = None
        self.observation_space, self.action_space = self._match.observation_space(ME), self._match.action_space(ME)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new match; `options` may hold `opponent`. Returns the observation and an empty info."""
        super().reset(seed=seed)
        for name in options or {}:
            choose("reset option", name, RESET_OPTIONS)
        self._seat_opponent((options or {}).get("opponent", self._opponent))
        rows, _ = self._match.reset(seed=int(self.np_random.integers(2**31)) if seed is None else seed)
        self._theirs = rows[IT]
        return rows[ME], {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Play one step. Raises `ValueError` for an invalid action, `ResetNeeded` without a match."""
        if self._theirs is None:
            raise ResetNeeded("no match is running: call reset() before step()")
        rows, rewards, ended, cut, infos = self._match.step({ME: action, IT: self._answer(self._theirs)})
        self._theirs = None if ended[ME] or cut[ME] else rows[IT]
        return rows[ME], rewards[ME], ended[ME], cut[ME], infos[ME]

    def render(self) -> str | None:  # type: ignore[override]
        """Return the match so far as the text of a Tacview file; None without a render mode."""
        return self._match.render()

    def close(self) -> None:
        """Release the simulator."""
        self._match.close()

    def _seat_opponent(self, opponent: Any) -> None:
        """Open the opponent; a scripted pilot flies in the simulator, others act on their seat's observations."""
        if opponent is self._seated:  # cache: do not read a policy again for every match
            return
        player = GAME.opponent(opponent, self._match.contract)
        scripted = isinstance(player, str)
        self._match.seat_pilot(player if scripted else "")
        self._seated, self._player = opponent, None if scripted else player

    def _answer(self, observed: np.ndarray) -> np.ndarray:
        """Return the opponent's action; for a scripted pilot it is ignored."""
        if self._player is None:
            return np.zeros(self.action_space.shape or (), dtype=np.float32)
        return np.asarray(self._player.act(torch.from_numpy(observed)[None])[0].cpu(), dtype=np.float32)


class AirCombatVectorEnv(SyncVectorEnv):
    """Matches one after another in this process, each restarted within the step that ends it.

    `opponent` may be a list, which cycles over the matches. `infos["episode"]` has the return `r` and the steps `l` of
    matches that ended.
    """

    def __init__(self, num_envs: int = 1, *, opponent: Any = "ace", **options: Any) -> None:
        opponents = opponent if isinstance(opponent, Sequence) and not isinstance(opponent, str) else [opponent]
        envs = [partial(AirCombatEnv, opponent=opponents[k % len(opponents)], **options) for k in range(num_envs)]
        super().__init__(envs, autoreset_mode=AutoresetMode.SAME_STEP)
        self._returns, self._steps = np.zeros(num_envs), np.zeros(num_envs, dtype=np.int64)

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Start new matches, as `SyncVectorEnv`."""
        self._returns[:], self._steps[:] = 0.0, 0
        return super().reset(**arguments)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play a step of every match, as `SyncVectorEnv`."""
        obs, rewards, terminated, truncated, infos = super().step(actions)
        self._returns += rewards
        self._steps += 1
        done = terminated | truncated
        if done.any():
            infos |= {"episode": {"r": self._returns.copy(), "l": self._steps.copy()}, "_episode": done}
            self._returns[done], self._steps[done] = 0.0, 0
        return obs, rewards, terminated, truncated, infos
