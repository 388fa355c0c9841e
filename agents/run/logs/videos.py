"""Videos of a run, each drawn by a thread beside training and collected by the training loop.

A drawing gets data of its own and uses no random numbers, so that it changes nothing in training. It costs the loop
only the starting of a thread. A failed drawing is returned as its error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Thread

PATIENCE_SECONDS = 10.0
"""Longest wait for drawings in progress at the end of a run."""


@dataclass
class DrawnVideo:
    """A video at a number of env steps: `gif` once it is drawn, or `error`."""

    env_steps: int
    name: str
    gif: bytes = b""
    error: Exception | None = None
    thread: Thread = field(default_factory=Thread)


class VideoThreads:
    """Drawings in progress, in the order of their start."""

    def __init__(self) -> None:
        self._videos: list[DrawnVideo] = []

    def start(self, env_steps: int, name: str, draw: Callable[[], bytes]) -> None:
        """Begin to draw; `draw` returns the bytes of an animated GIF."""
        video = DrawnVideo(env_steps, name)
        # A daemon: a drawing in progress does not keep a stopped run alive.
        video.thread = Thread(target=_draw, args=(video, draw), daemon=True, name=f"draw {name}")
        video.thread.start()
        self._videos.append(video)

    def finished(self, *, wait: bool = False) -> Iterator[DrawnVideo]:
        """Yield the videos that are done, once each; with `wait`, those that are done within `PATIENCE_SECONDS`."""
        deadline = time.monotonic() + (PATIENCE_SECONDS if wait else 0.0)
        while self._videos:
            self._videos[0].thread.join(max(deadline - time.monotonic(), 0.0))
            if self._videos[0].thread.is_alive():
                return
            yield self._videos.pop(0)

    def discard(self) -> None:
        """Drop all videos, drawn or in progress."""
        self._videos.clear()


def _draw(video: DrawnVideo, draw: Callable[[], bytes]) -> None:
    try:
        video.gif = draw()
    except Exception as error:
        video.error = error
