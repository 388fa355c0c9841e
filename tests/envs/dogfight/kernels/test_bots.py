"""The scripted opponents: against the NumPy implementation over many states, and by hand for each mode.

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
    ATTACK,
    BAIT,
    BRAWL,
    CLOSE,
    DEFEND,
    DISENGAGE,
    ENERGY,
    PUNISH,
    RETREAT,
    bot_actions,
)
from benchmarks.numpy_dogfight.physics import tick
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch
from tests.envs.dogfight.worlds import live_bullets, scene, to_numpy

MATCHES = 4000
SITUATIONS = 6
TICKS = 3
MEMORY = ("mode", "timer", "mode_ticks", "evade_ticks", "evade_direction")
DO_NOTHING = rules.bot_id("do_nothing")


def everyone_against_everyone(matches):
    """All 25 pairs of bots in turn, [N, 2]."""
    index = np.arange(matches)
    return np.stack([index % 5, index // 5 % 5], axis=1)


def scattered(batch, rng):
    """Random situations a match can get into: close fights, low and high, slow and fast, odd memories."""
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
    """Two bullets a seat, half of them live, around the fighter they were meant for."""
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
def test_bots_decide_as_the_numpy_bots_do(rule_set, level):
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
    """The batch after some ticks of `bot` in seat 0."""
    batch = scene(me, other, bots=[rules.bot_id(bot), DO_NOTHING], **options)
    for _ in range(ticks):
        batch.step(torch.zeros(1, 2, 3))
    return batch


def memory_of(batch):
    memory = batch.snapshot()["memory"][0, 0]
    return int(memory["mode"]), int(memory["timer"])


def ahead(distance, **fields):
    """An opponent in front that flies at me."""
    return foe(distance, yaw=math.pi, **fields)


def behind(distance, **fields):
    """An opponent on my tail."""
    return foe(-distance, **fields)


def richer(ratio):
    """The speed at my height at which my energy, 100^2 + 2 * 80 * 300, is `ratio` of the opponent's."""
    return math.sqrt(58_000.0 / ratio - 48_000.0)


@pytest.mark.parametrize(
    ("mode", "other", "fields", "expected"),
    [
        (ATTACK, behind(198.0), {}, (DEFEND, 45)),
        (ATTACK, behind(202.0), {}, (ATTACK, 0)),
        (ATTACK, ahead(220.0, speed=richer(0.695)), {}, (ENERGY, 60)),
        (ATTACK, ahead(220.0, speed=richer(0.705)), {}, (ATTACK, 0)),
        (ATTACK, ahead(220.0, speed=250.0, y=590.0), {"y": 99.0}, (ATTACK, 0)),
        (ATTACK, ahead(248.0), {"mode_ticks": 360}, (ATTACK, 0)),
        (ATTACK, ahead(248.0), {"mode_ticks": 361}, (DISENGAGE, 90)),
        (ATTACK, ahead(252.0), {"mode_ticks": 361}, (ATTACK, 0)),
        (DEFEND, behind(298.0), {}, (DEFEND, 0)),
        (DEFEND, behind(302.0), {}, (ATTACK, 30)),
        (DEFEND, behind(140.0), {"yaw": 1.1}, (DEFEND, 0)),
        (DEFEND, behind(140.0), {"yaw": 1.2}, (ATTACK, 30)),
        (DEFEND, behind(140.0, speed=richer(0.595)), {}, (ENERGY, 60)),
        (DEFEND, behind(140.0, speed=richer(0.605)), {}, (DEFEND, 0)),
        (ENERGY, ahead(220.0, speed=richer(0.905)), {}, (ATTACK, 30)),
        (ENERGY, ahead(220.0, speed=richer(0.895)), {}, (ENERGY, 0)),
        (ENERGY, behind(148.0, speed=richer(0.8)), {}, (DEFEND, 45)),
        (ENERGY, behind(152.0, speed=richer(0.8)), {}, (ENERGY, 0)),
        (DISENGAGE, ahead(352.0), {}, (ATTACK, 30)),
        (DISENGAGE, ahead(348.0), {}, (DISENGAGE, 0)),
        (DISENGAGE, foe(220.0, yaw=1.1), {}, (ATTACK, 30)),
        (DISENGAGE, foe(220.0, yaw=1.2), {}, (DISENGAGE, 0)),
        (DISENGAGE, behind(148.0), {}, (DEFEND, 45)),
        (DISENGAGE, behind(152.0), {}, (DISENGAGE, 0)),
    ],
)
def test_dogfighter_modes(mode, other, fields, expected):
    me = {**MIDDLE, **{name: value for name, value in fields.items() if name != "mode_ticks"}}
    memory = {"mode": mode, "mode_ticks": fields.get("mode_ticks", 0)}
    assert memory_of(after("dogfighter", me, other, memory=memory)) == expected


