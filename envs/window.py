"""A pygame window for `render_mode="human"`: shows the pictures of an environment at its frame rate."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import numpy as np
from gymnasium.error import DependencyNotInstalled

from sparring.configs.core.errors import InputError

HINT = 'render_mode="human" needs pygame: `sparring install human`'
SHARE_OF_SCREEN = 0.9
"""Larger pictures are scaled down to this fraction of the screen."""


class RenderWindow:
    """A window that opens with the first picture. Closing it stops the drawing, not the environment.

    Raises `DependencyNotInstalled` without pygame.
    """

    def __init__(self, title: str, fps: float) -> None:
        self.title, self.fps = title, fps
        self.closed = False
        """True once the window was closed by the user or `close`."""
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        try:
            self._pygame: Any = import_module("pygame")
        except ImportError as error:
            raise DependencyNotInstalled(HINT) from error
        self._screen: Any = None
        self._clock: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy the arguments: the copy opens its own window with its next picture, unless it was closed."""
        return RenderWindow, (self.title, self.fps), {"closed": self.closed}

    def show(self, picture: np.ndarray) -> None:
        """Show `picture`, uint8 [H, W, 3], and wait until the previous one was seen for 1 / fps seconds.

        Raises `InputError` on a machine without a screen.
        """
        if self.closed:
            return
        pygame, (height, width) = self._pygame, picture.shape[:2]
        surface = pygame.image.frombuffer(np.ascontiguousarray(picture).tobytes(), (width, height), "RGB")
        if self._screen is None:
            self._open(width, height)
        if surface.get_size() != self._screen.get_size():
            surface = pygame.transform.smoothscale(surface.convert(), self._screen.get_size())
        self._screen.blit(surface, (0, 0))
        pygame.display.flip()
        self._clock.tick(self.fps)
        if any(event.type == pygame.QUIT for event in pygame.event.get()):
            self.close()

    def close(self) -> None:
        """Close the window; a second call does nothing."""
        self.closed = True
        if self._screen is not None:
            self._screen = None
            self._pygame.display.quit()

    def _open(self, width: int, height: int) -> None:
        pygame = self._pygame
        try:
            pygame.display.init()
            wide, high = pygame.display.get_desktop_sizes()[0]
            shrink = min(1.0, SHARE_OF_SCREEN * wide / width, SHARE_OF_SCREEN * high / height)
            self._screen = pygame.display.set_mode((int(width * shrink), int(height * shrink)))
        except pygame.error as error:
            hint = 'on a machine without a screen use render_mode="rgb_array"'
            raise InputError(f'render_mode="human": no window can be opened ({error}); {hint}') from error
        pygame.display.set_caption(self.title)
        self._clock = pygame.time.Clock()
