"""The serverless page: simulator against the Warp kernel, network against torch, and a match."""

import json
import re

import numpy as np
import pytest
import torch

from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.array_actor import actor_of
from sparring.agents.policies.policy import Policy
from sparring.configs.core.errors import InputError
from sparring.configs.schema import NetworkConfig
from sparring.envs.dogfight import rules as game
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.browser.command import DEFAULT_OPPONENT, find_opponent, load_opponent, opponent_of_page
from sparring.envs.dogfight.browser.command import page as page_of
from sparring.envs.dogfight.browser.pages import static_page
from sparring.envs.dogfight.rules import TRACE_FIELDS
from sparring.eval import play
from tests.envs.dogfight.evaluation.test_replay import ROOT
from tests.eval.browser.browser import STILL, browser, dom_of, needs_chromium, selftest

TICKS = 600
FIGHTER = {"x": "x", "y": "y", "cos": "cos_yaw", "sin": "sin_yaw", "speed": "speed"}
COUNTS = ("hp", "cooldown", "stall")
COLUMN = {name: index for index, name in enumerate(TRACE_FIELDS)}


@pytest.fixture(scope="module")
def released():
    return load_opponent(find_opponent(DEFAULT_OPPONENT)).contestant


@pytest.fixture(scope="module")
def page():
    return static_page(opponent_of_page(find_opponent(DEFAULT_OPPONENT)))


def arrays(policy):
    weights = {name: tensor.numpy() for name, tensor in policy.network.state_dict().items()}
    return actor_of(policy.name, policy.contract, policy.network.shape, weights)


def played(policy, regime, seed):
    """Return a kernel match of the policy against itself with noise: start, actions, states, observations."""
    batch = DogfightBatch(1, trace=1, threads=1, action_repeat=1, seed=seed)
    batch.set_ranges(game.ranges(regime))
    batch.reset(seed)
    start = {name: rows[0] for name, rows in batch.snapshot().items()}
    rng, actions, states, seen = np.random.default_rng(seed), [], [], []
    action = torch.zeros(1, 2, 3)
    for tick in range(TICKS):
        seen.append(batch.obs[0].numpy().copy())
        if tick % 10 == 0:
            action[0] = policy.act(batch.obs[0])
            action[0, :, :2] += torch.from_numpy(rng.normal(0, 0.5, (2, 2)).astype(np.float32))
            if tick % 240 < 80:  # without thrust and nose up: stalls
                action[0, 0] = torch.tensor([np.sign(batch.obs[0, 0, 1].item()), -1.0, 1.0])
            if seed % 2:  # straight on, into the walls
                action[0, 1] = torch.tensor([0.0, 2.0, 1.0])
        actions.append(action[0].numpy().copy())
        batch.step(action)
        states.append(batch.trace[0, 0].numpy().copy())
        if batch.outcome[0] >= 0:
            break
    batch.close()
    return start, np.array(actions), np.array(states), np.array(seen)


def as_data(start, actions):
    """Return the start and actions in the page's format."""
    fighters = [
        {key: float(f[name]) for key, name in FIGHTER.items()} | {key: int(f[key]) for key in COUNTS}
        for f in start["fighters"]
    ]
    physics = {parameter.name: float(start["physics"][parameter.name]) for parameter in game.PARAMETERS}
    bullets = [{"x": 0, "y": 0, "dx": 0, "dy": 0, "life": 0} for _ in range(2 * game.BULLETS_PER_FIGHTER)]
    match = {"physics": physics, "fighters": fighters, "bullets": bullets, "tick": 0, "outcome": -1}
    return {"match": match, "actions": actions.tolist()}


REPLAY = """
<script>
const told = DATA.map(({ match, actions, observations }) => {
  const { simulator, policy } = play.source;
  const seen = [], rows = [];
  for (const pair of actions) {
    seen.push([0, 1].map((seat) => [...simulator.observe(match, seat)]));
    simulator.tick(match, pair);
    const flight = match.fighters.map((f) => [f.x, f.y, f.cos, f.sin, f.speed, Math.max(f.hp, 0), f.cooldown, f.stall]);
    rows.push([...flight.flat(), ...match.bullets.flatMap((b) => [b.x, b.y, b.life]), match.tick]);
  }
  return { rows, seen, output: observations.map((obs) => policy.output(Float32Array.from(obs))) };
});
const out = document.createElement("pre");
out.id = "selftest"; out.textContent = JSON.stringify(told); document.body.append(out);
</script>
"""
REGIMES = ["default", "tank_fight", "knife_fight", "full"]


