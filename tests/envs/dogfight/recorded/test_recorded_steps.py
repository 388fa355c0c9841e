"""Recorded classic steps of up to ten ticks, by the kernels and by the NumPy peer: rewards, ends, states, observations.

Each implementation is given the state before a step, plays the recorded actions and must arrive where the recorded
simulator arrived. The same is done with the seats exchanged.
"""

import numpy as np
import pytest

from sparring.envs.dogfight import rules
from tests.envs.dogfight.recorded import peer, simulator
from tests.envs.dogfight.recorded.rows import array, step_state

BULLET_DIRECTIONS = slice(16, 45, 4)
PHYSICS = slice(46, 59)
HP, COOLDOWN = 3, 4
STALL = 6
IMPLEMENTATIONS = pytest.mark.parametrize("implementation", [simulator, peer], ids=["kernels", "numpy"])
BOTH_WAYS = pytest.mark.parametrize("seats", [[0, 1], [1, 0]], ids=["as recorded", "exchanged"])


def difference(real, expected, directions):
    """Return the absolute difference, modulo 2 for the columns `directions`."""
    apart = np.abs(real - expected)
    apart[..., directions] = np.minimum(apart[..., directions], 2.0 - apart[..., directions])
    return apart


@pytest.fixture(scope="module")
def played():
    """Return each implementation's game after the recorded actions, created on first use."""
    games = {}

    def play(implementation, seats):
        key = implementation.__name__, tuple(seats)
        if key not in games:
            games[key] = implementation.Game(step_state(swapped=seats == [1, 0]), "classic")
            games[key].step(array("step_action")[:, seats])
        return games[key]

    return play


@IMPLEMENTATIONS
@BOTH_WAYS
def test_rewards_equal_recorded_ones(played, implementation, seats):
    reward = played(implementation, seats).reward
    assert np.abs(reward - array("step_reward")[:, seats]).max() <= 2e-4


@IMPLEMENTATIONS
@BOTH_WAYS
def test_ends_and_clock_equal_recorded_ones(played, implementation, seats):
    game = played(implementation, seats)
    np.testing.assert_array_equal(game.done, array("step_done"))
    np.testing.assert_array_equal(game.tick, array("step_tick_after"))
    dead = array("step_fighters_after")[:, :, 4] == 0
    assert dead.any(axis=1).sum() == 400
    assert (game.done & ~dead.any(axis=1)).sum() == 150


@IMPLEMENTATIONS
@BOTH_WAYS
def test_hp_cooldown_and_flight_match_records(played, implementation, seats):
    game, after = played(implementation, seats), array("step_fighters_after")[:, seats]
    scale = array("step_physics")[:, [rules.PARAMETER_INDEX[name] for name in ("max_hp", "gun_cooldown_ticks")]]
    counts = np.round(game.obs[:, :, [HP, COOLDOWN]] * scale[:, None])
    np.testing.assert_array_equal(counts, after[:, :, [4, 5]])
    running = ~game.done
    np.testing.assert_array_equal(game.fighters[running, :, 4], after[running, :, STALL])
    flight = difference(game.fighters[running, :, :4], after[running, :, :4], [])
    yaw = np.abs(np.remainder(flight[:, :, 2] + np.pi, 2.0 * np.pi) - np.pi)
    assert flight[:, :, :2].max() <= 5e-3
    assert yaw.max() <= 1e-3
    assert flight[:, :, 3].max() <= 5e-3


@IMPLEMENTATIONS
@BOTH_WAYS
def test_observations_after_step_match_records(played, implementation, seats):
    obs = played(implementation, seats).obs
    assert difference(obs[:, :, :46], array("obs_after")[:, seats], BULLET_DIRECTIONS).max() <= 1e-3


@IMPLEMENTATIONS
@BOTH_WAYS
@pytest.mark.parametrize(("suffix", "name"), [("", "obs_before"), ("_after", "obs_after")])
def test_observations_of_state_match_records(implementation, seats, suffix, name):
    obs = implementation.Game(step_state(suffix, swapped=seats == [1, 0]), "classic").obs
    assert difference(obs[:, :, :46], array(name)[:, seats], BULLET_DIRECTIONS).max() <= 1e-6
    assert np.abs(obs[:, :, PHYSICS] - array("obs_physics")[:, None]).max() <= 1e-6
