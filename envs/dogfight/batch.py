"""The native batch: N matches in Warp arrays on one device, shared with torch tensors without a copy.

The launches of a step are recorded once, since preparing a launch takes five times as long as running it. On a GPU the
step is one captured CUDA graph, without transfers to the host. CPU and GPU run the same kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
import warp as wp
from torch import Tensor

from sparring.configs.core.device import choose_device
from sparring.configs.core.errors import ConfigError, choose
from sparring.envs.dogfight import rules as game
from sparring.envs.dogfight.config import CLOSING, RewardConfig
from sparring.envs.dogfight.kernels import mirroring, step
from sparring.envs.dogfight.kernels import state as structs
from sparring.envs.launcher import Launcher, WarpMatches, check_counts, check_number, reward_weights, stream_of

ACTION_SIZE = 3

RESULTS = (
    "obs",
    "reward",
    "terminated",
    "truncated",
    "outcome",
    "length",
    "final_hp",
    "invalid_actions",
    "trace",
)
"""Tensors of the batch that a step overwrites."""

_STRUCTS: dict[str, Any] = {
    "fighters": structs.Fighter,
    "bullets": structs.Bullet,
    "memory": structs.BotMemory,
    "physics": structs.Physics,
    "clock": structs.MatchClock,
}
_SHOWN = ("fighters", "bullets", "physics", "clock")
"""Tensors that observations depend on."""


def observation_size(rule_set: str, observe_physics: bool = True) -> int:
    """Return the number of floats per observation: 59 or 46 under classic rules, 224 under challenge rules."""
    if rule_set == "challenge":
        return game.CHALLENGE_FRAMES * game.CHALLENGE_FRAME_SIZE
    return 59 if observe_physics else 46


class DogfightBatch(WarpMatches):
    """N parallel matches of the dogfight.

    Args:
        num_envs: matches N >= 1.
        device: "cpu", "cuda", "cuda:1", ... or "auto", which is cuda if available.
        rules: "classic" or "challenge".
        action_repeat: ticks per step; a repeat stops early when the match ends.
        bot_rate: "tick" (bots decide 120 times a second) or "agent" (once a step, as actions do). Under challenge
            rules it is always "agent".
        spawn: "random" or "fixed".
        observe_physics: whether the 13 parameters are observed (classic rules).
        reward: reward weights.
        gamma: discount per step, used by the shaping term only.
        max_ticks: time limit.
        closing: second from which the arena closes to a point at the time limit (classic rules); 0: never.
        threads: CPU threads; 0 takes every core this process may use.
        trace: record every tick of the first `trace` matches in `trace`.
        seed: seed of all draws until `reset(seed)` sets another, in [0, 2^31), the width of the kernels' argument.

    The result tensors share memory with the simulator, and the next step overwrites them: `obs` [N, 2, D], `reward`
    [N, 2], `terminated`, `truncated`, `outcome`, `length`, `final_hp` [N, 2], `invalid_actions`, `trace`.
    A match depends only on (seed, `match_id`, actions), never on N, the threads or its neighbours. A copy, by
    `copy.deepcopy` or a pickle, continues from the same state in memory of its own.

    Raises `ConfigError` or `UnknownNameError`, with a one-line message, for an invalid argument.

    """

    def __init__(
        self,
        num_envs: int,
        *,
        device: str = "cpu",
        rules: str = "classic",
        action_repeat: int = game.ACTION_REPEAT,
        bot_rate: str = "tick",
        spawn: str = "random",
        observe_physics: bool = True,
        reward: RewardConfig | None = None,
        gamma: float = 0.999,
        max_ticks: int = game.MAX_TICKS,
        closing: float = 0.0,
        threads: int = 0,
        trace: int = 0,
        seed: int = 0,
    ) -> None:
        check_counts(game.MAX_TICKS, num_envs=num_envs, action_repeat=action_repeat, max_ticks=max_ticks)
        check_counts(threads=threads, trace=trace, seed=seed)
        self.num_envs = num_envs
        self.rules = choose("rules", rules, game.RULES)
        choose("bot_rate", bot_rate, game.BOT_RATES)
        self.bot_rate = "agent" if rules == "challenge" else bot_rate
        self.action_repeat = action_repeat
        self.observe_physics = observe_physics
        self.obs_dim = observation_size(rules, observe_physics)
        self.device = choose_device(str(device))
        self._launcher = Launcher(self.device, num_envs, threads)
        self._settings = structs.Settings()
        self._settings.challenge = rules == "challenge"
        self._settings.bot_every_tick = self.bot_rate == "tick"
        self._settings.fixed_spawn = choose("spawn", spawn, game.SPAWNS) == "fixed"
        self._settings.observe_physics = observe_physics
        self._settings.ticks_per_step = action_repeat
        self._settings.max_ticks = max_ticks
        self._settings.closing_tick = closing_tick(closing, rules, max_ticks)
        self._settings.seed = seed
        self._weights = reward_weights(structs.RewardWeights(), reward or RewardConfig(), gamma, "reward.")
        self._allocate(min(trace, num_envs))
        self.set_ranges(game.ranges("none"))
        self.reset(seed)

    _values: ClassVar[dict[str, Any]] = {"_settings": structs.Settings, "_weights": structs.RewardWeights}
    _structs, _names = _STRUCTS, game.BOTS
    _carried = ("obs", "ranges", "bots", "match_id", "invalid_actions")  # earlier frames exist in the observations only
    seats, action_size = 2, ACTION_SIZE
    bot_id = staticmethod(game.bot_id)

    @property
    def fighters(self) -> Any:
        """The simulator's own array of fighters, Warp structs [N, 2] (`kernels/state.py`)."""
        return self._world.fighters

    @property
    def contract(self) -> dict[str, Any]:
        """Properties that a policy must match; stored in every checkpoint."""
        return {
            "id": game.ENV_ID,
            "version": game.VERSION,
            "rules": self.rules,
            "obs_dim": self.obs_dim,
            "observe_physics": self.observe_physics,
            "continuous": 2,
            "binary": 1,
            "action_repeat": self.action_repeat,
        }

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers, including observations."""
        arrays = [getattr(self._world, name) for name in _STRUCTS]
        arrays += [getattr(self._ends, name) for name in (*_SHOWN, "older_frames")]
        tensors = [*(getattr(self, name) for name in RESULTS), self.bots, self.match_id, self.actions]
        return sum(a.capacity for a in arrays) + sum(t.nbytes for t in tensors)

    @property
    def final_obs(self) -> torch.Tensor:
        """Last observations [N, 2, D] of the matches that ended in the last step, computed now; zeros elsewhere."""
        rows = torch.arange(2 * self.num_envs, device=self.device).view(-1, 2)
        seats = torch.zeros(2, self.num_envs, self.obs_dim, device=self.device)
        for seat in range(2):
            self.final_reader(rows[:, seat], seats[seat])()
        return seats.transpose(0, 1)

    def final_reader(self, rows: torch.Tensor, out: torch.Tensor) -> Callable[[], None]:
        """Return a function that writes last observations to `out` [N, D], as `BatchedGame.final_reader`."""
        inputs = [self._results, self._ends, wp.from_torch(rows), wp.from_torch(out), self._settings]
        return partial(self._launcher.launch, self._launcher.record(step.final_kernel, inputs))

    def set_ranges(self, ranges: np.ndarray) -> None:
        """Randomize the physics within `ranges` [13, 2] (low, high), for each match from its next start on.

        Raises `ConfigError` for invalid ranges (`rules.check_ranges`).
        """
        values = np.asarray(ranges, dtype=np.float32)
        game.check_ranges(values)
        self.ranges.copy_(torch.from_numpy(values))

    def load(self, state: dict[str, np.ndarray]) -> None:
        """Set the state (any of the arrays of `snapshot`) and update the observations.

        These are fighters [N, 2], bullets [N, 4], memory [N, 2], physics and clock [N].
        """
        for name, values in state.items():
            self._set(name, values)
        self._launcher.run(step.observe_kernel, [self._world, self._results, self._settings])

    def _allocate(self, trace: int) -> None:
        n, d = self.num_envs, self.obs_dim
        new = partial(torch.zeros, device=self.device)
        self.obs = new(n, 2, d)
        self.reward = new(n, 2)
        self.terminated = new(n, dtype=torch.bool)
        self.truncated = new(n, dtype=torch.bool)
        self.outcome = new(n, dtype=torch.int32)
        self.length = new(n, dtype=torch.int32)
        self.final_hp = new(n, 2, dtype=torch.int32)
        self.invalid_actions = new(n, dtype=torch.int32)
        self.trace = new(trace, self.action_repeat, len(game.TRACE_FIELDS))
        self.bots = torch.full((n, 2), game.ACTIONS, dtype=torch.int32, device=self.device)
        self.match_id = torch.arange(n, dtype=torch.int32, device=self.device)
        self.ranges = new(len(game.PARAMETERS), 2)
        self.actions = new(n, 2, ACTION_SIZE)
        self._restart = new(n, dtype=torch.bool)
        self._bind()

    def _begin_marked(self) -> None:
        self._launcher.run(step.restart_kernel, [self._world, self._results, self._wp_restart, self._settings])

    def _bind(self) -> None:
        """Make the kernels' structs refer to the memory of the tensors."""
        n = self.num_envs
        device = self._launcher.wp_device
        self._launcher.load(step)
        self._recorded = []
        self._world = step.World()
        shapes = {
            "fighters": (n, 2),
            "bullets": (n, 2 * game.BULLETS_PER_FIGHTER),
            "memory": (n, 2),
            "physics": (n,),
            "clock": (n,),
        }
        self._kept = tuple(shapes)
        self._ends = step.MatchEnds()
        self._arrays = {"_world": tuple(_STRUCTS), "_ends": (*_SHOWN, "older_frames")}
        with stream_of(self.device):
            for name, shape in shapes.items():
                setattr(self._world, name, wp.zeros(shape, dtype=_STRUCTS[name], device=device))
            for name in _SHOWN:
                setattr(self._ends, name, wp.zeros(shapes[name], dtype=_STRUCTS[name], device=device))
            older = self.obs_dim - game.CHALLENGE_FRAME_SIZE if self._settings.challenge else 0
            frames: Any = wp.zeros((2 * n, older), dtype=float, device=device)
            self._ends.older_frames = frames
        for name, tensor in {"bots": self.bots, "match_id": self.match_id, "ranges": self.ranges}.items():
            setattr(self._world, name, wp.from_torch(tensor))
        self._results = step.StepResults()
        for name in RESULTS:
            tensor = getattr(self, name)
            setattr(self._results, name, wp.from_torch(tensor.flatten(0, 1) if name == "obs" else tensor))
        self._wp_actions = wp.from_torch(self.actions, dtype=wp.vec3)
        self._wp_restart = wp.from_torch(self._restart)

    def _play(self) -> None:
        """Run a step; on a GPU replay the captured one on torch's current stream, capturing it first if needed."""
        inputs = [self._world, self._results, self._ends, self._wp_actions, self._weights, self._settings]
        if self.device.type != "cuda":
            self._recorded = self._recorded or self._launcher.record(step.step_kernel, inputs)
            self._launcher.launch(self._recorded)
            return
        if not self._recorded:
            self._launcher.run(
                step.step_kernel, inputs
            )  # Loads the module outside of the capture, and performs this call's step.
            with wp.ScopedCapture(device=self._launcher.wp_device) as capture:
                wp.launch(step.step_kernel, dim=self.num_envs, inputs=[*inputs, 0], device=self._launcher.wp_device)
            self._recorded = [capture.graph]
            return
        wp.capture_launch(self._recorded[0], stream=wp.stream_from_torch(torch.cuda.current_stream(self.device)))