@pytest.fixture(scope="module")
def both(released, page, tmp_path_factory):
    """Return per regime the kernel's match, and the page's result for the same start and actions."""
    matches = [played(released, regime, seed) for seed, regime in enumerate(REGIMES)]
    data = [as_data(*match[:2]) | {"observations": match[3][::7].reshape(-1, 59).tolist()} for match in matches]
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(page.replace("</body>", REPLAY.replace("DATA", json.dumps(data)) + "</body>"))
    return list(zip(matches, selftest(dom_of(file)), strict=True))


@needs_chromium
def test_page_simulator_matches_kernel_for_600_ticks(both):
    """Positions agree within 5 mm, speeds within 1 mm/s, headings within 1e-5, and counts exactly."""
    assert max(len(states) for (_, _, states, _), _ in both) == TICKS
    for (_, _, states, _), told in both:
        rows = np.array(told["rows"])
        assert rows.shape == states.shape
        off = np.abs(rows - states).max(axis=0)
        for name, index in COLUMN.items():
            field = name.removeprefix("bullet_").strip("_0123")
            tolerance = {"x": 5e-3, "y": 5e-3, "speed": 1e-3, "cos_yaw": 1e-5, "sin_yaw": 1e-5}.get(field, 0)
            if name.startswith("bullet") and field != "life":
                flying = states[:, COLUMN[name[:9] + "life"]] > 0
                assert np.abs(rows[flying, index] - states[flying, index]).max(initial=0) <= tolerance, name
            else:
                assert off[index] <= tolerance, name


def test_compared_matches_cover_all_rules(released):
    """Shots, hits, stalls and soft walls all occur."""
    found = set()
    for seed, regime in enumerate(REGIMES):
        states = played(released, regime, seed)[2]
        for seat in range(2):
            column = {name: states[:, COLUMN[f"{name}_{seat}"]] for name in ("x", "y", "hp", "cooldown", "stall")}
            found |= {"shot"} if (np.diff(column["cooldown"]) > 0).any() else set()
            found |= {"hit"} if (np.diff(column["hp"]) < 0).any() else set()
            found |= {"stall"} if (column["stall"] > 0).any() else set()
            high = column["y"] > game.HEIGHT - game.WALL_BAND
            found |= {"wall"} if (np.abs(column["x"]) > game.HALF_WIDTH - game.WALL_BAND).any() or high.any() else set()
    assert found == {"shot", "hit", "stall", "wall"}


@needs_chromium
def test_page_observations_match_kernel(both):
    for (_, _, _, seen), told in both:
        assert np.abs(np.array(told["seen"]) - seen).max() < 2e-5


@needs_chromium
def test_page_network_matches_torch(both, released):
    with torch.no_grad():
        for (_, _, _, seen), told in both:
            obs = torch.from_numpy(seen[::7].reshape(-1, 59))
            shown, side = released._mirror.show(obs)
            expected = released._mirror.back(released.network.actor(shown), side)
            assert np.abs(np.array(told["output"]) - expected.numpy()).max() < 1e-5


OUTPUT = """
<script>
const out = document.createElement("pre");
out.id = "selftest";
out.textContent = JSON.stringify(DATA.map((obs) => play.source.policy.output(Float32Array.from(obs))));
document.body.append(out);
</script>
"""


@needs_chromium
@pytest.mark.parametrize(("activation", "blocks", "obs_dim"), [("tanh", 0, 46), ("relu", 2, 59), ("tanh", 1, 59)])
def test_every_network_matches_torch(activation, blocks, obs_dim, released, tmp_path):
    """Both activations, residual blocks with norms, and policies without observed physics."""
    shape = NetworkConfig(hidden=24, blocks=blocks, activation=activation)
    network = ActorCritic(obs_dim, 2, 1, shape, seed=5)
    with torch.no_grad():
        for parameter in network.actor.parameters():  # no bias is zero and no scale one
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)) / 8)
    contract = released.contract | {"obs_dim": obs_dim, "observe_physics": obs_dim == 59, "mirror": False}
    policy = Policy(network, contract, name="mine")
    obs = torch.randn(20, 59, generator=torch.Generator().manual_seed(2))
    file = tmp_path / "page.html"
    driver = OUTPUT.replace("DATA", json.dumps(obs.tolist()))
    file.write_text(static_page(arrays(policy)).replace("</body>", driver + "</body>"))
    with torch.no_grad():
        expected = network.actor(obs[:, :obs_dim]).numpy()
    assert np.abs(expected).max() > 0.1
    assert np.abs(np.array(selftest(dom_of(file))) - expected).max() < 1e-5


