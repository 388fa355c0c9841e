"""Match pictures: camera, rolling aircraft, bullet trails, and short names."""

import numpy as np
import pytest

from sparring.envs.dogfight import render
from sparring.envs.dogfight.camera import FightCamera
from sparring.envs.dogfight.frame import frame_at
from sparring.envs.dogfight.recording import Recorder, short_name
from sparring.envs.dogfight.rules import TRACE_FIELDS
from sparring.envs.dogfight.training.matches import MatchSettings, play

COLUMN = {name: index for index, name in enumerate(TRACE_FIELDS)}


def places(row):
    return tuple((float(row[COLUMN[f"x_{seat}"]]), float(row[COLUMN[f"y_{seat}"]])) for seat in range(2))


@pytest.mark.parametrize("rules", ["classic", "challenge"])
def test_camera_keeps_both_fighters_in_view_and_moves_smoothly(rules):
    recorder = Recorder(2)
    setting = MatchSettings(trace=2, threads=1, max_ticks=2400, rules=rules)
    play("ace", "dogfighter", games=4, seed=2, setting=setting, recorder=recorder)
    period, heights = 1000.0 if rules == "challenge" else 0.0, []
    for recording in recorder.recordings(left="ace", right="dogfighter", rules=rules):
        follow, old = FightCamera(wraps=rules == "challenge"), None
        for row in recording.rows[::2]:
            view = follow.follow(places(row), 1 / 60)
            for x, y in places(row):
                across = x - view.x
                across -= period * np.round(across / period) if period else 0.0
                assert abs(across) <= view.height * 5 / 6
                assert abs(y - view.y) <= view.height / 2 + 1e-6
            assert 240 <= view.height <= 600
            assert view.height / 2 - 1e-6 <= view.y <= 600 - view.height / 2 + 1e-6
            if not period:
                assert abs(view.x) <= 500 - view.height * 5 / 6 + 1e-6
            if old:
                # A fighter that the view has to catch moves at most 320 m/s, on either side.
                moved = view.x - old.x - (period * np.round((view.x - old.x) / period) if period else 0.0)
                assert np.hypot(moved, view.y - old.y) < 1000 / 60
            old = view
            heights.append(view.height)
    assert min(heights) < 300
    assert max(heights) > 350


def test_aircraft_pulls_toward_canopy():
    level, left, right = (render.lift(0.0, turn) for turn in (0.0, 4.0, -4.0))
    assert 0 < level < left == 1 == -right
    assert render.lift(np.pi, 0.0) == -level, "upright whichever way it flies"
    assert render.lift(np.pi / 2, 0.0) == pytest.approx(0), "from above in a climb"
    assert render.span(0.0) == 1 > render.span(level) > render.span(1.0) > 0


def test_moment_shows_shots_hits_and_directions():
    rows = np.zeros((60, len(TRACE_FIELDS)), dtype=np.float32)
    rows[:, COLUMN["tick"]] = np.arange(1, 61)
    rows[:, [COLUMN["cos_yaw_0"], COLUMN["cos_yaw_1"]]] = 1
    rows[:, COLUMN["hp_0"]], rows[:, COLUMN["hp_1"]] = 5, 4
    rows[:40, COLUMN["hp_1"]] = 5
    rows[30:, COLUMN["cooldown_0"]] = np.arange(90, 60, -1)
    rows[30:, COLUMN["bullet_0_life"]] = np.arange(59, 29, -1)
    rows[30:, COLUMN["bullet_0_y"]] = 3.0 * np.arange(30)
    assert frame_at(rows, 29).fired == (False, False)
    assert frame_at(rows, 30).fired == (True, False)
    assert frame_at(rows, 30).bullets[0].angle is None
    assert frame_at(rows, 31).bullets[0].angle == pytest.approx(np.pi / 2)
    assert [frame_at(rows, row).struck for row in (39, 40, 59)] == [(False, False), (False, True), (False, True)]
    assert frame_at(rows, 59).fired == (False, False)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("ace", "ace"),
        ("You", "You"),
        ("released/dogfight_bots_only", "bots_only"),
        ("brisk-viper-run", "brisk-viper"),
        ("brisk-viper-run/step_2000000", "brisk-viper 2M"),
        ("selfplay/step_50000.pt", "selfplay 50k"),
        ("/home/me/agents/mine.onnx", "mine"),
        ("checkpoints/mine/final.pt", "mine"),
        ("my_package.bots:Mine", "Mine"),
        ("a name of many words", "a name of many"),
        ("supercalifragilistic", "supercalifrag…"),
        ("dogfight_", "dogfight_"),
        ("final", "final"),
        (":", ":"),
    ],
)
def test_names_are_short_without_truncation(name, short):
    assert short_name(name) == short