def closing_tick(closing: float, rules: str, max_ticks: int) -> int:
    """Return the tick from which the arena closes, 0 for never; raises `ConfigError` for one without effect."""
    check_number("closing", closing, CLOSING)
    if closing and rules == "challenge":
        fix = "give rules=classic or closing=0"
        raise ConfigError(f"closing={closing:g}: the challenge has a fixed arena; {fix}")
    tick = round(closing * game.TICKS_PER_SECOND)
    if closing and not 0 < tick < max_ticks:
        limit = f"time limit of {max_ticks / game.TICKS_PER_SECOND:g} s"
        raise ConfigError(f"closing={closing:g}: must be 0 for never, or at least one tick and before the {limit}")
    return tick


@dataclass(frozen=True)
class MatchSettings:
    """Conditions of matches; the options are those of `DogfightBatch`.

    `ranges` [13, 2] randomizes the physics, None keeps the defaults.
    """

    rules: str = "classic"
    action_repeat: int = game.ACTION_REPEAT
    bot_rate: str = "tick"
    spawn: str = "random"
    observe_physics: bool = True
    ranges: np.ndarray | None = None
    max_ticks: int = game.MAX_TICKS
    closing: float = 0.0
    device: str = "cpu"
    threads: int = 0
    trace: int = 0

    def batch(self, games: int) -> DogfightBatch:
        """Create a batch of `games` matches under these conditions."""
        options = dict(vars(self))
        ranges = options.pop("ranges")
        batch = DogfightBatch(games, **options)
        batch.set_ranges(game.ranges("none") if ranges is None else ranges)
        return batch

    def under(self, ranges: np.ndarray) -> MatchSettings:
        """Return these conditions in physics drawn from `ranges`."""
        return replace(self, ranges=ranges)

    def filmed(self) -> MatchSettings:
        """Return these conditions with the first match traced."""
        return replace(self, trace=1)