# ---- the page in a browser


def test_page_is_self_contained(page):
    assert not re.search(r"https?://|//cdn|@import|\burl\(", page)
    assert "connect-src 'none'" in page
    assert len(page.encode()) < 200_000
    assert "{{" not in page


def test_tracked_page_matches_command_output(tmp_path, printed):
    """After changing its parts, run: python eval/play.py --static docs/fly.html."""
    assert "Wrote" in printed(play.main, ["--static", str(tmp_path / "page.html")])
    assert (tmp_path / "page.html").read_text() == (ROOT / "docs" / "fly.html").read_text()


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def opened(tab):
    tab.open(f"file://{ROOT / 'docs' / 'fly.html'}")
    tab.console.clear()
    return tab


YAW = "Math.atan2(play.state().last.fighters[0].sin, play.state().last.fighters[0].cos)"


@needs_chromium
def test_match_is_flown_by_keyboard(opened):
    assert opened.value("[play.state().paused, play.state().last.tick]") == [True, 0]
    opened.key(" ")
    opened.until("play.state().last.tick > 0")
    turns = []
    for key in ("ArrowLeft", "ArrowRight"):
        opened.key(key, "keyDown")
        turns.append(opened.value("play.state().action[0]"))
        opened.key(key, "keyUp")
    assert turns == [1, -1]
    opened.key("ArrowUp", "keyDown")
    opened.key(" ", "keyDown")
    assert opened.value("play.state().action") == [0, 1, 1]
    opened.until("play.state().last.fighters[0].cooldown > 0")
    opened.until("play.state().last.actions[1].some((value) => value !== 0)")
    opened.key("p")
    assert opened.value("play.state().paused")
    tick = opened.value("play.state().last.tick")
    assert opened.value("new Promise((done) => setTimeout(() => done(play.state().last.tick), 200))") == tick
    assert opened.value("document.querySelector('#board .seat1 .name').textContent") == "strong"
    for height in ("=== 600", "< 600"):  # the whole arena, and back to the fight
        opened.key("c")
        opened.until(f"play.state().view.height {height}")
    opened.key("r")
    assert opened.value("play.state().last.tick") == 0
    assert opened.console == []


@needs_chromium
def test_left_turn_is_counter_clockwise(opened):
    before = opened.value(YAW)
    opened.key("a", "keyDown")
    opened.mouse("#play")
    opened.until("play.state().last.tick > 20 && play.toggle() === undefined")
    opened.key("a", "keyUp")
    assert 0 < (opened.value(YAW) - before) % (2 * np.pi) < np.pi


@needs_chromium
def test_gamepad_flies(opened):
    pressed = "[{value: 1}, ...Array(6).fill({value: 0}), {value: 1}, {value: 0}, {value: START}]"
    pad = f"{{ connected: true, axes: [0.5, 0], buttons: {pressed} }}"
    for start in (0, 1):
        opened.value(f"(() => {{ navigator.getGamepads = () => [null, {pad.replace('START', str(start))}]; }})()")
    assert opened.value("play.state().action") == [-0.5, 1, 1]
    opened.until("!play.state().paused && play.state().last.tick > 0")
    opened.key("r")
    assert "Start begins" in opened.value("document.querySelector('#banner span').textContent")


@needs_chromium
def test_match_ends_and_restarts(opened):
    opened.choose("#regime", "glass_cannon")
    assert opened.value("play.state().match.maxHp") == 3
    opened.choose("#speed", "0.25")
    assert opened.value("play.state().speed") == 0.25
    opened.mouse("#stage")
    opened.until("play.state().last.tick > 0")
    opened.value("(() => { play.state().last.fighters[0].hp = 0; })()")
    opened.until("document.querySelector('#banner').classList.contains('shown')")
    assert "strong wins" in opened.value("document.querySelector('#banner').textContent")
    assert opened.value("document.querySelector('#play').textContent") == "Again"
    opened.mouse("#play")
    assert opened.value("[play.state().last.tick, play.state().last.outcome]") == [0, -1]


