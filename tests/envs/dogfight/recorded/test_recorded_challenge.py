"""Recorded challenge observations, by the kernels and by the NumPy peer: whole matches, and every frame from its state.

Sixteen matches are played from their first row on with the recorded actions, and all four frames compared after every
decision, zeros before the start and the end of a match included. Then every row is loaded alone and its newest frame
compared, so that an error cannot hide behind flight that has drifted; so are the frames that the scripted opponents
read, from both seats.
"""

import numpy as np
import pytest

from sparring.envs.dogfight import rules
from tests.envs.dogfight.recorded import peer, simulator
from tests.envs.dogfight.recorded.rows import array, bot_rows, challenge_state

FRAME = rules.CHALLENGE_FRAME_SIZE
ANGLES = np.array([18, 51, 52, *range(22, 51, 4)])
"""Columns of a frame that hold an angle / pi, where -1 and 1 are the same direction."""
MATCH_TOLERANCE, FRAME_TOLERANCE = 5e-4, 1e-4
IMPLEMENTATIONS = pytest.mark.parametrize("implementation", [simulator, peer], ids=["kernels", "numpy"])


def difference(real, expected):
    """Return the absolute difference of frames, for angles modulo 2."""
    apart = np.abs(real - expected)
    angles = (ANGLES + FRAME * np.arange(apart.shape[-1] // FRAME)[:, None]).ravel()
    apart[..., angles] = np.minimum(apart[..., angles], 2.0 - apart[..., angles])
    return apart


def starts():
    """Return the first row of every match, and its number of rows."""
    return np.unique(array("ch_obs_match"), return_index=True, return_counts=True)[1:]


@IMPLEMENTATIONS
def test_whole_matches_equal_recorded_ones(implementation):
    first, rows = starts()
    game = implementation.Game(challenge_state(first), "challenge")
    for decision in range(rows.max()):
        if decision:
            game.step(array("ch_obs_action")[np.minimum(first + decision - 1, len(array("ch_obs")) - 1)])
        there = decision < rows
        row = (first + decision)[there]
        apart = difference(game.obs[there], array("ch_obs")[row])
        assert apart.max() <= MATCH_TOLERANCE, (decision, np.unravel_index(apart.argmax(), apart.shape))
        if decision:
            np.testing.assert_array_equal(game.tick[there], array("ch_obs_tick")[row])
            np.testing.assert_array_equal(game.done[there], array("ch_obs_over")[row])


@IMPLEMENTATIONS
def test_newest_frame_of_every_row_matches(implementation):
    every = np.ones(len(array("ch_obs")), bool)
    obs = implementation.Game(challenge_state(every), "challenge").obs
    apart = difference(obs[:, :, :FRAME], array("ch_obs")[:, :, :FRAME])
    assert apart.max() <= FRAME_TOLERANCE, np.unravel_index(apart.argmax(), apart.shape)
    assert (obs[:, :, FRAME:] == 0.0).all()


@pytest.mark.parametrize("seat", [0, 1])
@IMPLEMENTATIONS
def test_frame_read_by_each_bot_matches(implementation, seat):
    obs = implementation.Game(bot_rows("challenge", seat).state, "challenge").obs
    apart = difference(obs[:, seat, :FRAME], array("ch_bot_obs"))
    assert apart.max() <= FRAME_TOLERANCE, np.unravel_index(apart.argmax(), apart.shape)
