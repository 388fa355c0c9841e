"""Match recordings and the replay page, also in a real browser."""

import base64
import json
import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from sparring.envs.dogfight import render
from sparring.envs.dogfight import rules as game
from sparring.envs.dogfight.animation import HOLD_MS, write_gif
from sparring.envs.dogfight.camera import FightCamera
from sparring.envs.dogfight.evaluation.replay import SAMPLE_TICKS, encode, page, write_replay
from sparring.envs.dogfight.frame import turn_rate
from sparring.envs.dogfight.recording import Recorder, Recording, short_names
from sparring.envs.dogfight.rules import TRACE_FIELDS
from sparring.envs.dogfight.training.matches import MatchSettings, play
from tests.eval.browser.browser import (
    BROWSER_REQUIRED,
    CHROMIUM,
    browse,
    dom_of,
    may_skip,
    needs_chromium,
    selftest,
)

ROOT = Path(__file__).resolve().parents[4]
COLUMN = {name: index for index, name in enumerate(TRACE_FIELDS)}
HOSTILE = "</script><script>document.title='broken'</script><!--<b>&\"'{{data}}\u2028"


def rows_of(ticks):
    """Return an uneventful match: both fly level at 60 m/s toward each other with 5 hp."""
    rows = np.zeros((ticks, len(TRACE_FIELDS)), dtype=np.float32)
    time = np.arange(1, ticks + 1)
    rows[:, COLUMN["tick"]] = time
    for seat, sign in ((0, 1), (1, -1)):
        rows[:, COLUMN[f"x_{seat}"]] = sign * (time * 0.5 - 400)
        rows[:, COLUMN[f"y_{seat}"]] = 300 + 10 * seat
        rows[:, COLUMN[f"cos_yaw_{seat}"]] = sign
        rows[:, COLUMN[f"speed_{seat}"]] = 60
        rows[:, COLUMN[f"hp_{seat}"]] = 5
    return rows


def recording_of(rows, **changes):
    made = Recording("left vs right", "left", "right", "classic", "default", 5, rows, 0)
    return replace(made, **changes)


def duel():
    """200 ticks: seat 0 fires at 31, hits at 61, stalls 101 to 136; seat 1 glances at 81; 0 dies at 200."""
    rows = rows_of(200)
    rows[30:120, COLUMN["cooldown_0"]] = np.arange(90, 0, -1)
    for offset, row in enumerate(range(30, 60)):
        rows[row, [COLUMN["bullet_0_x"], COLUMN["bullet_0_y"]]] = -370 + 4 * offset, 300
        rows[row, COLUMN["bullet_0_life"]] = 59 - offset
    rows[60:, COLUMN["hp_1"]] = 4
    rows[70:80, COLUMN["bullet_2_life"]] = np.arange(50, 40, -1)
    rows[100:136, COLUMN["stall_0"]] = np.arange(36, 0, -1)
    rows[199, COLUMN["hp_0"]] = 0
    angles = 0.01 * np.maximum(np.arange(200) - 10, 0)
    rows[:, COLUMN["cos_yaw_0"]], rows[:, COLUMN["sin_yaw_0"]] = np.cos(angles), np.sin(angles)
    return recording_of(rows, outcome=2)


@pytest.fixture(scope="module")
def recorded():
    """Return two matches of ace against brawler, truncated at 15 s, and their results as `play` counts them."""
    recorder = Recorder(2)
    setting = MatchSettings(trace=2, threads=1, max_ticks=1800)
    results = play("ace", "brawler", games=4, seed=5, setting=setting, recorder=recorder)
    return recorder.recordings(left="ace", right="brawler", title="ace vs brawler"), results


# ---- recording


