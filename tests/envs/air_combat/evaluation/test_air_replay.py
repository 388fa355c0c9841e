"""The three-dimensional air combat replay: recorder, encoding, events, and the page in a browser."""

import base64
import json
import re

import numpy as np
import pytest
import torch

from sparring.configs.core.errors import InputError
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.evaluation.command import EVALUATION, AirCombatOptions
from sparring.envs.air_combat.evaluation.replay import air_page, encode, write_air_replay
from sparring.envs.air_combat.kernels.state import Plane
from sparring.envs.air_combat.recording import AirRecorder, AirRecording, Burst, Release
from sparring.eval.options import parse
from tests.eval.browser.browser import dom_of, needs_chromium, selftest

HOSTILE = '</script><script>document.title="owned"</script>{{data}}&amp;<!--'


def level_flight(steps=31):
    """Return two aircraft flying north at 200 and 100 m/s, 4,000 and 3,000 m high; the first is hit at the end."""
    ticks = np.arange(steps) * 4
    planes = np.zeros((steps, 2), dtype=Plane.numpy_dtype())
    planes["nose"][..., 0], planes["up"][..., 2], planes["hp"], planes["rounds"], planes["load"] = 1, -1, 1, 510, 1
    for seat, (speed, height) in enumerate(((200.0, 4000.0), (100.0, 3000.0))):
        planes["vel"][:, seat, 0] = speed
        planes["pos"][:, seat] = np.stack(
            [ticks / 60 * speed, np.full(steps, 500.0 * seat), np.full(steps, -height)], 1
        )
    planes["rounds"][10:, 1], planes["rounds"][12:, 1] = 505, 500
    planes["hp"][-2, 0], planes["hp"][-1, 0] = 0.4, 0.0
    return ticks, planes


def recording(names=("a", "b"), **more):
    ticks, planes = level_flight()
    burst = Burst(1, 40, 88, (0.0, 500.0, -3000.0), (1130.0, 0.0, 0.0), True)
    return AirRecording(names, "f16", "rounds", ticks, planes, (burst,), 2, **more)


def armed(**more):
    """Return the same with a missile that follows the first's flare, and one that kills it."""
    ticks = np.arange(40, 100, 4)
    path = np.zeros((len(ticks), 6))
    path[:, 0], path[:, 1:3], path[:, 3] = ticks / 60 * 300, (500.0, -3000.0), 300.0
    targets = np.where(ticks < 60, 0, 2 + 9)
    missile = Release("missile", 1, 2, ticks, path, targets)
    flare = Release("flare", 0, 0, ticks[5:], path[5:], np.full(len(ticks) - 5, -1))
    killer = Release("missile", 1, 3, np.append(ticks[6:], 119), path[5:], np.zeros(len(ticks) - 5, dtype=int), hit=0)
    return recording(releases=(missile, flare, killer), carried=(2, 8), **more)


def decoded(text, kind):
    return np.frombuffer(base64.b64decode(text), dtype=kind)


def test_vectors_are_east_up_and_south():
    told = encode(recording())
    places = decoded(told["places"], "<f4").reshape(31, 2, 3)
    np.testing.assert_allclose(places[15, 0], [0.0, 4000.0, -200.0])
    np.testing.assert_allclose(places[15, 1], [500.0, 3000.0, -100.0])
    states = decoded(told["states"], "<i2").reshape(31, 2, 15)
    assert states[0, 0, :9].tolist() == [0, 0, -4000, 0, 0, -32767, 0, 32767, 0]
    assert states[0, 0, 9:].tolist() == [100, 0, 0, 0, 32767, 510]
    assert told["bursts"] == [[1, 40, 88, 1, 500.0, 3000.0, 0.0, 0.0, 0.0, -1130.0]]


def test_events_match_recorded_match():
    kinds = [(e["kind"], e["seat"], e["tick"]) for e in encode(recording())["events"]]
    assert kinds == [("fire", 1, 36), ("hit", 0, 112), ("down", 0, 120)]
    fire, hit, down = encode(recording())["events"]
    assert (fire["rounds"], fire["end"], hit["lost"], hit["hp"], down["cause"]) == (10, 48, 1.0, 0.0, "gun")


