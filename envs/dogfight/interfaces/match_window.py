"""The window of one dogfight for `render_mode="human"`: several pictures of every decision, and a camera."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparring.envs.dogfight import rules
from sparring.envs.dogfight.camera import FightCamera
from sparring.envs.dogfight.frame import TICK, TRAIL_SECONDS, frame_at
from sparring.envs.dogfight.render import draw
from sparring.envs.window import RenderWindow

PICTURE_TICKS = 2
"""Ticks between pictures, 60 a second; one decision is at least one picture."""
SIZE = (720, 480)
_KEPT = round(TRAIL_SECONDS * rules.TICKS_PER_SECOND) + 1


class MatchWindow:
    """Shows the ticks of every step at the speed of the match; `wraps` for open sides and deadly ground."""

    def __init__(self, *, action_repeat: int, wraps: bool) -> None:
        self._window = RenderWindow("Sparring: dogfight", human_fps(action_repeat))
        self._wraps = wraps
        self._rows = np.zeros((0, TICK + 1), dtype=np.float32)
        self._camera = FightCamera(wraps=wraps)

    def show(self, rows: np.ndarray, *, max_hp: int, names: tuple[str, str]) -> None:
        """Show the new rows [T, 29] of the trace; a row whose tick does not follow begins another match."""
        if self._window.closed:
            return
        before = self._rows[-1, TICK] if len(self._rows) else -1.0
        if rows[0, TICK] != before + 1:
            self._rows, self._camera = self._rows[:0], FightCamera(wraps=self._wraps)
        old = len(self._rows)
        self._rows = np.concatenate([self._rows, rows])
        for row in range(old + (len(rows) - 1) % PICTURE_TICKS, len(self._rows), PICTURE_TICKS):
            frame = frame_at(self._rows, row, max_hp=max_hp, names=names, deadly_ground=self._wraps)
            left, right = ((fighter.x, fighter.y) for fighter in frame.fighters)
            view = self._camera.follow((left, right), PICTURE_TICKS / rules.TICKS_PER_SECOND)
            self._window.show(draw(replace(frame, view=view), size=SIZE))
        self._rows = self._rows[-_KEPT:]

    def close(self) -> None:
        """Close the window."""
        self._window.close()


def human_fps(action_repeat: int) -> int:
    """Return the pictures per second at which the window shows a match in real time."""
    pictures = -(-action_repeat // PICTURE_TICKS)
    return max(1, round(rules.TICKS_PER_SECOND * pictures / action_repeat))
