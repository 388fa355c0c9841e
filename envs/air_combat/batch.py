"""The native batch of air combat: N matches of S aircraft in Warp arrays, shared with torch tensors without a copy.

`kernels/step.py` plays two aircraft with guns, `kernels/battle/` everything else, so disabled options cost no time. One
thread plays a match. The launches of a step are recorded once; on a CPU each worker thread has a range of matches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
import warp as wp

from sparring.configs.core.device import choose_device
from sparring.configs.core.errors import ConfigError, choose
from sparring.envs.air_combat import rules as game
from sparring.envs.air_combat.airframe import f16
from sparring.envs.air_combat.airframe.missile import FLARE_SLOTS
from sparring.envs.air_combat.config import CombatReward
from sparring.envs.air_combat.kernels import step
from sparring.envs.air_combat.kernels.battle import step as battle
from sparring.envs.air_combat.kernels.battle.conditions import Conditions, Gust
from sparring.envs.air_combat.kernels.battle.missile import Flare, Missile
from sparring.envs.air_combat.kernels.battle.radar import Track
from sparring.envs.air_combat.kernels.battle.state import Battle, BattleSettings, SeatStep
from sparring.envs.air_combat.kernels.battle.stores import Stores
from sparring.envs.air_combat.kernels.gun import Round
from sparring.envs.air_combat.kernels.state import AirClock, CombatSettings, CombatWeights, Plane
from sparring.envs.air_combat.kernels.step import AirResults, AirWorld, observe_kernel, restart_kernel, step_kernel
from sparring.envs.air_combat.kernels.tables import AIRFRAMES, load_tables
from sparring.envs.launcher import Launcher, WarpMatches, check_counts, check_number, reward_weights, stream_of

_STRUCTS: dict[str, Any] = {
    "planes": Plane, "rounds": Round, "clock": AirClock, "stores": Stores, "missiles": Missile, "flares": Flare,
    "conditions": Conditions, "gusts": Gust, "history": Plane, "tracks": Track,
}  # fmt: skip
_SCRATCH: dict[str, Any] = {"past": wp.vec3, "seats": SeatStep}
RESULTS = (
    "obs", "final_obs", "reward", "terminated", "truncated", "outcome", "length", "final_hp", "invalid_actions",
)  # fmt: skip
"""Tensors that a step overwrites, the fields of `kernels.step.AirResults`."""
_CARRIED = ("obs", "bots", "match_id", "invalid_actions", "clamped")


class AirCombatBatch(WarpMatches):
    """N parallel matches of air combat; a `BatchedGame`.

    Args:
        num_envs: matches N >= 1.
        device: "cpu", "cuda", ... or "auto".
        model: "point_mass", "f16" with six degrees of freedom, or "f4", the F-4 as a point mass.
        gun: "cone", "rounds", or "" for the model's default: rounds for the F-16, else the cone.
        action_repeat: ticks of 1/60 s per step. Scripted pilots decide once a step, too.
        max_ticks: time limit.
        reward: weights.
        gamma: discount per step in [0, 1], used by the shaping term only.
        chase: chance in [0, 1] that a match begins with one aircraft, drawn at random, behind the other.
        low_start: chance in [0, 1] that a match begins near the ground (`rules.LOW_START_HEIGHT`).
        ground_limit: minimum height in m, enforced by a pull-out for aircraft flown by actions; 0 for no limit.
        threads: CPU threads; 0 takes every core this process may use.
        seed: seed of all draws, in [0, 2^31).
        options: missiles and everything else that is off by default; S = 2, D and A below grow with them.

    Tensors are overwritten by the next step: `obs` float32 [N, 2, D], D = 44 (`rules.OBSERVATION`), `reward` [N, 2],
    `terminated`, `truncated` bool [N], `invalid_actions` [N]. `clamped` [N] are aircraft that `load` moved into the
    tables. `outcome` int32 [N], `length` (ticks) and `final_hp` [N, 2] are of the last match. A match depends on (seed,
    `match_id`, actions) only.

    Raises `ConfigError` or `UnknownNameError`, with a one-line message, for an invalid argument.

    """

    _values: ClassVar[dict[str, Any]] = {"_settings": CombatSettings, "_weights": CombatWeights}
    _references = (*WarpMatches._references, "_further")
    _structs, _names = _STRUCTS, tuple(game.BOTS)
    bot_id = staticmethod(game.bot_id)

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
        chase: float = 0.0,
        low_start: float = 0.0,
        ground_limit: float = 0.0,
        threads: int = 0,
        seed: int = 0,
        options: game.CombatOptions = game.PLAIN,
    ) -> None:
        check_counts(60, num_envs=num_envs, action_repeat=action_repeat, max_ticks=max_ticks)
        check_counts(threads=threads, seed=seed)
        self.num_envs, self.model = num_envs, choose("model", model, game.MODELS)
        self.gun = choose("gun", gun, game.GUNS) if gun else game.usual_gun(model)
        self.action_repeat, self.options = action_repeat, options
        self.obs_dim, self.action_size = len(options.observation), len(options.actions)
        self.device = choose_device(str(device))
        self.seats = 2 * options.team_size
        self._launcher = Launcher(self.device, num_envs, threads)
        self._settings = CombatSettings()
        self._settings.six, self._settings.single_rounds = model == "f16", self.gun == "rounds"
        self._settings.wing = wp.vec2(*AIRFRAMES[model].pull_out)
        self._settings.ticks_per_step, self._settings.max_ticks = action_repeat, max_ticks
        check_number("chase", chase, "[0, 1]")
        check_number("low_start", low_start, "[0, 1]")
        check_number("ground_limit", ground_limit, game.GROUND_LIMIT)
        self._settings.seed, self._settings.chase = seed, chase
        self._settings.low_start, self._settings.ground_limit = low_start, ground_limit
        self._settings.observe_ground = options.observe_ground
        if reward is not None and not isinstance(reward, CombatReward):
            raise ConfigError(f"reward={reward!r}: must be a CombatReward, as in CombatReward(win=1.0)")
        self._weights = reward_weights(CombatWeights(), reward or CombatReward(), gamma)
        self._allocate()
        self.reset(seed)

    @property
    def contract(self) -> dict[str, Any]:
        """Properties that a policy must match; stored in every checkpoint."""
        stated = {
            "id": game.ENV_ID,
            "version": game.VERSION,
            "layout": self.options.layout,
            "obs_dim": self.obs_dim,
            "action_repeat": self.action_repeat,
        }
        return stated | self.options.action_sizes | self.options.contract

    def reset(self, seed: int | None = None) -> torch.Tensor:
        """Restart every match, as `WarpMatches.reset`, and the count of clamped aircraft."""
        self.clamped.zero_()
        return super().reset(seed)

    def final_reader(self, rows: torch.Tensor, out: torch.Tensor) -> Callable[[], object]:
        """Return a function that writes last observations to `out` [N, D], as `BatchedGame.final_reader`."""
        return partial(torch.index_select, self.final_obs.flatten(0, 1), 0, rows, out=out)

    def set_ranges(self, ranges: np.ndarray) -> None:
        """Draw the physics from `ranges` [7, 2] (low, high; `rules.PARAMETERS`), for each match from its next start on.

        Raises `ConfigError` for invalid ranges, or where the options draw none.
        """
        if self.options.randomization == "none":
            raise ConfigError("randomization=none: choose narrow or full to set ranges")
        values = np.asarray(ranges, dtype=np.float32)
        if values.shape != (len(game.PARAMETERS), 2):
            raise ConfigError(f"ranges have shape {values.shape}, expected ({len(game.PARAMETERS)}, 2): low and high")
        for parameter, (low, high) in zip(game.PARAMETERS, values.tolist(), strict=True):
            least, most = parameter.limits
            if not least <= low <= high <= most:
                raise ConfigError(f"range of {parameter.name} is {low:g}..{high:g}: must be within {least:g}..{most:g}")
        self.ranges.copy_(torch.from_numpy(values))

    def load(self, state: dict[str, np.ndarray]) -> None:
        """Set the state (any of the arrays of `snapshot`) and update the observations.

        These are planes [N, S], rounds [N, S * SLOTS], clock [N]. Options add stores [N, S], missiles [N, S *
        missiles], flares [N, S * FLARE_SLOTS], conditions [N]. Drawn physics adds gusts [N, S] and history [N, S *
        HISTORY], the radar tracks [N, S]. Aircraft outside the tables are moved to their edge and counted in `clamped`.
        """
        for name, values in state.items():
            rows = values
            if name == "planes":
                rows, moved = clamp_planes(values)
                self.clamped += torch.from_numpy(moved.sum(axis=1).astype(np.int32)).to(self.device)
            self._set(name, rows)
        kernel = battle.battle_observe_kernel if self._further else observe_kernel
        self._launcher.run(kernel, [self._world, self._results, self._settings, *self._further])

    def _begin_marked(self) -> None:
        """Restart the matches marked in `_restart`."""
        kernel = battle.battle_restart_kernel if self._further else restart_kernel
        inputs = [self._world, self._results, self._wp_restart, self._settings, *self._further]
        self._launcher.run(kernel, inputs)

    def _play(self) -> None:
        kernel = battle.battle_step_kernel if self._further else step_kernel
        inputs = [self._world, self._results, self._wp_actions, self._weights, self._settings, *self._further]
        self._recorded = self._recorded or self._launcher.record(kernel, inputs)
        self._launcher.launch(self._recorded)

    def _allocate(self) -> None:
        n, seats = self.num_envs, self.seats
        new = partial(torch.zeros, device=self.device)
        self.obs, self.final_obs = new(n, seats, self.obs_dim), new(n, seats, self.obs_dim)
        self.reward, self.final_hp = new(n, seats), new(n, seats)
        self.terminated, self.truncated = new(n, dtype=torch.bool), new(n, dtype=torch.bool)
        self.outcome, self.length = new(n, dtype=torch.int32), new(n, dtype=torch.int32)
        self.invalid_actions, self.clamped = new(n, dtype=torch.int32), new(n, dtype=torch.int32)
        self.bots = torch.full((n, seats), game.ACTIONS, dtype=torch.int32, device=self.device)
        self.match_id = torch.arange(n, dtype=torch.int32, device=self.device)
        self.actions = new(n, seats, self.action_size)
        self.ranges = torch.tensor(game.ranges(self.options.randomization), device=self.device)
        self._restart = new(n, dtype=torch.bool)
        self._bind()

    def _bind(self) -> None:
        """Make the kernels' structs refer to the memory of the tensors."""
        n, seats, device = self.num_envs, self.seats, self._launcher.wp_device
        # Kernels of a match with options expect them last.
        plain = replace(self.options, observe_ground=False) == game.PLAIN
        self._further = [] if plain else [_battle_settings(self.options)]
        self._launcher.load(battle if self._further else step)
        self._recorded, self._carried = [], _CARRIED
        self._world, self._results = Battle() if self._further else AirWorld(), AirResults()
        slots = seats * game.SLOTS if self._settings.single_rounds else 0
        shapes: dict[str, tuple[int, ...]] = {"planes": (n, seats), "rounds": (n, slots), "clock": (n,)}
        scratch: dict[str, tuple[int, ...]] = {}
        if self._further:
            options = self.options
            missiles, flares = seats * options.missiles, seats * FLARE_SLOTS if options.flares else 0
            shapes |= {"stores": (n, seats), "missiles": (n, missiles), "flares": (n, flares)}
            varied = options.randomization != "none"
            shapes |= {"conditions": (n,), "gusts": (n, seats * varied)}
            shapes |= {"tracks": (n, seats * options.radar)}
            shapes |= {"history": (n, seats * game.HISTORY * varied)}
            scratch = {"past": (n, missiles), "seats": (n, seats)}
            self._carried += ("ranges",)
        self._kept = tuple(shapes)
        self._arrays = {"_world": (*shapes, *scratch)}
        with stream_of(self.device):
            self._world.tables = load_tables(device, self.model)
            for name, shape in (shapes | scratch).items():
                setattr(self._world, name, wp.zeros(shape, dtype=(_STRUCTS | _SCRATCH)[name], device=device))
        for name in ("bots", "match_id", "ranges") if self._further else ("bots", "match_id"):
            setattr(self._world, name, wp.from_torch(getattr(self, name)))
        for name in RESULTS:
            tensor = getattr(self, name)
            setattr(self._results, name, wp.from_torch(tensor.flatten(0, 1) if tensor.dim() == 3 else tensor))
        self._wp_actions = wp.from_torch(self.actions, dtype=wp.float32 if self._further else wp.vec4)
        self._wp_restart = wp.from_torch(self._restart)