def test_recording_holds_every_tick_of_first_match(recorded):
    recordings, results = recorded
    assert [len(recording.rows) for recording in recordings] == results.length[:2].tolist()
    for recording, outcome, left_hp in zip(recordings, results.outcome, results.left_hp, strict=False):
        assert (recording.rows[:, COLUMN["tick"]] == np.arange(1, len(recording.rows) + 1)).all()
        assert {1: 1, 0: 0, 2: -1}[recording.outcome] == outcome
        assert recording.rows[-1, COLUMN["hp_0"]] == left_hp
        assert recording.max_hp == 5


def test_names_follow_swapped_seats():
    recorder = Recorder(4)
    play(
        "do_nothing", "ace", games=4, seed=1, setting=MatchSettings(trace=4, threads=1, max_ticks=20), recorder=recorder
    )
    seats = [(r.left, r.right) for r in recorder.recordings(left="do_nothing", right="ace")]
    assert seats == [("do_nothing", "ace")] * 2 + [("ace", "do_nothing")] * 2


def test_max_hp_is_that_of_match():
    ranges = np.stack([np.array([80, 0.9, 0.25, 250, 20, 180, 400, 90, 60, 8, 4, 0.8, 0.785])] * 2, axis=1)
    recorder = Recorder(1)
    setting = MatchSettings(trace=1, threads=1, max_ticks=20, ranges=ranges)
    play("ace", "ace", games=2, seed=1, setting=setting, recorder=recorder)
    assert recorder.recordings(left="ace", right="ace")[0].max_hp == 8


def test_recorder_reports_missing_parts():
    with pytest.raises(ValueError, match="games=0"):
        Recorder(0)
    batch = SimpleNamespace(trace=torch.zeros(1, 10, len(TRACE_FIELDS)), outcome=torch.full((2,), -1), num_envs=2)
    with pytest.raises(ValueError, match=r"trace=1.*needs trace=2"):
        Recorder(2)(batch, 0)
    with pytest.raises(ValueError, match="match 0 has not ended"):
        Recorder(1).recordings(left="a", right="b")


# ---- encoding


def test_events_have_exact_ticks():
    events = [{key: event[key] for key in event} for event in encode(duel())["events"]]
    assert events == [
        {"tick": 31, "kind": "shot", "seat": 0},
        {"tick": 61, "kind": "hit", "seat": 1, "hp": 4},
        {"tick": 81, "kind": "glance", "seat": 0},
        {"tick": 101, "kind": "stall", "seat": 0, "end": 137},
        {"tick": 200, "kind": "death", "seat": 0, "hp": 0},
    ]


def test_samples_are_accurate_to_decimetre(recorded):
    for recording in recorded[0]:
        rows = recording.rows
        samples = np.frombuffer(base64.b64decode(encode(recording)["samples"]), dtype="<i2").reshape(-1, 2, 4)
        kept = [*range(0, len(rows), SAMPLE_TICKS)]
        kept += [len(rows) - 1] if kept[-1] != len(rows) - 1 else []
        assert len(samples) == len(kept)
        for seat in range(2):
            for place, (name, tolerance) in enumerate({"x": 0.051, "y": 0.051, "": 0, "speed": 0.051}.items()):
                if name:
                    error = samples[:, seat, place] / 10 - rows[kept, COLUMN[f"{name}_{seat}"]]
                    assert np.abs(error).max() <= tolerance
            yaw = samples[:, seat, 2] * np.pi / 32768
            assert np.abs(np.cos(yaw) - rows[kept, COLUMN[f"cos_yaw_{seat}"]]).max() < 1e-3
            assert np.abs(np.sin(yaw) - rows[kept, COLUMN[f"sin_yaw_{seat}"]]).max() < 1e-3