@pytest.mark.parametrize(
    ("mode", "me", "other", "expected"),
    [
        (CLOSE, {}, foe(198.0), (BRAWL, 20)),
        (CLOSE, {}, foe(202.0), (CLOSE, 0)),
        (BRAWL, {}, foe(298.0), (BRAWL, 0)),
        (BRAWL, {}, foe(302.0), (CLOSE, 20)),
        (BRAWL, {}, behind(178.0, speed=131.0), (BAIT, 20)),
        (BRAWL, {}, behind(182.0, speed=131.0), (BRAWL, 0)),
        (BRAWL, {}, behind(178.0, speed=129.0), (BRAWL, 0)),
        (BRAWL, {"y": 79.0, "speed": 59.0}, foe(150.0, y=75.0), (RETREAT, 20)),
        (BRAWL, {"y": 81.0, "speed": 59.0}, foe(150.0, y=75.0), (BRAWL, 0)),
        (BRAWL, {"y": 79.0, "speed": 61.0}, foe(150.0, y=75.0), (BRAWL, 0)),
        (BAIT, {"yaw": 1.5}, foe(150.0), (PUNISH, 20)),
        (BAIT, {"yaw": 0.98}, ahead(198.0), (PUNISH, 20)),
        (BAIT, {"yaw": 1.02}, ahead(198.0), (BRAWL, 20)),
        (BAIT, {"yaw": 0.98}, ahead(202.0), (BRAWL, 20)),
        (BAIT, {}, ahead(252.0), (CLOSE, 20)),
        (BAIT, {}, behind(248.0), (BAIT, 0)),
        (BAIT, {}, behind(252.0), (CLOSE, 20)),
        (PUNISH, {}, foe(150.0), (BRAWL, 20)),
        (RETREAT, {"y": 181.0, "speed": 81.0}, foe(150.0), (CLOSE, 20)),
        (RETREAT, {"y": 179.0, "speed": 81.0}, foe(150.0), (RETREAT, 0)),
        (RETREAT, {"y": 181.0, "speed": 79.0}, foe(150.0), (RETREAT, 0)),
    ],
)
def test_brawler_phases(mode, me, other, expected):
    assert memory_of(after("brawler", {**MIDDLE, **me}, other, memory={"mode": mode})) == expected


@pytest.mark.parametrize(
    ("bot", "mode", "left"), [("dogfighter", ATTACK, (DEFEND, 45)), ("brawler", CLOSE, (BRAWL, 20))]
)
def test_a_mode_is_held_while_its_timer_runs(bot, mode, left):
    assert memory_of(after(bot, MIDDLE, behind(140.0), memory={"mode": mode, "timer": 5})) == (mode, 4)
    assert memory_of(after(bot, MIDDLE, behind(140.0), memory={"mode": mode, "timer": 1})) == left


def test_a_punish_has_a_timer_of_its_own():
    started = after("brawler", {**MIDDLE, "yaw": 1.5}, foe(150.0), memory={"mode": BAIT})
    assert started.snapshot()["memory"][0, 0]["mode_ticks"] == 60
    for ticks, expected in ((2, (PUNISH, 0)), (1, (BRAWL, 20))):
        batch = after("brawler", MIDDLE, foe(150.0), memory={"mode": PUNISH, "mode_ticks": ticks})
        assert memory_of(batch) == expected


@pytest.mark.parametrize(
    ("other", "fields", "mode", "ticks"),
    [
        (ahead(118.0), {}, 1, 40),
        (ahead(122.0), {}, 0, 0),
        (foe(110.0, speed=49.0), {}, 1, 40),
        (foe(110.0, speed=51.0), {}, 0, 0),
        (ahead(110.0), {"y": 501.0}, 0, 0),
        (foe(302.0, speed=121.0), {}, -1, 30),
        (foe(298.0, speed=121.0), {}, 0, 0),
        (foe(302.0, speed=119.0), {}, 0, 0),
        (foe(302.0, speed=130.0, y=149.0), {"y": 149.0}, 0, 0),
    ],
)
def test_chaser_yo_yos(other, fields, mode, ticks):
    assert memory_of(after("chaser", {**MIDDLE, **fields}, other)) == (mode, ticks)


@pytest.mark.parametrize(("bot", "radius", "ticks"), [("chaser", 80, 15), ("dogfighter", 90, 18), ("ace", 130, 18)])
def test_a_near_bullet_starts_an_evasive_turn_the_other_way_each_time(bot, radius, ticks):
    def evasion(distance, direction, owner=1):
        bullet = {"owner": owner, "x": 0.0, "y": 300.0 + distance, "yaw": math.pi / 2, "life": 50}
        memory = {"evade_direction": direction}
        return after(bot, MIDDLE, ahead(250.0), bullets=[bullet], memory=memory).snapshot()

    for direction in (1, -1):
        state = evasion(radius - 1.0, direction)
        assert state["memory"][0, 0]["evade_ticks"] == ticks
        assert state["memory"][0, 0]["evade_direction"] == -direction
        assert np.sign(state["fighters"][0, 0]["turn_rate"]) == -direction
    assert evasion(radius + 1.0, 1)["memory"][0, 0]["evade_ticks"] == 0
    assert evasion(radius - 1.0, 1, owner=0)["memory"][0, 0]["evade_ticks"] == 0