def _battle_settings(options: game.CombatOptions) -> BattleSettings:
    settings = BattleSettings()
    settings.size, settings.missiles, settings.flares = options.team_size, options.missiles, options.flares
    settings.radar, settings.form = options.radar, game.FORMS.index(options.action_form)
    settings.collisions, settings.load_limit = options.collisions, options.load_limit
    settings.hard_deck = options.hard_deck
    settings.varied, settings.observe_physics = options.randomization != "none", options.observe_physics
    return settings


LOWEST = 30.0
"""Minimum height of a start, m."""


def clamp_planes(planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return planes of any shape within the tables, and bool of that shape: which of them were moved.

    The tables cover Mach 0.1 to 1, 0 to 50,000 ft, alpha -10 to 45 and beta -30 to 30 degrees. Extrapolating them would
    be silently wrong. Heights and speeds are clamped. For an aircraft with alpha or beta outside, the nose is aligned
    with its velocity and its turn rates are zeroed. `planes` is unchanged.
    """
    rows = planes.copy()
    moved = np.zeros(planes.shape, dtype=bool)
    for index in np.ndindex(planes.shape):
        moved[index] = _clamp(rows[index])
    return rows, moved


def _clamp(plane: Any) -> bool:
    """Move one struct into the tables and return whether it was outside."""
    height = -float(plane["pos"][2])
    allowed = min(max(height, LOWEST), game.CEILING - LOWEST)
    velocity = plane["vel"].astype(float)
    speed = float(np.linalg.norm(velocity))
    sound = np.sqrt(1.4 * 287.053 * (288.15 - 0.0065 * min(allowed, 11_000.0)))  # m/s, in the standard atmosphere
    slowest, fastest = (mach * sound for mach in f16.MACH_LIMITS)
    clamped = min(max(speed, slowest), fastest)
    direction = velocity / speed if speed > 1e-3 else plane["nose"].astype(float)
    nose, up = plane["nose"].astype(float), plane["up"].astype(float)
    alpha = np.degrees(np.arctan2(-direction @ up, direction @ nose))
    beta = np.degrees(np.arcsin(np.clip(direction @ np.cross(nose, up), -1.0, 1.0)))
    turned = not (f16.ALPHA_LIMITS[0] <= alpha <= f16.ALPHA_LIMITS[1] and abs(beta) <= f16.BETA_LIMIT)
    if turned:
        _align(plane, direction, up)
    if height == allowed and speed == clamped and not turned:
        return False
    plane["pos"][2], plane["vel"] = -allowed, direction * clamped
    return True


def _align(plane: Any, direction: np.ndarray, up: np.ndarray) -> None:
    """Point the nose along `direction`, with the roof as close to `up` as possible, and stop all rotation."""
    roof = up - direction * (up @ direction)
    if np.linalg.norm(roof) < 1e-3:
        roof = np.cross(direction, np.eye(3)[np.abs(direction).argmin()])
    roof /= np.linalg.norm(roof)
    x, y, z = direction, np.cross(direction, roof), -roof
    plane["nose"], plane["up"], plane["attitude"] = direction, roof, _quaternion(np.stack([x, y, z], axis=1))
    plane["alpha"], plane["roll_rate"] = 0.0, 0.0
    for name in ("rates", "past_acceleration", "past_rotation"):
        plane[name] = 0.0


def _quaternion(m: np.ndarray) -> np.ndarray:
    """Return the unit quaternion (x, y, z, w) of a rotation matrix, by its largest component."""
    squares = np.array(
        [
            1.0 + m[0, 0] - m[1, 1] - m[2, 2],
            1.0 - m[0, 0] + m[1, 1] - m[2, 2],
            1.0 - m[0, 0] - m[1, 1] + m[2, 2],
            1.0 + m[0, 0] + m[1, 1] + m[2, 2],
        ]
    )
    products = np.array(
        [
            [squares[0], m[1, 0] + m[0, 1], m[0, 2] + m[2, 0], m[2, 1] - m[1, 2]],
            [m[1, 0] + m[0, 1], squares[1], m[2, 1] + m[1, 2], m[0, 2] - m[2, 0]],
            [m[0, 2] + m[2, 0], m[2, 1] + m[1, 2], squares[2], m[1, 0] - m[0, 1]],
            [m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], squares[3]],
        ]
    )
    row = products[squares.argmax()]
    return row / np.linalg.norm(row)
