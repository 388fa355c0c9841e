"""Drawn positions: units, colours, order marks, and a game as a GIF."""

import importlib.util
import subprocess
import sys
from collections import Counter
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sparring.envs.diplomacy.batch import opening
from sparring.envs.diplomacy.board.board import find_location, standard_board
from sparring.envs.diplomacy.drawing import palette
from sparring.envs.diplomacy.drawing.arrows import ARROW, RING, marks
from sparring.envs.diplomacy.drawing.outlines import standard_drawing
from sparring.envs.diplomacy.drawing.render import HOLD_MS, PHASE_MS, draw_position
from sparring.envs.diplomacy.records.timeline import order_outcomes
from tests.envs.diplomacy.scenes import owner_row, play, unit_row

ROOT = Path(__file__).resolve().parents[4]
BOARD, DRAWING = standard_board(), standard_drawing()
NO_OWNERS = np.full(34, -1)
NONE = np.zeros(75, dtype=int)


def around(picture, place, radius=9):
    """Count the colours around a place of the drawing."""
    x, y = (round(float(value)) for value in place)
    window = picture[max(y - radius, 0) : y + radius, max(x - radius, 0) : x + radius]
    return Counter(map(tuple, window.reshape(-1, 3).tolist()))


def draw_phase(phase, after=None):
    """Draw a recorded phase, with its orders if the next phase is given."""
    orders = marks(phase, order_outcomes(phase, after)) if after else []
    return draw_position(phase["units"], phase["owner"], dislodged=phase["dislodged"], orders=orders)


def marks_of(units, orders):
    phases = play(units, orders)
    return {mark.outcome.text: mark for mark in marks(phases[0], order_outcomes(phases[0], phases[1]))}


@pytest.mark.parametrize("size", [(1200, 1000), (600, 500), (401, 777)])
def test_picture_has_requested_size(size):
    picture = draw_position(NONE, NO_OWNERS, size=size)
    assert picture.shape == (size[1], size[0], 3)
    assert picture.dtype == np.uint8


def test_every_opening_unit_has_its_colour():
    start = opening()
    picture = draw_position(start["units"][0].numpy(), start["owner"][0].numpy())
    for power, _, location in BOARD.start:
        assert around(picture, DRAWING.units[location])[palette.POWER_COLORS[power]] > 40


@pytest.mark.parametrize("coast", ["STP/NC", "STP/SC", "SPA/NC", "BUL/EC"])
def test_fleet_is_drawn_on_its_coast(coast):
    picture = draw_position(unit_row({"Russia": f"F {coast}"}), NO_OWNERS)
    color = palette.POWER_COLORS[5]
    assert around(picture, DRAWING.units[find_location(coast)])[color] > 40
    assert around(picture, DRAWING.units[find_location(coast[:3])])[color] == 0


def test_land_takes_owner_colour():
    picture = draw_position(NONE, owner_row({"Turkey": "SPA"}))
    near_madrid = DRAWING.labels[find_location("SPA")] + (30, 12)
    assert around(picture, near_madrid, 3).most_common(1)[0][0] == palette.land_color(6)
    assert around(picture, DRAWING.units[find_location("BOH")], 3).most_common(1)[0][0] == palette.LAND
    assert around(picture, DRAWING.units[find_location("NTH")], 3).most_common(1)[0][0] == palette.SEA


def test_dislodged_unit_is_beside_attacker():
    units = {"France": "A BUR", "Germany": "A MUN, A RUH"}
    phases = play(units, {"Germany": "A MUN - BUR, A RUH S A MUN - BUR"}, {})
    picture = draw_phase(phases[1])
    colors = around(picture, DRAWING.units[find_location("BUR")], 20)
    assert colors[palette.POWER_COLORS[2]] > 20
    assert colors[palette.POWER_COLORS[3]] > 40
    assert colors[palette.FAILURE] > 5


