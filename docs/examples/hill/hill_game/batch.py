"""The simulator: one kernel steps a match, and starts the next one when it ends.

A tick: v' = 0.9 v + 0.02 a, x' = clamp(x + v', -1, 1), with the action a in [-1, 1]. The puck nearer to 0 gets a point.
A match depends on its seed, its number and the actions only. Warp reads annotations, so none may be postponed here.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import warp as wp

import hill_game
from hill_game import batch as module
from sparring.configs.core.device import choose_device
from sparring.configs.core.errors import choose
from sparring.envs.batched import ACTIONS
from sparring.envs.launcher import Launcher, WarpMatches, check_counts

CLIMBER = wp.constant(1)
OPEN = wp.constant(ACTIONS)


@wp.struct
class Puck:
    """A seat's puck: place, velocity, and points of this match."""

    x: float
    v: float
    points: float


@wp.struct
class HillClock:
    """Ticks of the match, and matches started in this row."""

    tick: int
    started: int


@wp.struct
class HillWorld:
    """State, players and results of all matches."""

    pucks: wp.array2d[Puck]
    clock: wp.array[HillClock]
    bots: wp.array2d[int]
    match_id: wp.array[int]
    obs: wp.array3d[float]
    final_obs: wp.array3d[float]
    reward: wp.array2d[float]
    terminated: wp.array[bool]
    outcome: wp.array[int]
    length: wp.array[int]
    final_hp: wp.array2d[float]
    invalid_actions: wp.array[int]


@wp.struct
class HillSettings:
    """Seed of all draws, and length of a match."""

    seed: int
    max_ticks: int


@wp.func
def begin(world: HillWorld, match: int, settings: HillSettings) -> None:  # noqa: D103
    clock = world.clock[match]
    draws = wp.rand_init(settings.seed, world.match_id[match] * 100003 + clock.started)
    world.clock[match] = HillClock(0, clock.started + 1)
    for seat in range(2):
        world.pucks[match, seat] = Puck(wp.randf(draws, -1.0, 1.0), 0.0, 0.0)


@wp.func
def observe(world: HillWorld, obs: wp.array3d[float], match: int, settings: HillSettings) -> None:  # noqa: D103
    for seat in range(2):
        mine = world.pucks[match, seat]
        other = world.pucks[match, 1 - seat]
        obs[match, seat, 0] = mine.x
        obs[match, seat, 1] = 10.0 * mine.v
        obs[match, seat, 2] = other.x
        obs[match, seat, 3] = 10.0 * other.v
        obs[match, seat, 4] = float(world.clock[match].tick) / float(settings.max_ticks)


@wp.kernel
def restart_kernel(world: HillWorld, restart: wp.array[bool], settings: HillSettings, first: int) -> None:  # noqa: D103
    match = wp.tid() + first
    if restart[match]:
        begin(world, match, settings)
        observe(world, world.obs, match, settings)


@wp.kernel
def step_kernel(world: HillWorld, actions: wp.array3d[float], settings: HillSettings, first: int) -> None:  # noqa: D103
    match = wp.tid() + first
    for seat in range(2):
        puck = world.pucks[match, seat]
        action = 0.0
        if world.bots[match, seat] == OPEN:
            action = actions[match, seat, 0]
            if not wp.isfinite(action):  # counted, not propagated
                action = 0.0
                world.invalid_actions[match] += 1
        if world.bots[match, seat] == CLIMBER:
            action = -4.0 * puck.x - 20.0 * puck.v
        puck.v = 0.9 * puck.v + 0.02 * wp.clamp(action, -1.0, 1.0)
        puck.x = wp.clamp(puck.x + puck.v, -1.0, 1.0)
        world.pucks[match, seat] = puck
    lead = wp.sign(wp.abs(world.pucks[match, 1].x) - wp.abs(world.pucks[match, 0].x))
    for seat in range(2):
        gain = wp.where(seat == 0, lead, -lead)
        puck = world.pucks[match, seat]
        puck.points += gain
        world.pucks[match, seat] = puck
        world.reward[match, seat] = gain / float(settings.max_ticks)
    clock = world.clock[match]
    clock.tick += 1
    world.clock[match] = clock
    world.terminated[match] = clock.tick == settings.max_ticks
    world.outcome[match] = -1
    if clock.tick == settings.max_ticks:
        points = world.pucks[match, 0].points
        world.outcome[match] = wp.where(points > 0.0, 1, wp.where(points < 0.0, 2, 0))
        world.length[match] = clock.tick
        world.final_hp[match, 0] = points
        world.final_hp[match, 1] = -points
        observe(world, world.final_obs, match, settings)
        begin(world, match, settings)
    observe(world, world.obs, match, settings)


