"""A batch of N matches in plain NumPy, as a reference for the simulator's speed and results.

It plays the same game as `envs.dogfight.batch.DogfightBatch` and has the same few methods, with NumPy arrays. Random
draws differ (it has one NumPy generator), so matches agree only from equal states on.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from benchmarks.numpy_dogfight.bots import bot_actions
from benchmarks.numpy_dogfight.observation import observe
from benchmarks.numpy_dogfight.physics import tick
from benchmarks.numpy_dogfight.reward import reward, standing
from benchmarks.numpy_dogfight.state import Array, Memory, State
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.config import RewardConfig


class NumpyDogfight:
    """A batch of matches; every array is indexed by match, then seat.

    `bots` [N, 2] holds a bot id or `rules.ACTIONS` per seat and may be changed at any time, as may `state`.
    `final_obs`, `outcome` and `length` describe the match that a step finished, where there is one.
    """

    def __init__(
        self,
        num_envs: int,
        *,
        rule_set: str = "classic",
        action_repeat: int = rules.ACTION_REPEAT,
        bot_rate: str = "tick",
        spawn: str = "random",
        observe_physics: bool = True,
        reward_weights: RewardConfig | None = None,
        gamma: float = 0.999,
        max_ticks: int = rules.MAX_TICKS,
        dtype: np.dtype | type = np.float32,
        seed: int = 0,
    ) -> None:
        self.challenge = rule_set == "challenge"
        self.action_repeat = action_repeat
        self.bots_each_tick = bot_rate == "tick" and not self.challenge
        self.fixed_spawn = spawn == "fixed"
        self.observe_physics = observe_physics
        self.weights = reward_weights or RewardConfig()
        self.gamma = gamma
        self.max_ticks = max_ticks
        self.rng = np.random.default_rng(seed)
        self.state = State.empty(num_envs, dtype)
        self.bots = np.full((num_envs, 2), rules.ACTIONS, np.int32)
        self.ranges = rules.ranges("none")
        self.invalid_actions = np.zeros(num_envs, np.int32)
        self.outcome = np.full(num_envs, -1, np.int32)
        self.length = np.zeros(num_envs, np.int32)
        self.reset()

    def reset(self) -> Array:
        """Restart all matches; return observations [N, 2, D]."""
        everyone = np.ones(len(self.bots), bool)
        self._spawn(everyone)
        self.obs = self._observe(everyone)
        self.final_obs = self.obs.copy()
        return self.obs

    def load(self, state: State) -> Array:
        """Set the state and return its observations [N, 2, D]; earlier frames are zeros."""
        self.state = state
        self.obs = self._observe(np.ones(len(self.bots), bool))
        return self.obs

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array]:
        """Play one decision with actions [N, 2, 3]; returns obs, reward, terminated, truncated.

        A finished match is replaced at once: `obs` is already the next match's first.
        """
        state = self.state
        actions = self._repaired(actions)
        before = standing(state, challenge=self.challenge)
        running = np.ones(len(self.bots), bool)
        damage = np.zeros_like(state.hp)
        for index in range(self.action_repeat):
            if index == 0 or self.bots_each_tick:
                chosen = bot_actions(state, self.bots, challenge=self.challenge, active=running)
                commands = np.where((self.bots == rules.ACTIONS)[:, :, None], actions, chosen)
            damage += tick(state, commands, challenge=self.challenge, active=running).damage
            running &= state.both_alive & (state.tick < self.max_ticks)
            if not running.any():
                break
        terminated = ~state.both_alive
        truncated = state.both_alive & (state.tick >= self.max_ticks)
        self.outcome, self.length = self._outcome(terminated, truncated), state.tick.copy()
        after = standing(state, challenge=self.challenge)
        rewards = reward(
            before, after, state.alive, damage, self.outcome, terminated, weights=self.weights, gamma=self.gamma
        )
        self.obs = self._observe(np.zeros(len(self.bots), bool))
        done = terminated | truncated
        if done.any():
            self.final_obs[done] = self.obs[done]
            self._spawn(done)
            self.obs[done] = self._observe(done)[done]
        return self.obs, rewards, terminated, truncated

    def _repaired(self, actions: Array) -> Array:
        """Return the actions with non-finite rows zeroed and counted."""
        bad = ~np.isfinite(actions).all(axis=2) & (self.bots == rules.ACTIONS)
        self.invalid_actions += bad.sum(axis=1, dtype=np.int32)
        return np.where(bad[:, :, None], 0.0, actions).astype(self.state.x.dtype)

    def _outcome(self, terminated: Array, truncated: Array) -> Array:
        """Return -1 while running, 0 for a draw, else 1 + the winning seat: by elimination, or by hp at time-out."""
        lead = self.state.hp[:, 0] - self.state.hp[:, 1]
        lead = np.where(terminated, self.state.alive[:, 0] * 1 - self.state.alive[:, 1] * 1, lead)
        winner = np.select([lead > 0, lead < 0], [1, 2], 0)
        return np.where(terminated | truncated, winner, -1).astype(np.int32)

    def _observe(self, fresh: Array) -> Array:
        """Return observations; under challenge rules the last four frames, zeros for those before the start of a match.

        `fresh` [N] marks the matches that have just started.
        """
        frame = observe(
            self.state, challenge=self.challenge, observe_physics=self.observe_physics, max_ticks=self.max_ticks
        )
        if not self.challenge:
            return frame
        shape = (*frame.shape[:2], (rules.CHALLENGE_FRAMES - 1) * rules.CHALLENGE_FRAME_SIZE)
        earlier = np.zeros(shape, frame.dtype)
        if not fresh.all():
            earlier[~fresh] = self.obs[~fresh, :, : -rules.CHALLENGE_FRAME_SIZE]
        return np.concatenate([frame, earlier], axis=2)

    def _spawn(self, who: Array) -> None:
        """Draw physics and positions for the matches `who` [N] and reset their other state."""
        count, state, rng = int(who.sum()), self.state, self.rng
        low, high = self.ranges.astype(np.float64).T
        integer = np.array([parameter.integer for parameter in rules.PARAMETERS])
        physics = rng.uniform(low, high, (count, len(low)))
        physics = np.where(integer, np.minimum(np.floor(rng.uniform(low, high + 1, physics.shape)), high), physics)
        fresh = State.empty(count, state.x.dtype)
        fresh.physics[:] = physics
        if self.challenge:
            fresh.physics[:, rules.PARAMETER_INDEX["gravity"]] = rules.CHALLENGE_GRAVITY
        mirror = np.array([-1.0, 1.0])
        if self.fixed_spawn:
            fresh.x[:], fresh.y[:], fresh.speed[:] = mirror * rules.SPAWN_X, rules.SPAWN_Y, rules.SPAWN_SPEED
            fresh.yaw[:] = [0.0, np.pi]
        else:
            fresh.x[:] = mirror * rng.uniform(100.0, 300.0, (count, 1))
            fresh.y[:], fresh.yaw[:] = rng.uniform(150.0, 450.0, (count, 2)), rng.uniform(-np.pi, np.pi, (count, 2))
            fresh.speed[:] = rng.uniform(fresh.parameter("min_speed")[:, None] + 15.0, 80.0, (count, 2))
        fresh.hp[:] = fresh.parameter("max_hp")[:, None]
        fresh.alive[:] = True
        for field in fields(State):
            if field.name != "memory":
                getattr(state, field.name)[who] = getattr(fresh, field.name)
        for field in fields(Memory):
            getattr(state.memory, field.name)[who] = getattr(fresh.memory, field.name)
