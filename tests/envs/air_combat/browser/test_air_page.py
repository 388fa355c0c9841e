"""Air combat in the browser: a match tick by tick, its messages, and the page."""

import asyncio
import threading
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import uvicorn

from sparring.agents.policies.networks import build_network, shape_for
from sparring.agents.policies.policy import Policy
from sparring.configs.core.errors import InputError
from sparring.configs.schema import NetworkConfig
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.browser import command
from sparring.envs.air_combat.browser.command import AirPlayOptions, load_opponent
from sparring.envs.air_combat.browser.session import AUTOPILOTS, AirSession, AirStage, LiveFlight, weapons_of
from sparring.envs.air_combat.evaluation.replay import plane_row
from sparring.envs.air_combat.training.opponents import open_player
from sparring.eval import play
from sparring.eval.browser.server import Gate, answer, listen, make_app
from sparring.eval.options import parse_known
from tests.eval.browser.browser import STILL, browser, needs_chromium

PAD = """{connected: true, axes: [1, 0, 0, 0],
    buttons: Array.from({length: 17}, (_, i) => ({value: i === 0 || i === 7 ? 1 : 0}))}"""
"""A gamepad with the left stick to the right, the right trigger and A."""


@dataclass
class Told:
    """Messages of a connection."""

    messages: list

    async def send(self, message):
        self.messages.append(message)


def stage(folder, opponents=("straight", "chaser")):
    return AirStage(opponents, 3, folder, load_opponent, "point_mass")


def test_match_follows_batch():
    """The person's action counts in every tick, and the reported state is the batch's."""
    flight = LiveFlight(open_player("chaser"), model="point_mass", gun="rounds", seed=3)
    batch = AirCombatBatch(1, model="point_mass", gun="rounds", action_repeat=1, threads=1, seed=3)
    batch.assign(torch.tensor([[rules.ACTIONS, rules.bot_id("chaser")]]))
    for tick in range(40):
        action = [0.5, 0.2 if tick < 20 else -0.4, 1.0, 1.0]
        batch.step(torch.tensor([[action, [0.0] * 4]]))
        frame = flight.tick(action)
    state = batch.snapshot()
    assert (frame.tick, frame.outcome) == (40, -1)
    assert frame.planes == [plane_row(plane) for plane in state["planes"][0]]
    assert [burst[0] for burst in frame.bursts] == [0] * 14  # a burst in every third tick, from the first
    assert frame.actions == (pytest.approx(action), None)
    flight.close()
    batch.close()


def test_match_ends_and_becomes_recording():
    """The stick is pushed forward 200 m above the ground, which ends the match."""
    flight = LiveFlight(open_player("straight"), model="point_mass", seed=3)
    state = flight._batch.snapshot()["planes"]
    state["pos"][0, 0, 2] = -200.0
    flight._batch.load({"planes": state})
    while not flight.over:
        flight.tick([-1.0, 0.0, 1.0, 0.0])
    recorded = flight.recording()
    assert flight.frame.outcome == 2
    assert flight.frame.tick == recorded.ticks[-1] == flight.tick([0.0] * 4).tick
    assert recorded.names == ("You", "straight")
    assert flight.frame.planes[0][16] == recorded.planes["hp"][-1, 0] == 0.0
    assert np.diff(recorded.ticks).max() == rules.ACTION_REPEAT
    flight.close()


def test_autopilot_flies_persons_aircraft():
    flight = LiveFlight(open_player("straight"), model="point_mass", seed=3)
    flight.order("turn")
    for _ in range(120):
        flight.tick([-1.0, 0.0, 1.0, 1.0])
    load, actions = flight.frame.planes[0][12], flight.frame.actions
    assert 2.0 < load < 3.2
    assert actions[0] is None
    flight.order("by hand")
    assert flight.tick([-1.0, 0.0, 1.0, 1.0]).actions[0] == [-1.0, 0.0, 1.0, 1.0]
    flight.close()


