"""Missiles and flares: symmetries, disabled options, pilots that use them, and resuming."""

import numpy as np
import pytest
import torch

from sparring.configs.core.errors import ConfigError
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch

ARMED = rules.CombatOptions(missiles=2, flares=20)
COLUMN = {name: index for index, name in enumerate(ARMED.observation)}
VECTORS = [
    i for name, i in COLUMN.items() if name.endswith("_y") or name in ("roll_rate", "wing_elevation", "aim_roll_sin")
]
"""Columns that change their sign in a mirror."""
N = 24


def batch(n=N, *, options=ARMED, **further):
    return AirCombatBatch(n, threads=1, seed=further.pop("seed", 5), options=options, **further)


def script(steps=45, seed=3):
    """Return actions [steps, N, 2, 6] that manoeuvre, launch and drop flares."""
    random = np.random.default_rng(seed)
    actions = random.uniform(-1.0, 1.0, (1, N, 2, 6)) * np.array([0.2, 0.15, 1.0, 1.0, 1.0, 1.0])
    actions = np.repeat(actions, steps, axis=0)
    actions[:, :, 0, 4] = 1.0
    actions[:, :, 1, 5] = 1.0
    return actions.astype(np.float32)


def closer(planes):
    """Place every pair 2 km apart with seat 0 behind, so missiles lock."""
    planes["pos"][:, 1] = planes["pos"][:, 0] + planes["vel"][:, 0] * (2000.0 / 220.0)
    for name in ("vel", "nose", "up", "attitude"):
        planes[name][:, 1] = planes[name][:, 0]
    return planes


def fly(planes, actions, **further):
    """Return observations [steps, N, 2, D] and rewards [steps, N, 2] from planes [N, 2]."""
    game = batch(**further)
    game.load({"planes": planes})
    rows = []
    for action in actions:
        game.step(torch.from_numpy(np.ascontiguousarray(action)))
        rows.append((game.obs.numpy().copy(), game.reward.numpy().copy()))
    assert (game.snapshot()["stores"]["missiles"][:, 0] < 2).all()
    return tuple(np.stack(part) for part in zip(*rows, strict=True))


def same(one, other, ended=None):
    assert np.abs(one[0] - other[0]).max() < 0.02
    assert np.abs(one[1] - other[1]).max() < 0.02


def test_mirror():
    """Swap east and west, and reverse all rolls."""
    planes, actions = closer(batch().snapshot()["planes"]), script()
    first = fly(planes, actions)
    mirrored = planes.copy()
    for name in ("pos", "vel", "nose", "up"):
        mirrored[name][..., 1] *= -1.0
    obs, reward = fly(mirrored, actions * np.array([1, -1, 1, 1, 1, 1], dtype=np.float32))
    obs[..., VECTORS] *= -1.0
    same(first, (obs, reward))


def test_place_and_heading_do_not_matter():
    planes, actions = closer(batch().snapshot()["planes"]), script()
    first = fly(planes, actions)
    moved, turn = planes.copy(), np.array([[0.6, -0.8, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 1.0]])
    for name in ("pos", "vel", "nose", "up"):
        moved[name] = planes[name] @ turn.T
    moved["pos"] += (400.0, -900.0, 0.0)
    same(first, fly(moved, actions))


@pytest.mark.parametrize("gun", rules.GUNS)
def test_swapping_seats_swaps_rewards(gun):
    planes, actions = closer(batch().snapshot()["planes"]), script()
    actions[..., 3] = -1.0 if gun == "rounds" else actions[..., 3]  # spread differs by seat
    first = fly(planes, actions, gun=gun)
    game = batch(gun=gun)
    game.load({"planes": np.ascontiguousarray(planes[:, ::-1])})
    for index, action in enumerate(actions):
        game.step(torch.from_numpy(np.ascontiguousarray(action[:, ::-1])))
        assert np.array_equal(game.obs.numpy()[:, ::-1], first[0][index])
        assert np.array_equal(game.reward.numpy()[:, ::-1], first[1][index])


@pytest.mark.parametrize(("model", "gun"), [("point_mass", "cone"), ("f16", "rounds")])
def test_pilot_that_never_launches_matches_missile_free_match(model, gun):
    """All columns that both have are bit-equal."""
    further = {"model": model, "gun": gun, "chase": 0.5}
    with_missiles, without = batch(**further), batch(options=rules.PLAIN, **further)
    bots = torch.arange(2 * N).reshape(N, 2) % 4 - 1  # actions, do_nothing, straight, turning
    actions = torch.from_numpy(script())
    actions[..., 4:] = -1.0
    for game in (with_missiles, without):
        game.assign(bots)
    for action in actions:
        with_missiles.step(action)
        without.step(action[..., :4].contiguous())
        assert torch.equal(with_missiles.obs[..., : len(rules.OBSERVATION)], without.obs)
        assert torch.equal(with_missiles.reward, without.reward)


def test_warnings_and_own_missile_are_observed():
    planes = closer(batch(1).snapshot()["planes"])
    game = batch(1)
    game.load({"planes": planes})
    action = torch.tensor([[[0.0, 0.0, 1.0, -1.0, 1.0, -1.0], [0.0, 0.0, 0.54, -1.0, -1.0, -1.0]]])
    for _ in range(15):
        game.step(action)
        action[..., 4] = -1.0
    shooter, target = (dict(zip(COLUMN, game.obs[0, seat].tolist(), strict=True)) for seat in range(2))
    expected = {"missiles": 0.5, "own_missile": 1.0, "own_missile_homing": 1.0, "warned": 0.0, "radar_warned": 0.0}
    assert shooter == pytest.approx(shooter | expected)
    assert 0.5 < shooter["own_missile_time"] < 2.0
    expected = {
        "missiles": 1.0,
        "own_missile": 0.0,
        "warned": 1.0,
        "warned_x": -1.0,
        "radar_warned": 1.0,
        "radar_x": -1,
    }
    assert target == pytest.approx(target | expected, abs=0.02)
    assert 0.2 < target["warned_range_far"] < 0.45
    assert target["warned_closure"] > 0.1


def test_pilots_use_missiles_and_flares():
    """The chaser's missile kills a straight flyer beyond gun range; the evader survives by flares."""
    results = {}
    for name, flares in (("straight", 20), ("evader", 20), ("evader", 0)):
        game = batch(16, seed=2, options=rules.CombatOptions(missiles=1, flares=flares))
        planes = closer(game.snapshot()["planes"])
        game.load({"planes": planes})
        game.assign(torch.tensor([[rules.bot_id("chaser"), rules.bot_id(name)]]))
        killed = torch.zeros(16, dtype=torch.bool)
        for _ in range(8 * 15):
            game.step(game.actions)
            killed |= game.outcome == 1
        results[name, flares] = int(killed.sum())
    assert results["straight", 20] >= 15
    assert results["evader", 20] <= 4
    assert results["evader", 0] >= 8


def test_sizes_follow_options():
    game = batch(2)
    assert game.obs.shape == (2, 2, 62)
    assert game.actions.shape == (2, 2, 6)
    contract = batch(2, options=rules.PLAIN).contract
    assert game.contract == contract | {
        "obs_dim": 62, "binary": 3, "missiles": 2, "flares": 20, "layout": ARMED.layout,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missiles": 9}, r"missiles=9: must be in \[0, 8\]"),
        ({"flares": 1.5}, r"flares=1.5: must be a whole number in \[0, 120\]"),
        ({"missiles": True}, r"missiles=True: must be a whole number"),
    ],
)
def test_bad_options_are_rejected(options, message):
    with pytest.raises(ConfigError, match=message):
        rules.CombatOptions(**options)
