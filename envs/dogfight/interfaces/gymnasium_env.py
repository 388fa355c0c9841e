"""The Gymnasium interface: one match as a `gymnasium.Env`, a learner against a named opponent.

The docstring of `DogfightEnv` is the game's documentation page: `docs/generate_env_pages.py` writes it to
`docs/envs/dogfight.md`, and a test compares its tables with the spaces, the parameters and the reward weights.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from sparring.configs.core.errors import choose
from sparring.envs.dogfight.interfaces import numpy_batch
from sparring.envs.dogfight.interfaces.spaces import action_space, check_actions, observation_space

SEATS = ("0", "1")


class DogfightEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """A duel of two fighters in a vertical plane: turn, throttle, shoot, do not stall.

    ## Description

    Two fighters fly in an arena 1,000 m wide (x in [-500, 500]) and 600 m high (y in [0, 600]). Height and speed
    convert into each other, and turning costs speed. A fighter slower than 30 m/s stalls and drops its nose. Each hit
    makes its target slower and less agile. A bullet from behind, with a direction within `rear_aspect_cone` of the
    target's heading, glances off its armour, so attacks must cross the target's path.

    The world advances in ticks of 1/120 s. One step is one decision, held for `action_repeat` ticks (10, so 12
    decisions a second) or until the match ends.

    ```python
    import gymnasium as gym

    env = gym.make("sparring:sparring/Dogfight-v1", opponent="ace")
    obs, info = env.reset(seed=1)
    obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
    ```

    ## Actions

    `Box(float32)` of shape (3,). A value outside its range is clamped. A wrong shape, or a value that is not finite,
    raises a `ValueError`.

    | index | action | low | high | unit | meaning |
    | --- | --- | --- | --- | --- | --- |
    | 0 | turn | -1 | 1 | share of the turn rate | positive turns left (counter-clockwise) |
    | 1 | throttle | 0 | 1 | share of `max_thrust` | thrust along the heading |
    | 2 | shoot | -1 | 1 | none | above 0 fires as soon as the gun is ready |

    The turn rate falls linearly from `max_turn_rate` at `min_speed` to `min_turn_rate` at `max_speed`. In a stall all
    three actions are ignored.

    ## Observations

    `Box(float32)` of shape (59,), or (46,) with `observe_physics=False`. Each value is the quantity divided by its
    normalizer; low and high are the limits of the result over all randomization ranges (the space adds 0.00001 for
    rounding). `k` counts the eight live bullets nearest to the player, nearest first, zeros beyond the last. A
    fighter has at most two bullets in the air, so at most four are live and 29 .. 44 are always zero.

    | index | observation | normalizer | low | high |
    | --- | --- | --- | --- | --- |
    | 0 | own speed | `max_speed` | 0 | 1 |
    | 1 | cosine of own heading | 1 | -1 | 1 |
    | 2 | sine of own heading | 1 | -1 | 1 |
    | 3 | own hp | `max_hp` | 0 | 1 |
    | 4 | ticks until the own gun is ready | `gun_cooldown_ticks` | 0 | 1 |
    | 5 | own altitude y | 600 | 0 | 1 |
    | 6 | x of the opponent, relative | 1000 | -1 | 1 |
    | 7 | y of the opponent, relative | 1000 | -0.6 | 0.6 |
    | 8 | opponent's speed | `max_speed` | 0 | 1 |
    | 9 | cosine of the opponent's heading | 1 | -1 | 1 |
    | 10 | sine of the opponent's heading | 1 | -1 | 1 |
    | 11 | opponent's hp | `max_hp` | 0 | 1 |
    | 12 | distance to the opponent | 1000 | 0 | 1.16619 |
    | 13 + 4k | x of bullet k, relative | 1000 | -1.387 | 1.387 |
    | 14 + 4k | y of bullet k, relative | 1000 | -0.987 | 0.987 |
    | 15 + 4k | 1 if bullet k is the player's own, else 0 | 1 | 0 | 1 |
    | 16 + 4k | direction from the player to bullet k, rad from +x | pi | -1 | 1 |
    | 45 | ticks left | 10800 | 0 | 1 |
    | 46 | gravity | 200 | 0.2 | 0.6 |
    | 47 | drag_coeff | 2 | 0.25 | 0.65 |
    | 48 | turn_bleed_coeff | 1 | 0.05 | 0.45 |
    | 49 | max_speed | 500 | 0.36 | 0.64 |
    | 50 | min_speed | 100 | 0.1 | 0.4 |
    | 51 | max_thrust | 400 | 0.25 | 0.65 |
    | 52 | bullet_speed | 800 | 0.375 | 0.625 |
    | 53 | gun_cooldown_ticks | 240 | 0.1875 | 0.5625 |
    | 54 | bullet_lifetime_ticks | 180 | 0.16667 | 0.5 |
    | 55 | max_hp | 10 | 0.3 | 0.8 |
    | 56 | max_turn_rate | 8 | 0.3125 | 0.6875 |
    | 57 | min_turn_rate | 4 | 0.1 | 0.3 |
    | 58 | rear_aspect_cone | pi | 0.09549 | 0.38197 |

    With `rules="challenge"` the shape is (224,): four frames, newest first, of 56 floats each. Frames that do not exist
    yet are zeros: the first observation of a match holds one frame, the fourth all four. `energy` is v^2 + 2 g y,
    divided by 250^2 + 2 * 130 * 600.

    | index in a frame | observation |
    | --- | --- |
    | 0 .. 5 | own speed, cosine and sine of heading, hp, gun, altitude, as above |
    | 6, 7 | own x / 500, own energy |
    | 8 .. 14 | opponent: relative x and y, speed, cosine and sine of heading, hp, distance, as above |
    | 15 | metres by which the distance shrank in the last tick * 120 / 250, clamped to [-1, 1]; 0 on tick 0 |
    | 16 | radians by which the opponent turned in the last tick * 120 / 4, clamped to [-1, 1]; 0 on tick 0 |
    | 17, 18 | opponent's energy, angle from its nose to the player / pi |
    | 19 .. 50 | the eight nearest bullets, as above |
    | 51, 52 | angle from the own nose to the opponent, and from its nose to the player (as in 18), / pi |
    | 53, 54 | own velocity minus the opponent's, x and y, / 250 |
    | 55 | ticks left / 10800 |

    ## Physics

    Drawn for every match, uniformly from the range of the randomization level. `none` always takes the default; a
    regime changes a few values and takes the default for the rest.

    | parameter | unit | default | narrow | full |
    | --- | --- | --- | --- | --- |
    | gravity | m/s^2 | 80 | 60 .. 100 | 40 .. 120 |
    | drag_coeff | 1/s | 0.9 | 0.7 .. 1.1 | 0.5 .. 1.3 |
    | turn_bleed_coeff | 1/rad | 0.25 | 0.15 .. 0.35 | 0.05 .. 0.45 |
    | max_speed | m/s | 250 | 220 .. 280 | 180 .. 320 |
    | min_speed | m/s | 20 | 15 .. 30 | 10 .. 40 |
    | max_thrust | m/s^2 | 180 | 140 .. 220 | 100 .. 260 |
    | bullet_speed | m/s | 400 | 350 .. 450 | 300 .. 500 |
    | gun_cooldown_ticks | ticks | 90 | 70 .. 110 | 45 .. 135 |
    | bullet_lifetime_ticks | ticks | 60 | 45 .. 75 | 30 .. 90 |
    | max_hp | hp | 5 | 4 .. 7 | 3 .. 8 |
    | max_turn_rate | rad/s | 4 | 3.2 .. 4.8 | 2.5 .. 5.5 |
    | min_turn_rate | rad/s | 0.8 | 0.6 .. 1 | 0.4 .. 1.2 |
    | rear_aspect_cone | rad | 0.785 | 0.5 .. 1 | 0.3 .. 1.2 |

    | regime | changes |
    | --- | --- |
    | default | nothing |
    | high_gravity | gravity 120 |
    | low_gravity | gravity 40 |
    | glass_cannon | max_hp 3, bullet_lifetime_ticks 75 |
    | tank_fight | max_hp 8, gun_cooldown_ticks 60 |
    | knife_fight | bullet_speed 300, bullet_lifetime_ticks 30, max_turn_rate 5.5 |
    | energy_fighter | turn_bleed_coeff 0.45, drag_coeff 1.3, max_thrust 100 |
    | sniper | bullet_speed 500, bullet_lifetime_ticks 90, rear_aspect_cone 0.3 |

    ## Rewards

    The reward is the sum of these terms. The first five are events; the others compare the states around a step.

    | term | weight | sign | given for |
    | --- | --- | --- | --- |
    | damage_dealt | 3.0 | + | each hp taken from the opponent |
    | damage_taken | 1.0 | - | each hp lost |
    | win | 5.0 | + | winning the match |
    | lose | 5.0 | - | losing it |
    | draw | 0.0 | + | a draw |
    | approach | 0.0001 | + | each metre the distance shrank |
    | alive | 0.0 | + | each step survived |
    | proximity | 0.001 | + | a step that ends alive, less than 250 m from the opponent |
    | facing | 0.0005 | + | a step that ends alive, 1 to 300 m from it, its direction's cosine to the nose above 0.866 |
    | shaping | 0.0 | + | gamma * phi' - phi, where phi = 0.5 u cos(a) exp(-d/400) + 0.5 exp(-d/300) |
    | exposure | 0.0 | + | part of shaping: u is 1 - exposure where a shot would glance off, else up to 1 |

    In phi, `d` is the distance in metres and `a` the angle from the nose to the point to aim at. That is where the
    opponent will be after d / `bullet_speed` seconds if it keeps its velocity. A death ends the match with phi' = 0.
    With the switch `zero_sum` a seat gets half of the difference of both seats' sums, so every term cancels.

    ## Start of a match

    `spawn="random"`: the fighters start at x = -u and x = u with one u from [100, 300] m. Each has an altitude from
    [150, 450] m, any heading, and a speed from [`min_speed` + 15, 80] m/s. `spawn="fixed"`: at (-200, 300) and
    (200, 300), facing each other at 50 m/s. Seat 0 is on the left.

    ## End of a match

    - `terminated`: a fighter is dead. The survivor wins; if both died it is a draw. Under challenge
      rules the ground kills without costing hp: a crashed fighter keeps its `hp`.
    - `truncated`: 10,800 ticks (90 s) are over. The higher hp wins; equal hp is a draw. After `max_episode_steps`
      decisions a match is truncated without an outcome.
    - `closing=S` with S > 0: from second S on a circle about the centre (0, 300) shrinks to a point at the time limit.
      Its first radius is 583 m, as far as the corners. Each second after S costs a fighter outside it one hp, as damage
      taken. Observations do not change. The option decides matches against opponents that only hold out.

    When a match is decided, `info` holds `outcome` (1 win, 0 draw, -1 loss), `ticks`, `hp` and `opponent_hp`. Before
    that it is empty.

    ## Arguments

    | argument | default | meaning |
    | --- | --- | --- |
    | opponent | ace | the other seat: do_nothing, dogfighter, chaser, ace, brawler, or [any other](../opponents.md) |
    | seat | 0 | the learner's seat: 0 (left) or 1 (right) |
    | rules | classic | classic: four soft walls; challenge: x wraps, y <= 5 kills, gravity 130, thin air from 550 |
    | randomization | none | a level (none, narrow, full) or a regime |
    | spawn | random | random or fixed |
    | action_repeat | 10 | ticks per decision |
    | bot_rate | tick | tick: the opponent acts 120 times a second; agent (always under challenge): as the learner |
    | observe_physics | True | include the 13 parameters in the observation |
    | closing | 0.0 | second from which the arena closes (classic rules), 0: never |
    | reward | RewardConfig() | the weights: a `RewardConfig`, or a dict of those to change |
    | gamma | 0.999 | discount in the shaping term |
    | device | cpu | device of the simulator: cpu, cuda, cuda:1 |
    | max_episode_steps | None | truncate the match after this many decisions |
    | render_mode | None | rgb_array: `render()` returns a picture of the match; human: a window shows it |

    `reset(options={"opponent": ..., "regime": ...})` chooses another opponent, or another regime or randomization
    level, for that match. The next reset without options returns to the arguments.

    Many matches at once: `gym.make_vec("sparring:sparring/Dogfight-v1", num_envs=256, opponent=["ace", "brawler"])`.
    With both seats as agents: `sparring.envs.dogfight.interfaces.parallel_env.parallel_env()`.

    `render_mode="human"` opens a window that shows every step in real time (`sparring install human`).

    ## Version history

    | version | change |
    | --- | --- |
    | v0 | first release; no longer registered |
    | v1 | scripted bots, rewards of the dead, and the challenge's observations, ground and ceiling as in the original |
    """

    metadata = {"render_modes": numpy_batch.RENDER_MODES, "render_fps": 12}  # noqa: RUF012

    def __init__(self, *, opponent: Any = "ace", seat: int = 0, **match: Any) -> None:
        options = numpy_batch.MatchOptions.of(match, extra=("opponent", "seat"))
        self._seat = int(choose("seat", str(seat), SEATS))
        self._opponent = opponent
        self._batch = numpy_batch.NumpyBatch(1, options, rendered=1)
        self._row = np.array([self._seat])
        self._set_opponent(opponent)
        self._over = True
        self.render_mode = options.render_mode
        self.metadata = {**self.metadata, "render_fps": numpy_batch.render_fps(options)}
        self.action_space = action_space()
        self.observation_space = observation_space(options.rules, options.observe_physics)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new match; `options` may hold `opponent` and `regime`. Returns the observation and an empty info."""
        super().reset(seed=seed)
        opponent, regime = numpy_batch.read_options(options)
        self._set_opponent(self._opponent if opponent is None else opponent)
        self._batch.set_regime(regime)
        self._over = False
        return self._batch.reset(numpy_batch.match_seed(seed, self.np_random))[0, self._seat].copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Play one decision; `action` [3]. Raises `ValueError` for an invalid action, `ResetNeeded` without a match."""
        if self._over:
            raise ResetNeeded("no match is running: call reset() before step()")
        self._batch.actions[0, self._seat] = check_actions(action, (3,), whose="action")
        step = self._batch.step()
        terminated, truncated = bool(step.terminated[0]), bool(step.truncated[0])
        self._over = terminated or truncated
        # The batch has already started the next match; a Gymnasium caller expects the end of this one.
        obs = self._batch.last_obs(self._row)[0] if self._over else step.obs[0, self._seat].copy()
        return obs, float(step.reward[0, self._seat]), terminated, truncated, numpy_batch.match_info(step, self._seat)

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        """Return a picture of the match, uint8 [H, W, 3]; None without a render mode, or with a window."""
        return self._batch.frames()[0] if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Release the simulator; a second call does nothing."""
        self._batch.close()

    @property
    def opponent_share(self) -> float:
        """Share of the time of all steps spent in an opponent other than a bot, outside the kernels."""
        return self._batch.opponent_share

    def _set_opponent(self, opponent: Any) -> None:
        self._batch.seat_opponents([opponent], self._row)