def test_policy_decides_at_training_rate(monkeypatch):
    calls = []

    def policy(obs):
        calls.append(obs.shape)
        return torch.zeros(len(obs), 4)

    flight = LiveFlight(open_player(policy), model="point_mass", seed=3)
    for _ in range(9):
        flight.tick([0.0] * 4)
    assert len(calls) == 3
    flight.close()


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("{", "not understood"),
        ('{"kind": "eject"}', "kind"),
        ('{"kind": "hold", "action": [0, 0, 0]}', "action"),
        ('{"kind": "hold"}', "message.action is missing"),
        ('{"kind": "hold", "action": [0, 0, 0, NaN]}', "action"),
        ('{"kind": "begin", "opponent": "nobody"}', "choose from straight, chaser"),
        ('{"kind": "begin", "model": "glider"}', "choose from point_mass, f16"),
        ('{"kind": "begin", "weapons": "bombs"}', "choose from guns, missiles"),
        ('{"kind": "hold", "action": [0, 0, 0, 0, 0, 0, 0]}', "action"),
        ('{"kind": "order", "autopilot": "loop"}', "by hand"),
        ('{"kind": "save"}', "after the end"),
        ('{"kind": "pace", "speed": 9}', "speed"),
    ],
)
def test_wrong_message_is_answered_with_note(message, words, tmp_path):
    told = Told([])
    asyncio.run(answer(AirSession(stage(tmp_path), told.send), message, told.send))
    (note,) = told.messages
    assert note["kind"] == "note"
    assert words in note["text"]


def test_match_starts_on_order(tmp_path):
    told = Told([])

    async def use():
        session = AirSession(stage(tmp_path), told.send)
        await session.receive({"kind": "order", "autopilot": "level"})
        await session.receive({"kind": "begin", "opponent": "chaser", "model": "f16"})
        session.close()

    asyncio.run(use())
    kinds = [message["kind"] for message in told.messages]
    assert kinds == ["note", "match", "frame", "note"]
    match, frame = told.messages[1:3]
    assert (match["names"], match["model"], match["gun"]) == (["You", "chaser"], "f16", "rounds")
    assert frame["actions"] == (None, None)
    assert set(AUTOPILOTS.values()) - {""} <= set(rules.BOTS)


def test_command_recognizes_game(capsys):
    assert parse_known(play.PlayChoice, ["--env", "air_combat"]).game.options is AirPlayOptions
    assert play.main(["--env", "air_combat", "--opponent", "nobody"]) == 2
    assert "nobody" in capsys.readouterr().err
    with pytest.raises(InputError, match="model"):
        play.parse(AirPlayOptions, ["--env", "air_combat", "--model", "glider"])


ARMED = rules.CombatOptions(missiles=2, flares=6)
"""Of the tests with missiles."""


def behind(flight, distance=1500.0, *, chased=False):
    """Place the opponent ahead of the person, both level to the north at 220 m/s; `chased`: behind."""
    planes = flight._batch.snapshot()["planes"]
    for seat, north in enumerate((0.0, -distance if chased else distance)):
        plane = planes[0, seat]
        plane["pos"], plane["vel"] = (north, 0.0, -5000.0), (220.0, 0.0, 0.0)
        plane["nose"], plane["up"], plane["attitude"] = (1.0, 0.0, 0.0), (0.0, 0.0, -1.0), (0.0, 0.0, 0.0, 1.0)
        plane["power"] = 100.0
    flight._batch.load({"planes": planes})
    return flight