@pytest.mark.parametrize("rules", ["classic", "challenge"])
def test_bullets_follow_trace(rules):
    recorder = Recorder(3)
    setting = MatchSettings(trace=3, threads=1, max_ticks=2400, rules=rules)
    play("ace", "dogfighter", games=6, seed=2, setting=setting, recorder=recorder)
    drawn = 0
    for recording in recorder.recordings(left="ace", right="dogfighter", rules=rules):
        expected = Counter()
        for row in recording.rows:
            for slot in range(2 * game.BULLETS_PER_FIGHTER):
                x, y, life = (row[COLUMN[f"bullet_{slot}_{name}"]] for name in ("x", "y", "life"))
                if life > 0:
                    expected[int(row[COLUMN["tick"]]), slot // game.BULLETS_PER_FIGHTER] += 1
                    assert any(distance(b, row[COLUMN["tick"]], x, y) < 0.2 for b in encode(recording)["bullets"])
                    drawn += 1
        seen = Counter((tick, b[6]) for b in encode(recording)["bullets"] for tick in range(b[0], b[1] + 1))
        assert seen == expected
    assert drawn > 100


def distance(bullet, tick, x, y):
    first, last, x0, y0, x1, y1, _ = bullet
    if not first <= tick <= last:
        return np.inf
    share = (tick - first) / max(last - first, 1)
    across = x0 + share * (x1 - x0) - x
    return np.hypot(across - 1000 * np.round(across / 1000), y0 + share * (y1 - y0) - y)


def test_immediately_reused_slot_is_two_bullets():
    rows = rows_of(10)
    rows[:, COLUMN["bullet_0_life"]] = [3, 2, 1, 3, 2, 1, 0, 0, 3, 2]
    assert [bullet[:2] for bullet in encode(recording_of(rows))["bullets"]] == [[1, 3], [4, 6], [9, 10]]


# ---- the page


def test_page_is_small_and_needs_no_network():
    rows = rows_of(10_800)
    rows[:, COLUMN["x_0"]] = np.random.default_rng(1).uniform(-500, 500, 10_800)
    text = page("a full match", [encode(recording_of(rows))])
    assert not re.search(r"https?://|//cdn|@import|\burl\(", text)
    assert len(text.encode()) < 300_000
    assert "{{" not in text


def test_name_cannot_break_out_of_page(tmp_path):
    hostile = recording_of(rows_of(30), title=HOSTILE, left=HOSTILE, right="{{title}}", regime=HOSTILE)
    write_replay(tmp_path / "page.html", [hostile])
    text = (tmp_path / "page.html").read_text()
    ordinary = page("x", [encode(recording_of(rows_of(30)))])
    for piece in ("<script", "</script", "<!--", "<b>"):
        assert text.count(piece) == ordinary.count(piece)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1]
    assert json.loads(data)["games"][0]["names"] == [HOSTILE, "{{title}}"]


def test_failed_write_keeps_earlier_page(tmp_path, monkeypatch):
    target = tmp_path / "new" / "page.html"
    write_replay(target, [duel()])
    before = target.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_replay(target, [duel(), duel()])
    assert target.read_bytes() == before
    assert [file.name for file in target.parent.iterdir()] == ["page.html"]
    with pytest.raises(ValueError, match="at least one"):
        write_replay(target, [])


def test_same_match_gives_same_bytes(tmp_path, recorded):
    for name in ("a", "b"):
        write_replay(tmp_path / name, recorded[0])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


# ---- in a browser


@pytest.fixture
def duel_page(tmp_path):
    file = tmp_path / "page.html"
    write_replay(file, [duel(), recording_of(rows_of(600), title="second", left=HOSTILE)])
    return file


def test_missing_browser_fails_only_where_required():
    """Without chromium on the PATH, the tests skip, or fail where the variable requires it."""
    assert [may_skip(None, required) for required in (None, "0", "1")] == [True, True, False]
    assert not may_skip("/usr/bin/chromium", None)
    assert needs_chromium.args == (may_skip(CHROMIUM, os.environ.get(BROWSER_REQUIRED)),)


def test_continuous_integration_requires_browser():
    assert f"export {BROWSER_REQUIRED}=1" in (ROOT / ".ci" / "run").read_text()