class HillBatch(WarpMatches):
    """N matches; tensors are overwritten by the next step. See `sparring.envs.batched.BatchedGame`."""

    _values = {"_settings": HillSettings}  # noqa: RUF012
    _structs = {"pucks": Puck, "clock": HillClock}  # noqa: RUF012
    _references = ("_wp_actions", "_wp_restart", "_recorded", "_results")
    _names = hill_game.BOTS
    _kept, _carried, _arrays = ("pucks", "clock"), ("bots", "match_id"), {"_world": ("pucks", "clock")}
    seats, action_size, action_repeat = 2, 1, 1
    contract = {  # noqa: RUF012
        "id": hill_game.ENV_ID,
        "version": hill_game.VERSION,
        "obs_dim": 5,
        "continuous": 1,
        "binary": 0,
    }

    def __init__(self, num_envs: int, *, ticks: int = 64, device: str = "cpu", threads: int = 0, seed: int = 0) -> None:
        check_counts(num_envs=num_envs, threads=threads, seed=seed, max_ticks=ticks)
        self.num_envs, self.device = num_envs, choose_device(device)
        self._launcher = Launcher(self.device, num_envs, threads)
        self._settings = HillSettings()
        self._settings.seed, self._settings.max_ticks = seed, ticks
        new = partial(torch.zeros, device=self.device)
        self.obs, self.final_obs, self.actions = new(num_envs, 2, 5), new(num_envs, 2, 5), new(num_envs, 2, 1)
        self.reward, self.final_hp = new(num_envs, 2), new(num_envs, 2)
        self.terminated, self.truncated, self._restart = (new(num_envs, dtype=torch.bool) for _ in range(3))
        self.outcome, self.length, self.invalid_actions = (new(num_envs, dtype=torch.int32) for _ in range(3))
        self.bots = torch.full((num_envs, 2), ACTIONS, dtype=torch.int32, device=self.device)
        self.match_id = torch.arange(num_envs, dtype=torch.int32, device=self.device)
        self._bind()
        self.reset(seed)

    @staticmethod
    def bot_id(name: str) -> int:
        """Return the number of a bot; raises `UnknownNameError`."""
        return hill_game.BOTS.index(choose("bot", name, hill_game.BOTS))

    def final_reader(self, rows: torch.Tensor, out: torch.Tensor) -> Callable[[], object]:
        """Return a function that writes the last observations of seats `rows` to `out` [N, D]."""
        return partial(torch.index_select, self.final_obs.flatten(0, 1), 0, rows, out=out)

    def _begin_marked(self) -> None:
        self._launcher.run(restart_kernel, [self._world, self._wp_restart, self._settings])

    def _play(self) -> None:
        self._launcher.run(step_kernel, [self._world, self._wp_actions, self._settings])

    def _bind(self) -> None:
        self._launcher.load(module)
        self._recorded: list[Any] = []
        self._world = HillWorld()
        self._world.pucks = wp.zeros((self.num_envs, 2), dtype=Puck, device=self._launcher.wp_device)
        self._world.clock = wp.zeros(self.num_envs, dtype=HillClock, device=self._launcher.wp_device)
        for name in HillWorld.vars:
            if name not in self._kept:
                setattr(self._world, name, wp.from_torch(getattr(self, name)))
        self._wp_actions, self._wp_restart = wp.from_torch(self.actions), wp.from_torch(self._restart)