def test_person_launches_locked_missile_and_drops_flares():
    flight = behind(LiveFlight(open_player("straight"), model="point_mass", seed=3, options=ARMED))
    quiet = flight.tick([0.0, 0.0, 0.0, 0.0])
    assert (quiet.stores, quiet.releases) == ([[2, 6], [2, 6]], [])
    assert quiet.warning == {"lock": True, "homing": False, "missile": None, "radar": None}
    for _ in range(30):
        frame = flight.tick([0.0, 0.0, 0.0, 0.0, 1.0, 1.0])
    assert frame.stores[0] == [1, 4]  # a missile a second, a flare in 0.4 s
    assert frame.warning["homing"]
    kinds = [(int(row[0]), int(row[3])) for row in frame.releases]
    assert kinds == [(0, 0), (1, 0), (1, 0)]
    missile, *flares = frame.releases
    flare, later = sorted(flares, key=lambda row: row[2])
    assert later[2] - flare[2] == 24
    assert missile[5:8] == pytest.approx([0.0, 5000.0, missile[7]], abs=30.0)  # east, up, south
    assert flare[4] == pytest.approx(3.5 - 29 / 60, abs=0.05)
    for _ in range(600):
        frame = flight.tick([0.0] * 4)
        if frame.outcome >= 0:
            break
    assert frame.outcome == 1
    (recorded,) = [flight.recording()]
    assert sorted(one.kind for one in recorded.releases) == ["flare", "flare", "missile"]
    flight.close()


def test_person_is_warned_of_missile_and_radar():
    flight = behind(LiveFlight(open_player("chaser"), model="point_mass", seed=3, options=ARMED), chased=True)
    assert flight.tick([0.0] * 4).warning["radar"] == pytest.approx([-1.0, 0.0, 0.0], abs=0.05)
    for _ in range(60):
        frame = flight.tick([0.0] * 4)
    *direction, distance = frame.warning["missile"]
    assert direction == pytest.approx([-1.0, 0.0, 0.0], abs=0.1)
    assert 300 < distance < 1500
    assert not frame.warning["lock"]
    flight.close()


def policy_of(**beyond):
    """Return an untrained policy with these options."""
    batch = AirCombatBatch(1, threads=1, options=rules.CombatOptions(**beyond))
    contract = batch.contract
    batch.close()
    network = build_network(shape_for(contract, NetworkConfig(hidden=8, blocks=0)))
    return open_player(Policy(network, contract, name="pupil"))


def test_policy_meets_person_with_its_own_weapons():
    own = {"missiles": 1, "flares": 3, "radar": True}
    options = weapons_of(policy_of(**own), "missiles", ARMED)
    assert options == rules.CombatOptions(**own)
    flight = LiveFlight(policy_of(**own), model="point_mass", seed=3, options=options)
    assert flight.frame.stores == [[1, 3], [1, 3]]
    flight.close()
    assert weapons_of(policy_of(), "guns", rules.PLAIN) == rules.PLAIN
    assert weapons_of(open_player("ace"), "missiles", ARMED) == ARMED


@pytest.mark.parametrize(
    ("beyond", "weapons", "message"),
    [
        ({}, "missiles", "weapons=missiles: pupil was trained with the gun alone; choose guns, without --mi"),
        ({"missiles": 1}, "guns", "weapons=guns: pupil was trained with missiles=1, flares=0; choose missiles"),
        ({"team_size": 2}, "guns", "pupil: was trained with team_size=2, but a person flies alone with a stick"),
        ({"action_form": "manoeuvres"}, "guns", "pupil: was trained with action_form=manoeuvres, but a person"),
    ],
)
def test_policy_with_other_weapons_is_rejected(beyond, weapons, message):
    with pytest.raises(InputError, match=message):
        weapons_of(policy_of(**beyond), weapons, ARMED if weapons == "missiles" else rules.PLAIN)