@needs_chromium
def test_page_shows_moment_in_address(duel_page):
    # Tick 62 lies between the samples at ticks 61 and 64.
    state = selftest(dom_of(duel_page, f"t={62 / 120}&selftest"))
    left, right = state["fighters"]
    assert state["t"] == pytest.approx(62 / 120)
    assert (state["game"], state["games"], state["playing"], state["ended"]) == (0, 2, False, False)
    assert left["x"] == pytest.approx(31 - 400, abs=0.06)
    assert right["x"] == pytest.approx(400 - 31, abs=0.06)
    assert (left["hp"], right["hp"]) == (5, 4)
    assert (left["y"], right["y"], right["speed"]) == (300, 310, 60)
    assert left["yaw"] == pytest.approx(0.51, abs=1e-3)
    assert abs(right["yaw"]) == pytest.approx(np.pi)
    assert not left["stalled"]


@needs_chromium
def test_hostile_name_stays_text(duel_page):
    dom = dom_of(duel_page, "game=2&t=99&selftest")
    state = selftest(dom)
    assert state["names"][0] == HOSTILE
    assert (state["game"], state["tick"], state["banner"]) == (1, 600, "Draw")
    assert "<title>2 matches · Sparring replay</title>" in dom


# A busy machine may draw no frame in the page's whole time: frames come from its clock.
FRAMES = "<script>requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 16);</script>"
DRIVE = """
<script>
const told = {};
const key = (name, more) => document.dispatchEvent(new KeyboardEvent("keydown", { key: name, ...more }));
const note = (name) => { told[name] = replay.state(); };
replay.pause(); replay.seek(0.5); key("ArrowRight", { shiftKey: true }); note("oneTick");
replay.seek(0); key("n"); note("firstEvent"); key("n"); note("secondEvent"); key("p"); note("backAgain");
document.querySelector(".mark.stall").click(); note("stallMark");
document.querySelector(".mark.death").click(); note("deathMark");
replay.seek(0.3); note("bullet");
const scrub = document.querySelector("#scrub");
scrub.value = 100; scrub.dispatchEvent(new Event("input")); note("scrubbed");
key("ArrowLeft"); note("left"); key("+"); note("faster");
const pick = document.querySelector("#game");
const after = (i) => { replay.seek(0.1 + i / 60); return replay.state(); };
replay.seek(0.2); told.flight = Array.from({ length: 60 }, (_, i) => after(i));
pick.value = 1; pick.dispatchEvent(new Event("change")); note("picked");
key("c"); key(" "); note("started");
const poll = setInterval(() => {
  if (replay.state().tick <= 1) return;
  clearInterval(poll);
  note("later"); key(" "); note("stopped");
  const out = document.createElement("pre");
  out.id = "selftest"; out.textContent = JSON.stringify(told); document.body.append(out);
}, 50);
</script>
"""


@needs_chromium
def test_controls_work_as_labelled(duel_page):
    duel_page.write_text(
        duel_page.read_text().replace("<body>", "<body>" + FRAMES).replace("</body>", DRIVE + "</body>")
    )
    told = selftest(browse(duel_page, "t=0", "--dump-dom"))
    flight = told.pop("flight")
    ticks = {name: state["tick"] for name, state in told.items()}
    assert ticks["oneTick"] == 61
    assert (ticks["firstEvent"], ticks["secondEvent"], ticks["backAgain"]) == (61, 81, 61)
    assert (ticks["stallMark"], told["stallMark"]["fighters"][0]["stalled"]) == (101, True)
    assert (ticks["deathMark"], told["deathMark"]["banner"]) == (200, "right wins")
    assert [(b["seat"], round(b["x"]), b["y"]) for b in told["bullet"]["bullets"]] == [(0, -350, 300)]
    assert (ticks["scrubbed"], ticks["left"], told["faster"]["speed"]) == (100, 1, 2)
    assert (told["picked"]["game"], ticks["picked"]) == (1, 1)
    assert told["started"]["playing"]
    assert 1 < ticks["later"] < 600
    assert not told["stopped"]["playing"]
    assert (told["picked"]["following"], told["later"]["following"]) == (True, False)
    assert told["picked"]["short"] == list(short_names(HOSTILE, "right"))
    # The camera and the roll are those of the GIFs.
    follow, rows = FightCamera(), duel().rows
    for moment, state in enumerate(flight):
        places = tuple((f["x"], f["y"]) for f in state["fighters"])
        view = follow.follow(places, 1 / 60 if moment else 0.0)
        assert list(state["view"].values()) == pytest.approx([view.x, view.y, view.height])
        turn = turn_rate(rows, round(state["tick"]) - 1, COLUMN["cos_yaw_0"], 120)
        assert state["fighters"][0]["lift"] == pytest.approx(render.lift(state["fighters"][0]["yaw"], turn), abs=1e-3)
    assert flight[0]["view"]["height"] > flight[-1]["view"]["height"] + 20


