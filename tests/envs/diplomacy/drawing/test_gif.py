"""A game as an animated GIF, and the documented command that makes the one of the README."""

import importlib.util
import sys
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image

from sparring.envs.diplomacy.drawing.render import HOLD_MS, PHASE_MS

ROOT = Path(__file__).resolve().parents[4]


def frames(data):
    with Image.open(BytesIO(data)) as gif:
        for index in range(gif.n_frames):
            gif.seek(index)
            yield gif.info["duration"], np.asarray(gif.convert("RGB")).astype(int)


def test_the_documented_command_draws_a_whole_game(tmp_path, monkeypatch, capsys):
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
