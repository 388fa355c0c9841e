"""Masks and rewards of PettingZoo games as in public reports: read correctly, or rejected in one line."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete, MultiDiscrete

from sparring.configs.core.errors import InputError
from sparring.envs.imported.batch import make_batch
from sparring.envs.imported.evaluation.conformance import play_randomly
from sparring.envs.imported.evaluation.policy import ImportedGame
from sparring.envs.imported.masks import draw_legal, flat_mask, unread_masks
from sparring.envs.imported.match import make_match
from sparring.envs.imported.training.opponents import RandomSeats
from tests.envs.imported.mask_games import MOVES, Turns

GAMES = "tests.envs.imported.mask_games"


def play_batch(name, moves=2 * MOVES, **kwargs):
    """Play randomly as in training; return the batch, whose game counts illegal actions."""
    batch = make_batch("pettingzoo", f"{GAMES}:{name}", kwargs, 2, 0)
    player = RandomSeats(batch.contract)
    for _ in range(moves):
        actions = torch.zeros(*batch.deciding.shape, batch.action_size)
        actions[batch.deciding] = player.act(batch.obs[batch.deciding], torch.zeros(0, 0))[0]
        batch.step(actions)
    return batch


def illegal(batch):
    return sum(batch.match(i).env.unwrapped.illegal for i in range(2))


@pytest.mark.parametrize("name", ["Masked", "wrapped"])
@pytest.mark.parametrize("start", [0, 1, 5])
def test_masks_are_used_from_first_step(name, start):
    batch = play_batch(name, start=start)
    assert batch.contract["masked"]
    assert batch.remarks == ()
    assert illegal(batch) == 0


def test_seat_may_take_any_action_until_first_mask():
    """The previous match's row must not leave its mask behind."""
    batch = play_batch("Masked", moves=MOVES, start=1)
    assert batch.length.tolist() == [MOVES, MOVES]
    assert (batch.obs[:, :, batch.rows.mask] == 1).all()


@pytest.mark.parametrize("kind", ["column", "floats", "bools", "list", "one_agent", "mixed"])
def test_masks_of_any_format_are_equivalent(kind):
    batch = play_batch("Masked", kind=kind, start=0)
    assert batch.contract["masked"]
    assert illegal(batch) == 0


@pytest.mark.parametrize("kind", ["parts", "part_lists", "joined"])
def test_multi_discrete_masks_are_read_in_every_format(kind):
    batch = play_batch("Masked", kind=kind, start=0, acts="several")
    assert illegal(batch) == 0
    assert batch.match(0).mask(0).tolist() == [0, 1, *[float(k == 0) for k in range(3)]]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kind": "late", "start": 10}, "has its first 'action_mask' here, after 8 rounds without masks; give masks"),
        ({"kind": "gaps", "start": 0}, "a_0 decides without a mask: its info lacks 'action_mask'"),
        ({"kind": "long", "start": 0}, "the mask of a_0 has 4 values; return one for each of its 3 actions"),
        ({"kind": "square", "start": 0}, "the mask of a_0 has the shape (2, 2); return one for each of its 3"),
        ({"kind": "text", "start": 0}, "the mask of a_0 has str; return one for each of its 3 actions"),
        ({"kind": "zeros", "start": 0}, "a_0 decides and its mask allows no action"),
        ({"kind": "logits", "start": 0}, "the mask of a_0 holds -inf; give 1 for legal actions, 0 for others"),
        ({"kind": "nested"}, "the observation of a_0 has a mask inside, state.action_mask; give it at the top"),
        ({"kind": "nested_info"}, "the info of a_0 has a mask inside, extra.action_mask; give it at the top"),
        ({"kind": "both"}, "a_0 has two masks that differ, in its observation and in its info"),
        ({"kind": "parts", "start": 0}, "the mask of a_0 has tuple; return one for each of its 3 actions"),
    ],
)
def test_unreadable_masks_are_rejected(options, text):
    with pytest.raises(InputError) as refusal:
        play_batch("Masked", **options)
    assert text in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("Masked", {"kind": "legal_moves"}, "the observation of a_0 has 'legal_moves', which is not read as a mask"),
        ("Masked", {"kind": "other_key"}, "the info of a_0 has 'valid_actions', which is not read as a mask"),
        ("Masked", {"acts": "box"}, "the info of a_0 has 'action_mask', which is not read as a mask"),
        ("MethodMasked", {}, "its method action_masks is not read; give 'action_mask' in observations or infos"),
    ],
)
def test_unread_masks_are_reported(name, options, text):
    batch = make_batch("pettingzoo", f"{GAMES}:{name}", {"start": 0, **options}, 2, 0)
    assert not batch.contract["masked"]
    assert [text in remark for remark in batch.remarks] == [True]