def test_orders_leave_marks_and_failures_are_red():
    units = {"France": "A PAR, A MAR", "Germany": "A MUN"}
    fine = play(units, {"France": "A PAR - PIC, A MAR - SPA"})
    bounced = play(units, {"France": "A PAR - BUR", "Germany": "A MUN - BUR"})
    plain = draw_phase(fine[0])
    assert not (plain == palette.FAILURE).all(axis=-1).any()
    assert (draw_phase(*fine) != plain).any(axis=-1).sum() > 300
    assert (draw_phase(*bounced) == palette.FAILURE).all(axis=-1).sum() > 20


# ---- marks


def test_move_points_to_target_and_bounce_stops_short():
    units = {"France": "A PAR", "Germany": "A MUN"}
    move = marks_of(units, {"France": "A PAR - PIC"})["A PAR - PIC"]
    assert move.head == ARROW
    assert move.cross is None
    assert 10 < np.hypot(*(move.line[-1] - DRAWING.units[find_location("PIC")])) < 18
    bounce = marks_of(units, {"France": "A PAR - BUR", "Germany": "A MUN - BUR"})["A MUN - BUR"]
    assert bounce.head != ARROW
    assert np.hypot(*(bounce.cross - DRAWING.units[find_location("BUR")])) > 25


def test_convoyed_army_goes_via_fleet():
    units = {"England": "A LON, F NTH", "France": "A BEL"}
    orders = {"England": "A LON - BEL VIA, F NTH C A LON - BEL", "France": "A BEL - HOL"}
    found = marks_of(units, orders)
    way = found["A LON - BEL VIA"].line
    assert np.hypot(*(way - DRAWING.units[find_location("NTH")]).T).min() < 6
    assert found["F NTH C A LON - BEL"].head == RING


def test_supports_point_to_unit_or_middle_of_move():
    units = {"France": "A PAR, A MAR, A BUR", "Germany": "A RUH, A MUN, F KIE"}
    orders = {"France": "A PAR S A BUR, A MAR S A BUR", "Germany": "A RUH S A MUN - BUR, A MUN - BUR"}
    found = marks_of(units, orders)
    burgundy, munich = (DRAWING.units[find_location(code)] for code in ("BUR", "MUN"))
    assert np.hypot(*(found["A PAR S BUR"].line[-1] - burgundy)) < 20
    middle = found["A RUH S MUN - BUR"].line[-1]
    assert np.hypot(*(middle - (burgundy + munich) / 2)) < 25


def test_drawing_needs_neither_torch_nor_warp():
    code = "import sys, envs.diplomacy.drawing.render; sys.exit(bool({'torch', 'warp'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_impossible_orders_are_drawn():
    orders = {"France": "A PAR - PAR, A BRE - BRE VIA, F ENG C A BRE - BRE, A GAS S A MOS - SEV"}
    phases = play({"France": "A PAR, A BRE, A GAS, F ENG"}, orders)
    for mark in marks(phases[0], order_outcomes(phases[0], phases[1])):
        assert np.isfinite(mark.line).all()
    assert draw_phase(*phases).any()


def frames(data):
    with Image.open(BytesIO(data)) as gif:
        for index in range(gif.n_frames):
            gif.seek(index)
            yield gif.info["duration"], np.asarray(gif.convert("RGB")).astype(int)


def test_documented_command_draws_complete_game(tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("diplomacy_gif", ROOT / "docs" / "diplomacy_gif.py")
    command = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(command)
    path = tmp_path / "game.gif"
    monkeypatch.setattr(sys, "argv", ["diplomacy_gif.py", str(path), "--bot", "random", "--last-year", "1902"])
    command.main()
    assert "the last is" in capsys.readouterr().out
    drawn = list(frames(path.read_bytes()))
    # Spring and fall of two years, and the final position.
    assert [duration for duration, _ in drawn] == [PHASE_MS] * 4 + [HOLD_MS]
    assert {picture.shape for _, picture in drawn} == {(480, 640, 3)}
    differences = [np.abs(after - before).sum(axis=-1) > 60 for (_, before), (_, after) in pairwise(drawn)]
    assert all(changed[:30, :150].any() for changed in differences), "the title changes"
    assert all(changed[60:].any() for changed in differences), "the map changes"