class Mirror:
    """Observations of `rule_set` mirrored to have the opponent on the right, and actions mapped back.

    The physics is symmetric under x -> -x: the mirror image of a match is a legal match. A policy that sees one side
    only learns every situation once instead of twice. The scripted bots are not symmetric (their altitude biases and
    first dodges turn counter-clockwise and clockwise whichever way they fly), so against them the mirror is an
    approximation. Observations are [..., D] float32 of either rule set, with or without physics parameters; actions
    [..., 3].
    """

    def __init__(self, rule_set: str, obs_dim: int, device: torch.device | str = "cpu") -> None:
        columns = game.ArrayMirror(rule_set, obs_dim)
        self.opponent_x = columns.opponent_x
        self.bullet_x, self.bearing, self.sign = (
            torch.from_numpy(column).to(device) for column in (columns.bullet_x, columns.bearing, columns.sign)
        )
        Launcher(self.sign.device, 1, 1).load(mirroring)

    def show(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return observations with the opponent on the right, and side [...]: -1.0 if mirrored, else 1."""
        flat = obs.reshape(-1, obs.shape[-1]).contiguous()
        out, side = torch.empty_like(flat), flat.new_empty(len(flat))
        if len(flat):
            self.reader(flat, torch.arange(len(flat), device=flat.device), out, side)()
        return out.view(obs.shape), side.view(obs.shape[:-1])

    def reader(self, obs: Tensor, rows: Tensor, out: Tensor, side: Tensor) -> Callable[[], None]:
        """Return a function that writes `rows` [N] of `obs` [R, D], as `show` does, to `out` [N, D] and `side` [N]."""
        columns = (self.sign, self.bearing, self.bullet_x)
        inputs = [wp.from_torch(obs), wp.from_torch(rows), self.opponent_x, *map(wp.from_torch, columns)]
        launcher = Launcher(obs.device, len(rows), 1)
        outputs = [wp.from_torch(out), wp.from_torch(side)]
        return partial(launcher.launch, launcher.record(mirroring.show_kernel, [*inputs, *outputs]))

    @staticmethod
    def back(actions: Tensor, side: Tensor) -> Tensor:
        """Return the actions [..., 3] in the original match for actions chosen on the output of `show`."""
        turn, rest = actions[..., :1], actions[..., 1:]
        return torch.cat([turn * side.unsqueeze(-1), rest], dim=-1)