def test_missiles_and_flares_are_events():
    told = encode(armed())
    kinds = [(e["kind"], e["seat"], e["tick"]) for e in told["events"]]
    assert kinds == [
        *(("fire", 1, 36), ("launch", 1, 40), ("flares", 0, 60), ("decoy", 1, 60), ("launch", 1, 64)),
        *(("hit", 0, 112), ("hit", 0, 119), ("down", 0, 120)),
    ]
    struck, down = told["events"][-2:]
    assert (struck["by"], struck["lost"], struck["hp"], down["cause"]) == ("missile", 0.4, 0.0, "missile")
    assert told["carried"] == [2, 8]
    first = told["releases"][0]
    assert (first["kind"], first["seat"], first["hit"], len(first["ticks"])) == ("missile", 1, -1, 15)
    places = decoded(first["places"], "<f4").reshape(-1, 3)
    np.testing.assert_allclose(places[3], [500.0, 3000.0, -52 / 60 * 300], rtol=1e-6)
    assert len(encode(armed(), step=4)["releases"][0]["ticks"]) == 5


def test_ground_impact_is_separate_cause_and_not_hit():
    ticks, planes = level_flight()
    planes["hp"][-2:, 0], planes["pos"][-1, 0, 2], planes["hp"][-1, 0] = 1.0, -3.0, 0.0
    events = encode(AirRecording(("a", "b"), "f16", "rounds", ticks, planes, (), 2))["events"]
    assert [e["kind"] for e in events] == ["fire", "down"]
    assert events[-1]["cause"] == "ground"


def test_kill_near_ground_is_not_ground_loss():
    """Near the ground with another aircraft behind: the gun counts if it fires; a pushed nose is the ground."""
    batch = AirCombatBatch(1, threads=1, seed=1, max_ticks=600)
    planes = batch.snapshot()["planes"]
    planes["pos"], planes["vel"], planes["nose"], planes["up"] = 0.0, (250.0, 0, 0), (1.0, 0, 0), (0, 0, -1.0)
    planes["pos"][..., 2], planes["pos"][0, 1, 0], planes["hp"][0, 1] = -55.0, 400.0, 0.05
    for pilot, push, cause in (("deck", 0.0, "gun"), ("straight", -1.0, "ground")):
        batch.assign(torch.tensor([[rules.bot_id(pilot), rules.ACTIONS]]), torch.ones(1, dtype=torch.bool))
        batch.load({"planes": planes})
        recorder = AirRecorder(batch)
        while not recorder.done:
            batch.step(torch.tensor([[[0.0] * 4, [push, 0.0, 0.0, -1.0]]]))
            recorder(batch)
        (recording,) = recorder.recordings(("a", "b"))
        down = [e for e in encode(recording)["events"] if e["kind"] == "down"]
        assert [(e["seat"], e["cause"]) for e in down] == [(1, cause)]


def test_pass_is_closest_approach():
    ticks, planes = level_flight()
    planes["pos"][..., 2] = -3000.0
    planes["pos"][:, 1, 0] = 200.0 - ticks / 60 * 100
    planes["pos"][:, 1, 1] = 120.0
    (event,) = [
        e for e in encode(AirRecording(("a", "b"), "f16", "rounds", ticks, planes, (), 2))["events"] if e["seat"] < 0
    ]
    assert (event["kind"], event["tick"], event["distance"]) == ("pass", 40, 120)


@pytest.fixture(scope="module")
def flown():
    """Return a recorded match of the chaser against do_nothing, and the batch's results."""
    batch = AirCombatBatch(1, model="point_mass", gun="rounds", threads=1, max_ticks=300, seed=4)
    batch.assign(torch.tensor([[rules.bot_id("chaser"), rules.bot_id("do_nothing")]]))
    state = batch.snapshot()["planes"].copy()
    state["pos"][0, 1] = state["pos"][0, 0] + 400.0 * state["nose"][0, 0]
    state["vel"][0, 1], state["nose"][0, 1] = state["vel"][0, 0], state["nose"][0, 0]
    batch.load({"planes": state})
    recorder, passed = AirRecorder(batch), []
    while not recorder.done:
        batch.step(batch.actions)
        passed.append(int(batch.outcome[0]))
        recorder(batch)
    length, hp = int(batch.length[0]), batch.final_hp[0].numpy().copy()
    batch.close()
    return recorder.recordings(("chaser", "do_nothing"))[0], length, hp, len(passed)


def test_recorder_keeps_whole_match(flown):
    recorded, length, hp, steps = flown
    assert recorded.ticks[0] == 0
    assert recorded.ticks[-1] == length
    assert len(recorded.ticks) == steps + 1
    np.testing.assert_array_equal(recorded.planes["hp"][-1], hp)
    seconds = np.diff(recorded.ticks) / 60
    moved = np.linalg.norm(np.diff(recorded.planes["pos"].astype(float), axis=0), axis=-1) / seconds[:, None]
    np.testing.assert_allclose(moved, np.linalg.norm(recorded.planes["vel"][:-1], axis=-1), rtol=0.01)