@pytest.mark.parametrize("name", ["Turns", "ordered"])
@pytest.mark.parametrize("masked", [1, 4])
def test_late_masks_of_turns_are_used(name, masked):
    match = make_match("pettingzoo", f"{GAMES}:{name}", {"masked": masked})
    assert match.masked
    match.reset(0)
    seen = []
    while not match.over:
        (seat,) = match.deciding()
        seen.append(None if (mask := match.mask(seat)) is None else mask.tolist())
        match.step({seat: 0})
    assert seen == [None if turn < masked else [1, 1 - turn % 2] for turn in range(6)]


def rewards_of(pay):
    match = make_match("pettingzoo", f"{GAMES}:Turns", {"pay": pay})
    match.reset(0)
    total = np.zeros(2)
    while not match.over:
        match.step(dict.fromkeys(match.deciding(), 1))
        total += match.rewards
    return total


def test_rewards_match_last():
    """Three turns of 2 each, minus 0.5 for each of the other's three, also by PettingZoo's loop."""
    env, paid = Turns(), {"p_0": 0.0, "p_1": 0.0}
    env.reset()
    for agent in env.agent_iter():
        _, reward, terminated, *_ = env.last()
        paid[agent] += reward
        env.step(None if terminated else 1)
    assert list(paid.values()) == rewards_of("right").tolist() == [4.5, 4.5]


@pytest.mark.parametrize("pay", ["cycle", "never", "own", "twice", "kept", "overwritten", "reset"])
def test_rewards_inconsistent_with_last_are_rejected(pay):
    with pytest.raises(InputError, match=r"last\(\) pays p_\d [\d.-]+, and its rewards .* add up to [\d.-]+; in step"):
        rewards_of(pay)


@pytest.mark.parametrize(("pay", "more"), [("right", 0.0), ("left", 0.0), ("removed", 4.0)])
def test_check_random_play_sums_rewards_never_paid_by_last(pay, more):
    """`left`: no turn follows the last step. `removed`: p_0 gets 4 after leaving. Training steps the same batch."""
    assert rewards_of(pay).tolist() == [4.5 + more, 4.5]
    totals = {}
    for name in ("right", pay):
        game = ImportedGame("pettingzoo", f"{GAMES}:Turns", {"pay": name})
        totals[name] = play_randomly(game, 4, 1, ("p_0", "p_1")).totals
    assert np.unique(totals[pay] - totals["right"], axis=0).tolist() == [[more, 0.0]]


def test_mask_error_names_fault():
    assert flat_mask(np.array([[1], [0]]), [2], "a").tolist() == [1, 0]
    assert flat_mask(np.array([[1, 0], [0, 1]], dtype=object), [2, 2], "a").tolist() == [1, 0, 0, 1]
    for wrong, text in (
        (None, "NoneType"),
        (np.ones((2, 2)), "the shape (2, 2)"),
        ([[1], [1, 0]], "list"),
        (3, "int"),
        ({0, 1}, "set"),
    ):
        with pytest.raises(InputError) as refusal:
            flat_mask(wrong, [4], "a")
        assert f"the mask of a has {text}; return one for each of its 4 actions" in str(refusal.value)
    with pytest.raises(InputError, match="the mask of a in choice 1 has 2 values; return one for each of its 3"):
        flat_mask(([1, 0], [1, 0]), [2, 3], "a")


def test_legal_actions_are_sampled_in_their_space():
    rng = np.random.default_rng(0)
    assert {draw_legal(Discrete(4, start=5), np.array([0, 1, 0, 1]), rng) for _ in range(50)} == {6, 8}
    space = MultiDiscrete([2, 3], start=[1, 10])
    drawn = {tuple(draw_legal(space, np.array([0, 1, 1, 0, 1]), rng).tolist()) for _ in range(50)}
    assert drawn == {(2, 10), (2, 12)}
    assert all(space.contains(draw_legal(space, None, rng)) for _ in range(20))


def test_other_entries_are_not_read_as_masks():
    kept = {"board": np.ones(9), "mask_of_fog": np.ones(9), "value": 3.0, "invalid": 0, 7: np.ones(3)}
    assert list(unread_masks(kept, [3])) == []
    assert list(unread_masks({"action_mask": np.ones(3), "legal_moves": [0, 2], "fog_mask": [1, 0, 1]}, [3])) == [
        "legal_moves",
        "fog_mask",
    ]
