"""The scripted opponents against the NumPy implementation over many states; `recorded` has recorded rows.

The differential part plays a bot of each kind in both seats from thousands of random situations and, before every
tick, copies the simulator's state into the NumPy peer. Both then choose an action from the same state. The simulator's
choice is not visible itself, so each match is also advanced by the peer with the peer's action: equal courses over one
tick mean equal actions. Decisions at a threshold may differ by rounding (float32 there, float64 here), but hardly any.
"""

import math

import numpy as np
import pytest
import torch

from benchmarks.numpy_dogfight.bots import (
    BRAWL,
    bot_actions,
)
from benchmarks.numpy_dogfight.physics import tick
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch
from tests.envs.dogfight.worlds import scene, to_numpy

MATCHES = 4000
SITUATIONS = 6
TICKS = 3
MEMORY = ("mode", "timer", "mode_ticks", "evade_ticks", "evade_direction")
DO_NOTHING = rules.bot_id("do_nothing")


def everyone_against_everyone(matches):
    """Return all 25 pairs of bots in turn, [N, 2]."""
    index = np.arange(matches)
    return np.stack([index % 5, index // 5 % 5], axis=1)


def scattered(batch, rng):
    """Return random reachable situations: close, low, high, slow, fast, with unusual memories."""
    state = batch.snapshot()
    fighters, shape = state["fighters"], (batch.num_envs, 2)
    centre, spread = rng.uniform(-450, 450, (batch.num_envs, 1)), rng.choice([60, 150, 400], (batch.num_envs, 1))
    fighters["x"] = np.clip(centre + rng.uniform(-1, 1, shape) * spread, -490, 490) + rng.uniform(-9, 9, shape)
    height = rng.uniform(10, 590, (batch.num_envs, 1))
    fighters["y"] = np.clip(height + rng.uniform(-1, 1, shape) * spread, 18, 590) + rng.uniform(-9, 9, shape)
    to_foe = np.arctan2(*(fighters[name][:, ::-1] - fighters[name] for name in ("y", "x")))
    aimed = rng.random(shape) < 0.5
    yaw = np.where(aimed, to_foe + rng.normal(0.0, 0.3, shape), rng.uniform(-math.pi, math.pi, shape))
    fighters["cos_yaw"], fighters["sin_yaw"] = np.cos(yaw), np.sin(yaw)
    fighters["speed"] = rng.uniform(41, 180, shape)
    fighters["cooldown"] = np.maximum(rng.integers(-30, 30, shape), 0)
    fighters["hp"] = rng.integers(1, state["physics"]["max_hp"][:, None].astype(int) + 1)
    memory = state["memory"]
    memory["timer"] = np.maximum(rng.integers(-20, 20, shape), 0)
    memory["mode_ticks"] = rng.choice([0, 200, 359, 360, 361], shape)
    memory["evade_ticks"] = np.maximum(rng.integers(-20, 10, shape), 0)
    memory["evade_direction"] = rng.choice([-1, 1], shape)
    # Under challenge rules no dogfighter disengages.
    dogfighter = range(3) if batch.rules == "challenge" else range(4)
    for bot, modes in (("dogfighter", dogfighter), ("chaser", (-1, 0, 1)), ("brawler", range(5))):
        mine = batch.bots.numpy() == rules.bot_id(bot)
        memory["mode"][mine] = rng.choice(list(modes), mine.sum())
    memory["timer"][batch.bots.numpy() == rules.bot_id("ace")] = 0  # It has no modes to hold.
    _scatter_bullets(state, rng)
    batch.load(state)


def _scatter_bullets(state, rng):
    """Place two bullets per seat, half of them live, around their targets."""
    bullets, foes = state["bullets"], state["fighters"][:, [1, 1, 0, 0]]
    for name in ("x", "y"):
        bullets[name] = foes[name] + rng.uniform(-150, 150, foes.shape)
    yaw = rng.uniform(-math.pi, math.pi, foes.shape)
    bullets["dx"], bullets["dy"] = np.cos(yaw), np.sin(yaw)
    bullets["life"][:] = 0
    bullets["life"] = np.maximum(rng.integers(-30, 30, foes.shape), 0)


def same_decisions(real, peer):
    """Return where both states agree on decisions and memories of bots, bool [N, 2]."""
    same = real.cooldown == peer.cooldown
    for name in MEMORY:
        same &= getattr(real.memory, name) == getattr(peer.memory, name)
    for name in ("speed", "turn_rate"):  # In control these show throttle and turn to about 1e-5.
        same &= np.abs(getattr(real, name) - getattr(peer, name)) < 1e-3
    return same


@pytest.mark.parametrize("rule_set", rules.RULES)
@pytest.mark.parametrize("level", ["none", "full"])
def test_bots_match_numpy_bots(rule_set, level):
    batch = DogfightBatch(MATCHES, rules=rule_set, action_repeat=1, seed=4, threads=1)
    batch.assign(everyone_against_everyone(MATCHES))
    batch.set_ranges(rules.ranges(level))
    batch.reset(seed=4)
    rng, challenge = np.random.default_rng(9), rule_set == "challenge"
    bots, everyone = batch.bots.numpy(), np.ones(MATCHES, bool)
    equal, shots = [], np.zeros(5, int)
    for step in range(SITUATIONS * TICKS):
        if step % TICKS == 0:
            scattered(batch, rng)
        peer = to_numpy(batch)
        actions = bot_actions(peer, bots, challenge=challenge)
        tick(peer, actions, challenge=challenge, active=everyone)
        batch.step(torch.zeros(MATCHES, 2, 3))
        playing = ~(batch.terminated | batch.truncated).numpy()
        equal += list(same_decisions(to_numpy(batch), peer)[playing].ravel())
        for bot in range(5):
            shots[bot] += (actions[:, :, 2] > 0)[bots == bot].sum()
    assert len(equal) > 100_000
    assert np.mean(equal) >= 0.99998
    assert shots[DO_NOTHING] == 0
    assert (np.delete(shots, DO_NOTHING) > 0).all()


# Hand-made cases: seat 0 is the bot, seat 1 does nothing.

MIDDLE = {"x": 0.0, "y": 300.0, "yaw": 0.0, "speed": 100.0}


def foe(dx, dy=0.0, yaw=0.0, **fields):
    return {"x": dx, "y": 300.0 + dy, "yaw": yaw, "speed": 100.0, **fields}


def after(bot, me, other, *, ticks=1, **options):
    """Return the batch after some ticks of `bot` in seat 0."""
    batch = scene(me, other, bots=[rules.bot_id(bot), DO_NOTHING], **options)
    for _ in range(ticks):
        batch.step(torch.zeros(1, 2, 3))
    return batch


def memory_of(batch):
    memory = batch.snapshot()["memory"][0, 0]
    return int(memory["mode"]), int(memory["timer"])


def ahead(distance, **fields):
    """Return an opponent ahead that flies at seat 0."""
    return foe(distance, yaw=math.pi, **fields)


def behind(distance, **fields):
    """Return an opponent behind."""
    return foe(-distance, **fields)


def test_do_nothing_does_nothing():
    batch = scene({**MIDDLE, "y": 60.0, "yaw": -1.0}, foe(150.0), bots=[DO_NOTHING, DO_NOTHING])
    same = scene({**MIDDLE, "y": 60.0, "yaw": -1.0}, foe(150.0))
    for _ in range(60):
        batch.step(torch.ones(1, 2, 3))
        same.step(torch.zeros(1, 2, 3))
    np.testing.assert_array_equal(batch.snapshot()["fighters"], same.snapshot()["fighters"])


@pytest.mark.parametrize(("rule_set", "bot_rate", "each"), [("classic", "tick", True), ("classic", "agent", False)])
def test_bots_decide_at_configured_rate(rule_set, bot_rate, each):
    check_rate(rule_set, bot_rate, each)


def test_challenge_bots_decide_once_per_step():
    check_rate("challenge", "tick", False)


def check_rate(rule_set, bot_rate, each):
    """Check the rate: a dogfighter's hold timer counts ten decisions per step at tick rate, else one."""
    options = {"rule_set": rule_set, "bot_rate": bot_rate, "action_repeat": 10}
    batch = after("dogfighter", MIDDLE, ahead(220.0), memory={"timer": 40}, **options)
    assert memory_of(batch)[1] == (30 if each else 39)


def test_each_seat_has_own_memory():
    batch = scene(MIDDLE, ahead(110.0), bots=[rules.bot_id("brawler"), rules.bot_id("chaser")])
    batch.step(torch.zeros(1, 2, 3))
    assert batch.snapshot()["memory"][0]["mode"].tolist() == [BRAWL, 1]
