"""The native batch of air combat: N matches of two aircraft in Warp arrays, shared with torch tensors without a copy.

One thread plays a match. The launches of a step are recorded once; on a CPU each worker thread has a range of matches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import torch
import warp as wp

from sparring.configs.core.allowed import complaint, inside
from sparring.configs.core.device import choose_device
from sparring.configs.core.errors import ConfigError, choose
from sparring.configs.core.tensor_file import check_tensor, check_tensors
from sparring.envs.air_combat import rules as game
from sparring.envs.air_combat.config import CombatReward
from sparring.envs.air_combat.kernels import step
from sparring.envs.air_combat.kernels.gun import Round
from sparring.envs.air_combat.kernels.state import AirClock, CombatSettings, CombatWeights, Plane
from sparring.envs.air_combat.kernels.step import AirResults, AirWorld, observe_kernel, restart_kernel, step_kernel
from sparring.envs.air_combat.kernels.tables import load_tables
from sparring.envs.air_combat.starts import clamp_planes
from sparring.envs.launcher import Launcher

ACTION_SIZE = len(game.ACTION_NAMES)
OBS_SIZE = len(game.OBSERVATION)
COUNTS = {
    "num_envs": "[1, 10000000]",
    "action_repeat": "[1, 60]",
    "max_ticks": "[1, 10000000]",
    "threads": "[0, 4096]",
    "seed": "[0, 2147483647]",
}
_STRUCTS: dict[str, Any] = {"planes": Plane, "rounds": Round, "clock": AirClock}
RESULTS = (
    "obs", "final_obs", "reward", "terminated", "truncated", "outcome", "length", "final_hp", "invalid_actions",
)  # fmt: skip
"""Tensors that a step overwrites, the fields of `kernels.step.AirResults`."""
_CARRIED = ("obs", "bots", "match_id", "invalid_actions", "clamped")


class AirCombatBatch:
    """N matches of air combat at once; a `BatchedGame`.

    Args:
        num_envs: matches N >= 1.
        device: "cpu", "cuda", ... or "auto".
        model: "point_mass", or "f16" with six degrees of freedom.
        gun: "cone", "rounds", or "" for the model's own: rounds for the F-16, else the cone.
        action_repeat: ticks of 1/60 s per step. Scripted pilots decide once a step, too.
        max_ticks: time limit.
        reward: weights.
        gamma: discount per step in [0, 1], used by the shaping term only.
        threads: CPU threads; 0 takes every core this process may use.
        seed: seed of all draws, in [0, 2^31).

    Tensors are overwritten by the next step: `obs` float32 [N, 2, 40] (`rules.OBSERVATION`), `reward` [N, 2],
    `terminated`, `truncated` bool [N], `outcome` int32 [N], `length` (ticks) and `final_hp` [N, 2] of the last match,
    `invalid_actions` and `clamped` [N], the aircraft that `load` moved into the tables. A match depends on
    (seed, `match_id`, actions) only.

    Raises `ConfigError` or `UnknownNameError`, with a one-line message, for an invalid argument.

    """

    _recorded: list[Any]
    """The step's launches."""
    action_size = ACTION_SIZE
    bot_id = staticmethod(game.bot_id)
    stat_names: tuple[str, ...] = ("length", "hp")

    def __init__(
        self,
        num_envs: int,
        *,
        device: str = "cpu",
        model: str = "point_mass",
        gun: str = "",
        action_repeat: int = game.ACTION_REPEAT,
        max_ticks: int = game.MAX_TICKS,
        reward: CombatReward | None = None,
        gamma: float = 0.995,
        threads: int = 0,
        seed: int = 0,
    ) -> None:
        _check_whole(num_envs=num_envs, action_repeat=action_repeat, max_ticks=max_ticks, threads=threads, seed=seed)
        self.num_envs, self.model = num_envs, choose("model", model, game.MODELS)
        self.gun = choose("gun", gun, game.GUNS) if gun else ("rounds" if model == "f16" else "cone")
        self.action_repeat, self.obs_dim = action_repeat, OBS_SIZE
        self.device = choose_device(str(device))
        self._launcher = Launcher(self.device, num_envs, threads)
        self._settings = CombatSettings()
        self._settings.six, self._settings.single_rounds = model == "f16", self.gun == "rounds"
        self._settings.ticks_per_step, self._settings.max_ticks = action_repeat, max_ticks
        self._settings.seed = seed
        self._weights = _weights(reward or CombatReward(), gamma)
        self._allocate()
        self.reset(seed)

    @property
    def longest_episode(self) -> int:
        """Steps until the time limit."""
        return -(-self._settings.max_ticks // self.action_repeat)

    @property
    def contract(self) -> dict[str, Any]:
        """Properties of this batch that a policy must match; stored in every checkpoint."""
        return {
            "id": game.ENV_ID,
            "version": game.VERSION,
            "layout": game.LAYOUT,
            "obs_dim": self.obs_dim,
            "continuous": 3,
            "binary": 1,
            "action_repeat": self.action_repeat,
        }

    def reset(self, seed: int | None = None) -> torch.Tensor:
        """Restart every match and return `obs`. A seed in [0, 2^31) restarts the sequence of draws."""
        if seed is not None:
            _check_whole(seed=seed)
            self._settings.seed = seed
            self._recorded = []  # The seed is part of the recorded step.
            with self._launcher.stream():
                self._world.clock.zero_()
        self.invalid_actions.zero_()
        self.clamped.zero_()
        self._restart.fill_(True)
        self._launcher.run(restart_kernel, [self._world, self._results, self._wp_restart, self._settings])
        return self.obs

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Play one step; `actions` float [N, 2, 4] (`rules.ACTION_NAMES`), ignored where a scripted pilot flies.

        Returns (reward, terminated, truncated, outcome), the batch's own tensors; observations are in `obs`.
        """
        if actions is not self.actions:
            if actions.shape != self.actions.shape:
                shape = tuple(self.actions.shape)
                raise ValueError(f"actions have shape {tuple(actions.shape)}, expected {shape} (match, seat, action)")
            self.actions.copy_(actions)
        inputs = [self._world, self._results, self._wp_actions, self._weights, self._settings]
        self._recorded = self._recorded or self._launcher.record(step_kernel, inputs)
        self._launcher.launch(self._recorded)
        return self.reward, self.terminated, self.truncated, self.outcome

    def final_reader(self, rows: torch.Tensor, out: torch.Tensor) -> Callable[[], object]:
        """Return a function that writes last observations to `out` [N, D], as `BatchedGame.final_reader`."""
        return partial(torch.index_select, self.final_obs.flatten(0, 1), 0, rows, out=out)

    def seat_stats(self, rows: torch.Tensor) -> torch.Tensor:
        """Ticks and the seat's hp, float64 [R, 2], of the matches that just ended, for seats `rows` [R] among 2N."""
        values = (self.length.index_select(0, rows // 2), self.final_hp.flatten().index_select(0, rows))
        return torch.stack([value.double() for value in values], dim=1)

    def assign(self, bots: torch.Tensor | np.ndarray | None, restart: torch.Tensor | None = None) -> None:
        """Set the players (`bots` int [N, 2], ids or ACTIONS) and restart the matches marked in `restart` bool [N].

        Raises `ConfigError` for ids out of range.
        """
        if bots is not None:
            values = torch.as_tensor(bots)
            low, high = game.ACTIONS, len(game.BOTS) - 1
            if not bool(((values >= low) & (values <= high)).all()):
                names = ", ".join(f"{index} {name}" for index, name in enumerate(game.BOTS))
                raise ConfigError(f"bots={values.unique().tolist()}: choose from {low} actions, {names}")
            self.bots.copy_(values.expand_as(self.bots))
        if restart is not None:
            self._restart.copy_(restart)
            self._launcher.run(restart_kernel, [self._world, self._results, self._wp_restart, self._settings])

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return host copies of the state as structured arrays: planes [N, 2], rounds [N, 2 * SLOTS], clock [N]."""
        with self._launcher.stream():
            return {name: np.array(getattr(self._world, name).numpy()) for name in _STRUCTS}

    def load(self, state: dict[str, np.ndarray]) -> None:
        """Set the state (any of the arrays of `snapshot`) and update the observations.

        Aircraft outside the tables are moved to their edge and counted in `clamped`.
        """
        for name, values in state.items():
            rows = values
            if name == "planes":
                rows, moved = clamp_planes(values)
                self.clamped += torch.from_numpy(moved.sum(axis=1).astype(np.int32)).to(self.device)
            self._set(name, rows)
        self._launcher.run(observe_kernel, [self._world, self._results, self._settings])

    def state_dict(self) -> dict[str, Any]:
        """Return everything that determines further play, as tensors and numbers, for `load_state_dict`."""
        arrays = {name: torch.from_numpy(rows.reshape(-1).view(np.uint8)) for name, rows in self.snapshot().items()}
        return {"arrays": arrays, "seed": self._settings.seed} | {name: getattr(self, name) for name in _CARRIED}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict` of a batch with the same options and number of matches.

        Raises `ContentError`, before any change, for one of another batch.
        """
        arrays = check_tensors(state["arrays"], self.state_dict()["arrays"], "arrays")
        for name in _CARRIED:
            check_tensor(state[name], getattr(self, name).cpu(), name)
        self._settings.seed = state["seed"]
        self._recorded = []
        for name, rows in arrays.items():
            structs = rows.numpy().view(_STRUCTS[name].numpy_dtype())
            self._set(name, structs.reshape(getattr(self._world, name).shape))
        for name in _CARRIED:
            getattr(self, name).copy_(state[name])

    def close(self) -> None:
        """End the worker threads."""
        self._launcher.close()

    def _set(self, name: str, values: np.ndarray) -> None:
        with self._launcher.stream():
            wp.copy(getattr(self._world, name), wp.array(values, dtype=_STRUCTS[name], device=self._launcher.wp_device))

    def _allocate(self) -> None:
        n, device = self.num_envs, self._launcher.wp_device
        new = partial(torch.zeros, device=self.device)
        self.obs, self.final_obs = new(n, 2, OBS_SIZE), new(n, 2, OBS_SIZE)
        self.reward, self.final_hp = new(n, 2), new(n, 2)
        self.terminated, self.truncated = new(n, dtype=torch.bool), new(n, dtype=torch.bool)
        self.outcome, self.length = new(n, dtype=torch.int32), new(n, dtype=torch.int32)
        self.invalid_actions, self.clamped = new(n, dtype=torch.int32), new(n, dtype=torch.int32)
        self.bots = torch.full((n, 2), game.ACTIONS, dtype=torch.int32, device=self.device)
        self.match_id = torch.arange(n, dtype=torch.int32, device=self.device)
        self.actions = new(n, 2, ACTION_SIZE)
        self._restart = new(n, dtype=torch.bool)
        self._launcher.load(step)
        self._recorded = []
        self._world, self._results = AirWorld(), AirResults()
        slots = 2 * game.SLOTS if self._settings.single_rounds else 0
        with self._launcher.stream():
            self._world.tables = load_tables(device)
            for name, shape in {"planes": (n, 2), "rounds": (n, slots), "clock": (n,)}.items():
                setattr(self._world, name, wp.zeros(shape, dtype=_STRUCTS[name], device=device))
        for name in ("bots", "match_id"):
            setattr(self._world, name, wp.from_torch(getattr(self, name)))
        for name in RESULTS:
            tensor = getattr(self, name)
            setattr(self._results, name, wp.from_torch(tensor.flatten(0, 1) if tensor.dim() == 3 else tensor))
        self._wp_actions = wp.from_torch(self.actions, dtype=wp.vec4)
        self._wp_restart = wp.from_torch(self._restart)


def _weights(reward: CombatReward, gamma: float) -> CombatWeights:
    weights = CombatWeights()
    for name, value, allowed in (
        *((field.name, getattr(reward, field.name), "[-1000, 1000]") for field in fields(reward)),
        ("gamma", gamma, "[0, 1]"),
    ):
        if wrong := complaint(value, allowed):
            raise ConfigError(f"{name}={value}: {wrong}")
        setattr(weights, name, float(value))
    return weights


def _check_whole(**values: Any) -> None:
    """Refuse values that are not whole numbers within `COUNTS`."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or not inside(int(value), COUNTS[name]):
            raise ConfigError(f"{name}={value}: must be a whole number in {COUNTS[name]}")
