"""Rendered frames: positions, colours and changes."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from sparring.envs.dogfight.frame import BulletView, FighterView, Frame, frame_from_trace
from sparring.envs.dogfight.render import SEAT_COLORS, draw, to_pixels
from sparring.envs.dogfight.rules import TRACE_FIELDS

LEFT = FighterView(x=-200.0, y=300.0, yaw=0.0, speed=50.0, hp=5, stalled=False)
RIGHT = FighterView(x=200.0, y=300.0, yaw=np.pi, speed=50.0, hp=5, stalled=False)
FRAME = Frame((LEFT, RIGHT), (), tick=0)


def color_near(picture, x, y, radius=12):
    """Return the pixel (column, row) with each seat's exact colour near a point of the arena, None without one."""
    column, row = (round(value) for value in to_pixels(x, y, (picture.shape[1], picture.shape[0])))
    window = picture[max(row - radius, 0) : row + radius, max(column - radius, 0) : column + radius]
    places = []
    for color in SEAT_COLORS:
        rows, columns = np.nonzero((window == color).all(axis=-1))
        places.append((columns.mean() - radius, rows.mean() - radius) if len(rows) else None)
    return places


def with_left(**changes):
    return draw(replace(FRAME, fighters=(replace(LEFT, **changes), RIGHT)))


@pytest.mark.parametrize("size", [(600, 400), (320, 200), (401, 777)])
def test_picture_has_requested_size(size):
    picture = draw(FRAME, size=size)
    assert picture.shape == (size[1], size[0], 3)
    assert picture.dtype == np.uint8


def test_tiny_picture_is_rejected():
    with pytest.raises(ValueError, match="64"):
        draw(FRAME, size=(600, 20))


def test_fighters_are_drawn_at_position_in_own_colour():
    picture = draw(FRAME)
    here = [color_near(picture, -200, 300), color_near(picture, 200, 300)]
    assert here[0][0] is not None
    assert here[0][1] is None
    assert here[1][1] is not None
    assert here[1][0] is None
    assert color_near(picture, 0, 150) == [None, None]


@pytest.mark.parametrize(("yaw", "axis", "sign"), [(0, 0, 1), (np.pi, 0, -1), (np.pi / 2, 1, -1), (-np.pi / 2, 1, 1)])
def test_nose_points_along_heading(yaw, axis, sign):
    # The outermost pixel along the heading is the tip: it lies further out than anything on the other side.
    picture = with_left(yaw=yaw)
    column, row = (round(value) for value in to_pixels(-200, 300))
    rows, columns = np.nonzero((picture[row - 20 : row + 20, column - 20 : column + 20] == SEAT_COLORS[0]).all(axis=-1))
    offsets = (columns - 19.5, rows - 19.5)[axis] * sign
    assert offsets.max() > -offsets.min() + 1


def test_every_change_is_visible():
    frames = [
        FRAME,
        replace(FRAME, tick=60),
        replace(FRAME, bullets=(BulletView(0.0, 300.0, 0),)),
        replace(FRAME, bullets=(BulletView(0.0, 300.0, 1),)),
        replace(FRAME, max_hp=7),
        replace(FRAME, names=("ace", "brawler")),
        replace(FRAME, deadly_ground=True),
        replace(FRAME, struck=(False, True)),
        replace(FRAME, banner="ace wins"),
        replace(FRAME, trails=(np.array([[-300.0, 300.0], [-250.0, 310.0], [-200.0, 300.0]]),)),
    ]
    pictures = [draw(frame) for frame in frames]
    pictures += [with_left(yaw=0.3), with_left(hp=3), with_left(hp=0), with_left(stalled=True), with_left(speed=99.0)]
    assert len({picture.tobytes() for picture in pictures}) == len(pictures)


def trace_row(values):
    row = np.zeros(len(TRACE_FIELDS), dtype=np.float32)
    for name, value in values.items():
        row[TRACE_FIELDS.index(name)] = value
    return row


def test_trace_row_becomes_frame():
    row = trace_row(
        {"x_0": -10, "y_0": 20, "cos_yaw_0": 0, "sin_yaw_0": 1, "speed_0": 44, "hp_0": 2}
        | {"x_1": 30, "y_1": 40, "cos_yaw_1": -1, "sin_yaw_1": 0, "speed_1": 55, "hp_1": 5, "stall_1": 7}
        | {"bullet_1_x": 1, "bullet_1_y": 2, "bullet_1_life": 9, "bullet_2_x": 3, "bullet_2_y": 4, "bullet_2_life": 1}
        | {"tick": 1234}
    )
    frame = frame_from_trace(row)
    assert frame.fighters[0] == FighterView(-10, 20, pytest.approx(np.pi / 2), 44, 2, False)
    assert frame.fighters[1] == FighterView(30, 40, pytest.approx(np.pi), 55, 5, True)
    assert frame.bullets == (BulletView(1, 2, 0), BulletView(3, 4, 1))
    assert (frame.tick, frame.max_hp) == (1234, 5)
    assert frame_from_trace(trace_row({"hp_0": 8})).max_hp == 8
    assert frame_from_trace(row, max_hp=3).max_hp == 3


def test_drawing_needs_neither_torch_nor_warp():
    code = "import sys, envs.dogfight.render; sys.exit(bool({'torch', 'warp'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
