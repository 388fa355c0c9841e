"""Observation bounds in corners of the game that random play seldom reaches."""

import numpy as np
import torch

from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.interfaces.spaces import SLACK, observation_space


def test_regimes_are_within_full_ranges_of_bounds():
    low, high = rules.ranges("full").T
    for regime in rules.REGIMES:
        point = rules.ranges(regime)[:, 0]
        assert ((low <= point) & (point <= high)).all(), regime


def test_farthest_bullet_is_just_inside_bounds():
    batch = DogfightBatch(1, threads=1)
    batch.set_ranges(rules.ranges("sniper"))
    batch.reset(1)
    state = batch.snapshot()
    # Seat 0 fires from the right edge to the right, seat 1 watches from the left edge.
    for name, values in {"x": (500, -500), "y": (300, 300), "cos_yaw": (1, -1), "sin_yaw": (0, 0)}.items():
        state["fighters"][name][0] = values
    batch.load({"fighters": state["fighters"]})
    actions = torch.tensor([[[0.0, 1.0, 1.0], [0.0, 1.0, -1.0]]])
    seen = []
    for _ in range(10):
        batch.step(actions)
        seen.append(batch.obs[0, 1].numpy().copy())
    seen = np.stack(seen)
    space = observation_space("classic", observe_physics=True)
    assert (seen <= space.high).all()
    assert (seen >= space.low).all()
    # 89 ticks of flight at 500 m/s, 12 m from a muzzle near x = 500; both fighters are pushed in by the walls.
    assert 1.3 < seen[:, 13].max() <= 1.387 + SLACK