@contextmanager
def served(hosted):
    """Serve from a thread, and yield the address."""
    with listen(0) as listening:
        gate = Gate(listening.getsockname()[1])
        server = uvicorn.Server(uvicorn.Config(make_app(hosted, gate), log_level="warning", ws="websockets-sansio"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield gate.address
        finally:
            server.should_exit = True
            thread.join(timeout=30)


@needs_chromium
def test_page_flies_match(tmp_path):
    """Space starts; keys, a gamepad and touch fly; an order turns; the page rejects and raises nothing."""
    with served(stage(tmp_path)) as address, browser(tmp_path / "profile") as page:
        page.call("Emulation.setTouchEmulationEnabled", enabled=True)
        page.open(address, width=400, height=860, mobile=True)
        page.until("fly.state().last !== null")
        page.until("document.querySelector('#banner span').textContent.includes('Stick below')")
        page.key(" ")
        page.until("fly.state().last.tick > 10")
        page.key("ArrowDown", "keyDown")
        page.until("fly.state().last.planes[0].load > 3")
        page.key("ArrowDown", "keyUp")
        page.value(f"navigator.getGamepads = () => [{PAD}], 1")
        page.until("fly.state().last.actions[0].toString() === '0,1,1,1'")
        page.value("navigator.getGamepads = () => [], 1")
        page.until("fly.state().last.actions[0][1] === 0")
        x, y = page.value(f"({STILL})(document.querySelector('#stick'))")
        page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y + 60}])
        page.until("fly.state().last.actions[0][0] === 1")
        page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        page.until("fly.state().last.actions[0][0] === 0")
        print(page.value("document.querySelector('.clock small').textContent"))
        page.key("2")
        page.until("fly.state().last.actions[0] === null")
        page.key("p")
        page.until("fly.state().paused && document.querySelector('#banner b').textContent === 'Paused'")
        assert page.value("document.querySelector('#autopilot').value") == "turn"
        assert not [line for line in page.console if "GPU stall" not in line and "WebGL" not in line]


@needs_chromium
def test_page_launches_drops_flares_and_shows_warning(tmp_path, monkeypatch):
    """By key and touch, behind a straight-flying opponent; board and warning match the match."""
    start = AirStage.start
    monkeypatch.setattr(AirStage, "start", lambda *given: (behind(start(*given)[0]), *start(*given)[1:]))
    hosted = AirStage(("straight",), 3, tmp_path, load_opponent, "point_mass", "", "missiles", ARMED)
    with served(hosted) as address, browser(tmp_path / "profile") as page:
        page.call("Emulation.setTouchEmulationEnabled", enabled=True)
        page.open(address, width=400, height=860, mobile=True)
        page.until("fly.state().last !== null")
        assert page.value("document.body.className") == "armed"
        numbers = "document.querySelector('[data-seat=\"0\"] .numbers').textContent"
        page.until(f"{numbers}.includes('2 missiles · 6 flares')")  # drawn after the message is read
        page.key(" ")
        page.until("fly.state().last.warning.lock")
        page.key("f", "keyDown")
        page.until("fly.state().last.stores[0][1] < 6")
        page.key("f", "keyUp")
        x, y = page.value(f"({STILL})(document.querySelector('#launch'))")
        page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        page.until("fly.state().last.stores[0][0] === 1 && fly.state().last.warning.homing")
        page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        page.until(f"{numbers}.includes('1 missile ·')")
        page.until("fly.state().last.outcome === 1")
        assert "the other is down" in page.value("document.querySelector('#banner span').textContent")
        page.choose("#weapons", "guns")
        page.until("fly.state().last && fly.state().last.stores.length === 0 && document.body.className === ''")
        assert not [line for line in page.console if "GPU stall" not in line and "WebGL" not in line]


@pytest.mark.parametrize(
    ("words", "matches", "limit"),
    [
        (["--opponent", "released/air_combat_quickstart"], ("point_mass", ""), 100.0),
        (["--opponent", "released/air_combat_f16", "--ground-limit", "0"], ("f16", "cone"), 0.0),
        (["--opponent", "released/air_combat_f16", "--model", "point_mass"], ("point_mass", ""), 100.0),
        (["--opponent", "ace"], ("f16", ""), 0.0),
    ],
)
def test_opponent_flies_its_training_conditions(words, matches, limit):
    stage = command._stage(play.parse(AirPlayOptions, ["--env", "air_combat", "--quiet", *words]))
    assert (stage.model, stage.gun) == matches
    match, about, _ = stage.start(load_opponent(stage.opponents[0]), stage.model, 3)
    assert match._batch._settings.ground_limit == about["limit"] == limit
    match.close()