@needs_chromium
def test_arena_is_painted(tmp_path, duel_page):
    picture = tmp_path / "picture.png"
    browse(duel_page, "t=0.3", f"--screenshot={picture}", "--window-size=900,800")
    pixels = np.asarray(Image.open(picture).convert("RGB")).astype(int)
    for color in ((240, 165, 40), (86, 180, 233)):
        # Each colour is in a half of its own within the arena, and in the words and marks around it.
        near = np.abs(pixels[150:560] - color).max(axis=-1) < 8
        columns = np.nonzero(near)[1]
        assert len(columns) > 60
        assert (columns < 450).mean() in (0.0, 1.0)


# ---- the GIF


def test_gif_replaces_link_but_not_its_target(tmp_path):
    (tmp_path / "outside").write_text("mine")
    (tmp_path / "match.gif").symlink_to(tmp_path / "outside")
    write_gif(tmp_path / "match.gif", duel(), fps=20, size=(64, 64), seconds=0.2)
    assert (tmp_path / "outside").read_text() == "mine"
    assert (tmp_path / "match.gif").read_bytes()[:3] == b"GIF"


def test_gif_plays_match_in_real_time(tmp_path):
    write_gif(tmp_path / "match.gif", duel(), fps=20, size=(300, 200))
    with Image.open(tmp_path / "match.gif") as gif:
        assert gif.size == (300, 200)
        durations = []
        for index in range(gif.n_frames):
            gif.seek(index)
            durations.append(gif.info["duration"])
        last = np.asarray(gif.convert("RGB")).astype(int)
    # 199 ticks after the first are 1.66 s: 34 pictures of 50 ms, then the result.
    assert sum(durations) == 34 * 50 + HOLD_MS
    assert (np.abs(last - (86, 180, 233)).max(axis=-1) < 24).any()


def test_gif_can_show_end_only(tmp_path, capsys):
    write_gif(tmp_path / "whole.gif", duel(), fps=10, size=(150, 100))
    write_gif(tmp_path / "end.gif", duel(), fps=10, size=(150, 100), seconds=0.5)
    lasts, counts = [], []
    for name in ("whole.gif", "end.gif"):
        with Image.open(tmp_path / name) as gif:
            counts.append(gif.n_frames)
            gif.seek(gif.n_frames - 1)
            lasts.append(np.asarray(gif.convert("RGB")))
    # A picture every 12 ticks: 17 before the last of 200 rows, and 5 in the 60 ticks before it.
    assert counts == [17 + 1, 5 + 1]
    assert (lasts[0][:10] == lasts[1][:10]).all()  # names, hp and clock; the camera has another past
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_gif_has_positive_duration(tmp_path, seconds):
    with pytest.raises(ValueError, match=f"seconds={seconds}"):
        write_gif(tmp_path / "match.gif", duel(), seconds=seconds)


@pytest.mark.parametrize("fps", [0, 51])
def test_gif_has_valid_frame_rate(tmp_path, fps):
    with pytest.raises(ValueError, match=f"fps={fps}"):
        write_gif(tmp_path / "match.gif", duel(), fps=fps)