@needs_chromium
def test_policy_flies_both_aircraft_on_request(tab):
    tab.open(f"file://{ROOT / 'docs' / 'fly.html'}#watch")
    tab.until("play.state().last.tick > 30")
    assert tab.value("document.querySelector('#board .seat0 .name').textContent") == "strong 1"
    assert tab.value("play.state().last.actions[0]") != [0, 0.7, 0]
    tab.mouse("#watch")
    assert tab.value("document.querySelector('#board .seat0 .name').textContent") == "You"
    assert tab.value("play.state().paused")
    assert tab.console == []


@pytest.fixture
def phone(tab):
    """Open the page on a touch screen 400 pixels wide."""
    tab.call("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
    tab.open(f"file://{ROOT / 'docs' / 'fly.html'}", width=400, height=800, mobile=True)
    tab.console.clear()
    yield tab
    tab.call("Emulation.setTouchEmulationEnabled", enabled=False)


@needs_chromium
def test_page_fits_phone(phone):
    assert phone.value("document.documentElement.scrollWidth") <= 400
    assert phone.value("document.documentElement.scrollHeight") <= 800
    assert phone.value("document.querySelector('canvas').clientHeight") >= 400  # 228 in the shape of the arena
    width, height = phone.value("[...['clientWidth', 'clientHeight']].map((k) => document.querySelector('canvas')[k])")
    view, fighters = phone.value("play.state().view"), phone.value("play.state().last.seen")
    for fighter in fighters:
        assert abs(fighter["x"] - view["x"]) < width / height * view["height"] / 2
        assert abs(fighter["y"] - view["y"]) < view["height"] / 2


@needs_chromium
def test_two_thumbs_fly_on_phone(phone):
    """A tap starts; one thumb steers and sets the throttle while the other fires, each until released."""
    assert phone.value("document.querySelector('#banner span').textContent").startswith("Tap to begin")
    x, y = phone.value(f"({STILL})(document.querySelector('#stick'))")
    fire_x, fire_y = phone.value(f"({STILL})(document.querySelector('#trigger'))")
    thumbs = [{"x": x, "y": y, "id": 1}, {"x": fire_x, "y": fire_y, "id": 2}]
    phone.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=thumbs[:1])
    thumbs[0] |= {"x": x - 60, "y": y - 60}
    phone.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=thumbs[:1])
    assert phone.value("play.state().action") == [1, 1, 0]
    phone.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=thumbs)
    assert phone.value("play.state().action") == [1, 1, 1]
    thumbs[0] |= {"x": x + 22, "y": y + 60}
    phone.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=thumbs)
    phone.until("play.state().action.map((part) => Math.round(10 * part)).join() === '-5,0,10'")
    phone.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    assert phone.value("play.state().action") == [0, 0.7, 0]
    point = dict(zip("xy", phone.value(f"({STILL})(document.querySelector('#stage'))"), strict=True))
    phone.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[point])
    phone.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    phone.until("play.state().last.tick > 0")
    assert phone.console == []


# ---- errors


def test_challenge_policy_is_rejected(released):
    other = Policy(released.network, released.contract | {"rules": "challenge", "mirror": False}, name="mine")
    with pytest.raises(InputError, match="mine: plays challenge rules"):
        static_page(arrays(other))


@pytest.mark.parametrize("name", ["dogfight_strnog", "X", "search:seconds=1"])
def test_unknown_page_opponent_lists_policies_only(name):
    with pytest.raises(InputError, match="released/dogfight_strong_dr") as refused:
        page_of(name)
    assert "brawler" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ace", "ace: a page needs a network, and a bot does not have one"),
        ("bot:ace", "ace: a page needs a network, and a bot does not have one"),
        ("released/air_combat_f16", "was trained in sparring/AirCombat-v1; this command accepts only sparring/Dog"),
    ],
)
def test_bot_and_policy_of_other_game_are_rejected_for_page(name, words):
    with pytest.raises(InputError, match=words):
        page_of(name)