def test_burst_count_matches_rounds_used(flown):
    recorded = flown[0]
    spent = recorded.planes["rounds"][0] - recorded.planes["rounds"][-2]
    assert len(recorded.bursts) == spent.sum() // rules.BURST > 0
    assert all(burst.last - burst.first <= rules.ROUND_TICKS for burst in recorded.bursts)
    assert sum(burst.early for burst in recorded.bursts) >= round((1 - recorded.planes["hp"][-1, 1]) / rules.HIT_DAMAGE)


def test_page_text_is_never_markup():
    text = air_page(HOSTILE, [encode(recording((HOSTILE, "b"), title=HOSTILE, notes=HOSTILE))])
    assert text.count("</script>") == 3  # the data, three.js and the page's own
    assert 'owned"' not in re.sub(r'<script type="application/json".*?</script>', "", text, flags=re.DOTALL)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1]
    assert json.loads(data)["games"][0]["names"] == [HOSTILE, "b"]


def test_page_loads_nothing():
    text = air_page("t", [encode(recording())])
    assert "default-src 'none'" in text
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:)""", text)
    assert "MIT License" in text
    assert "three.js authors" in text


def test_wrong_recordings_are_rejected(tmp_path, flown):
    with pytest.raises(ValueError, match="at least one match"):
        write_air_replay(tmp_path / "r.html", [])
    batch = AirCombatBatch(1, threads=1)
    with pytest.raises(ValueError, match=r"games=2: must be in \[1, 1\]"):
        AirRecorder(batch, games=2)
    recorder = AirRecorder(batch)
    with pytest.raises(ValueError, match="has not ended"):
        recorder.recordings(("a", "b"))
    batch.close()


@needs_chromium
def test_page_in_browser(tmp_path):
    """The state between samples matches the flight, and hostile names stay text."""
    file = tmp_path / "page.html"
    write_air_replay(file, [armed(names=(HOSTILE, "b"), title="first"), recording(title=HOSTILE)])
    dom = dom_of(file, "game=1&t=1.05&view=2&selftest")
    told = selftest(dom)
    assert told["names"] == [HOSTILE, "b"]
    assert (told["games"], told["tick"], told["last"], told["playing"]) == (2, 63, 120, False)
    first = told["planes"][0]
    np.testing.assert_allclose(first["pos"], [0, 4000, -210], atol=0.01)
    np.testing.assert_allclose(first["vel"], [0, 0, -200], atol=0.05)
    assert told["told"].startswith("1.0 s · the missile of b turns to a flare")
    assert told["bursts"] == 1
    missile, flare = told["releases"]
    np.testing.assert_allclose(missile["pos"], [500, 3000, -315], atol=0.01)
    assert (missile["kind"], missile["seat"], flare["kind"], flare["flying"]) == ("missile", 1, "flare", True)
    assert [(store["missiles"], store["flares"]) for store in told["stores"]] == [(2, 7), (1, 8)]
    assert re.search(r"<b[^>]*>b wins</b><span>the other is down · 0 % : 100 % hp · 0:02.0</span>", dom)


def test_evaluation_writes_first_games(tmp_path):
    page = tmp_path / "match.html"
    words = ["--ckpt", "bot:dogfighter", "--opponents", "chaser", "--games", "2", "--replay", str(page)]
    flight = tmp_path / "match.acmi"
    evaluation = EVALUATION.evaluate(
        parse(AirCombatOptions, [*words, "--acmi", str(flight), "--threads", "1", "--quiet"])
    )
    evaluation.outputs[page](page)
    evaluation.outputs[flight](flight)
    assert flight.read_text().startswith("FileType=text/acmi/tacview\nFileVersion=2.2\n")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)[1]
    games = json.loads(data)["games"]
    assert [game["names"] for game in games] == [["dogfighter", "chaser"]]
    assert all(game["ticks"][:2] == [4, 8] for game in games)
    with pytest.raises(InputError, match="a page for a browser"):
        parse(AirCombatOptions, [*words[:-1], "match.png"])
    with pytest.raises(InputError, match=r"--acmi 'match.txt': is a Tacview file; give a name that ends in .acmi"):
        parse(AirCombatOptions, [*words, "--acmi", "match.txt"])