def test_an_evasive_turn_lasts_its_ticks():
    bullet = {"owner": 1, "x": 0.0, "y": 370.0, "yaw": math.pi / 2, "life": 2}
    batch = scene(MIDDLE, foe(250.0), bots=[rules.bot_id("chaser"), DO_NOTHING], bullets=[bullet])
    turns = []
    for _ in range(17):
        batch.step(torch.zeros(1, 2, 3))
        turns.append(batch.snapshot()["memory"][0, 0]["evade_ticks"] > 0)
    assert turns == [True] * 15 + [False] * 2


def test_an_evasive_turn_is_followed_at_once_by_one_the_other_way_while_the_bullet_is_near():
    bullet = {"owner": 1, "x": 0.0, "y": 370.0, "yaw": math.pi / 2, "life": 9}
    memory = {"evade_ticks": 1, "evade_direction": 1}
    after_it = after("chaser", MIDDLE, foe(250.0), bullets=[bullet], memory=memory).snapshot()["memory"][0, 0]
    assert (after_it["evade_ticks"], after_it["evade_direction"]) == (15, -1)


def test_a_brawler_jinks_in_every_phase():
    bullet = {"owner": 1, "x": 0.0, "y": 380.0, "yaw": math.pi / 2, "life": 9}
    for mode in (CLOSE, BRAWL, BAIT, PUNISH, RETREAT):
        batch = after("brawler", MIDDLE, foe(150.0), bullets=[bullet], memory={"mode": mode, "timer": 9})
        assert batch.snapshot()["memory"][0, 0]["evade_ticks"] == 8


@pytest.mark.parametrize("bot", [name for name in rules.BOTS if name != "do_nothing"])
@pytest.mark.parametrize(("y", "yaw", "turn"), [(60.0, -0.5, 1), (60.0, -2.6, -1), (580.0, 0.5, -1), (580.0, 2.6, 1)])
def test_every_bot_pulls_away_from_ground_and_ceiling(bot, y, yaw, turn):
    batch = after(bot, {**MIDDLE, "y": y, "yaw": yaw}, foe(150.0, y=y, yaw=math.pi))
    me = batch.snapshot()["fighters"][0, 0]
    assert np.sign(me["turn_rate"]) == turn
    assert abs(me["turn_rate"]) > 2.8  # Hard over.
    assert len(live_bullets(batch, 0)) == 0


def test_the_stall_guard_keeps_the_turn_small():
    # At 37.5 m/s u = 0.5: at most 0.65 of the turn rate there.
    me = after("ace", {**MIDDLE, "speed": 37.5}, foe(0.0, dy=200.0)).snapshot()["fighters"][0, 0]
    assert me["turn_rate"] == pytest.approx(0.65 * (4.0 - (17.5 / 230.0) * 3.2), rel=1e-5)


@pytest.mark.parametrize(("bot", "reach"), [("chaser", 320), ("dogfighter", 350), ("ace", 380), ("brawler", 300)])
def test_bots_fire_in_reach_but_never_at_the_armour(bot, reach):
    inside, outside = ahead(reach - 2.0), ahead(reach + 2.0)
    assert len(live_bullets(after(bot, MIDDLE, inside), 0)) == 1
    assert len(live_bullets(after(bot, MIDDLE, outside), 0)) == 0
    assert len(live_bullets(after(bot, MIDDLE, foe(reach - 5.0, yaw=0.7)), 0)) == 0
    assert len(live_bullets(after(bot, MIDDLE, foe(reach - 5.0, yaw=0.9)), 0)) == 1
    assert len(live_bullets(after(bot, {**MIDDLE, "cooldown": 2}, inside), 0)) == 0


def test_do_nothing_does_nothing():
    batch = scene({**MIDDLE, "y": 60.0, "yaw": -1.0}, foe(150.0), bots=[DO_NOTHING, DO_NOTHING])
    same = scene({**MIDDLE, "y": 60.0, "yaw": -1.0}, foe(150.0))
    for _ in range(60):
        batch.step(torch.ones(1, 2, 3))
        same.step(torch.zeros(1, 2, 3))
    np.testing.assert_array_equal(batch.snapshot()["fighters"], same.snapshot()["fighters"])


@pytest.mark.parametrize(("rule_set", "bot_rate", "each"), [("classic", "tick", True), ("classic", "agent", False)])
def test_bots_decide_at_the_configured_rate(rule_set, bot_rate, each):
    check_rate(rule_set, bot_rate, each)


def test_challenge_bots_decide_once_a_step():
    check_rate("challenge", "tick", False)


def check_rate(rule_set, bot_rate, each):
    """A dogfighter's hold timer counts decisions: ten a step at tick rate, else one."""
    options = {"rule_set": rule_set, "bot_rate": bot_rate, "action_repeat": 10}
    batch = after("dogfighter", MIDDLE, ahead(220.0), memory={"timer": 40}, **options)
    assert memory_of(batch)[1] == (30 if each else 39)


def test_each_seat_has_its_own_memory():
    batch = scene(MIDDLE, ahead(110.0), bots=[rules.bot_id("brawler"), rules.bot_id("chaser")])
    batch.step(torch.zeros(1, 2, 3))
    assert batch.snapshot()["memory"][0]["mode"].tolist() == [BRAWL, 1]
