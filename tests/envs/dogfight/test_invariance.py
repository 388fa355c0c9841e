"""A match's course depends only on the seed, its match id and the actions: checked bit for bit on the CPU.

Neither the batch's size, nor its threads, nor what happens in neighbouring matches may change a single bit of the
results of a match.
"""

import numpy as np
import pytest
import torch

from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch

STEPS = 100
WATCHED = 7
OUTPUTS = ("obs", "final_obs", "reward", "terminated", "truncated", "outcome", "length", "final_hp", "invalid_actions")


def actions_of(match_ids, step):
    """Return actions [N, 2, 3] that depend on match id and step only."""
    rows = [np.random.default_rng([int(match), step]).uniform(-1, 1, (2, 3)) for match in match_ids]
    return torch.tensor(np.array(rows), dtype=torch.float32)


def course(match_ids, *, neighbours="same", **options):
    """Return everything reported by the first seven matches in 100 steps, as tensors."""
    count = len(match_ids)
    batch = DogfightBatch(count, seed=12, max_ticks=400, **options)
    batch.match_id.copy_(torch.tensor(match_ids, dtype=torch.int32))
    bots = np.full((count, 2), rules.ACTIONS)
    bots[:, 1] = np.array(match_ids) % 6 - 1
    if neighbours == "other":
        bots[WATCHED:] = rules.bot_id("brawler")
    batch.assign(bots)
    batch.set_ranges(rules.ranges("full"))
    batch.reset(seed=12)
    records = [batch.obs[:WATCHED].clone()]
    for step in range(STEPS):
        actions = actions_of(match_ids, step)
        if neighbours == "other":
            actions[WATCHED:] = torch.nan
        batch.step(actions)
        records += [getattr(batch, name)[:WATCHED].clone() for name in OUTPUTS]
    batch.close()
    return records


def assert_same(first, second):
    assert len(first) == len(second)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.fixture(scope="module", params=rules.RULES)
def alone(request):
    """Return seven matches alone on one thread."""
    return request.param, course(range(WATCHED), rules=request.param, threads=1)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_batch_size_and_threads_change_nothing(alone, threads):
    rule_set, expected = alone
    assert_same(course(range(64), rules=rule_set, threads=threads), expected)


def test_neighbours_change_nothing(alone):
    rule_set, expected = alone
    assert_same(course(range(64), neighbours="other", rules=rule_set, threads=2), expected)


def test_compared_courses_include_finished_matches(alone):
    _, expected = alone
    truncated = torch.stack(expected[1 + OUTPUTS.index("truncated") :: len(OUTPUTS)])
    assert truncated.any(dim=0).all()


def test_match_id_determines_match_at_any_index():
    forward = DogfightBatch(5, seed=1, threads=1)
    backward = DogfightBatch(5, seed=1, threads=1)
    backward.match_id.copy_(torch.arange(4, -1, -1, dtype=torch.int32))
    backward.reset(seed=1)
    for step in range(20):
        forward.step(actions_of(range(5), step))
        backward.step(actions_of(range(4, -1, -1), step))
        assert torch.equal(forward.obs, backward.obs.flip(0))


def test_trace_does_not_change_course():
    plain, traced = DogfightBatch(4, seed=1, threads=1), DogfightBatch(4, seed=1, threads=1, trace=2)
    for step in range(20):
        plain.step(actions_of(range(4), step))
        traced.step(actions_of(range(4), step))
        assert torch.equal(plain.obs, traced.obs)


def test_seat_plays_equally_with_action_repeat_one_and_ten():
    slow, fast = (DogfightBatch(8, seed=1, threads=1, action_repeat=repeat) for repeat in (10, 1))
    for step in range(30):
        actions = actions_of(range(8), step)
        slow.step(actions)
        for _ in range(10):
            fast.step(actions)
        assert torch.equal(slow.obs, fast.obs)
