"""One match of an imported game, drawn: an animated GIF of the game's own pictures, or its positions as text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sparring.agents.opponents.players import OpponentError
from sparring.agents.play.seat_matches import SeatPlayer
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import write_atomically
from sparring.envs.imported.match import ImportedMatch, raised
from sparring.eval.imported.policy import ImportedGame

MODES = {".gif": "rgb_array", ".txt": "ansi"}
"""Render modes of PettingZoo by the suffix of a replay."""
FRAME_MS = 500
"""Time that a picture is shown."""


def write_replay(path: Path, game: ImportedGame, players: list[SeatPlayer], seed: int) -> None:
    """Write a match of `players`, one per seat. Raises `InputError` if the game does not draw itself in this way."""
    mode = MODES[path.suffix.lower()]
    if game.package == "openspiel" and mode != "ansi":
        raise InputError(f"--replay {path}: {game.name} shows positions as text; give a name that ends in .txt")
    match = game.match(mode)
    try:
        frames = list(_frames(match, mode, game, players, seed))
    except ImportError as error:
        raise InputError(f"--replay {path}: {game.name} cannot be drawn: {error}") from error
    finally:
        match.close()
    if mode == "ansi":
        write_atomically(path, "\n\n".join(f"move {number}\n{frame}" for number, frame in enumerate(frames)) + "\n")
        return
    from PIL import Image

    pictures = [Image.fromarray(frame).convert("P", palette=Image.Palette.ADAPTIVE) for frame in frames]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=FRAME_MS, loop=0)


def _frames(match: ImportedMatch, mode: str, game: ImportedGame, players: list[SeatPlayer], seed: int) -> Iterator[Any]:
    """Play the match, and yield the position before every move and at the end."""
    rows = game.rows(match)
    memories = [torch.zeros(1, player.memory_size) for player in players]
    match.reset(seed)
    yield _drawn(match, game, mode)
    while not match.over:
        actions = np.zeros((1, len(match.seats), rows.action_size), dtype=np.float32)
        deciding = list(match.deciding())
        for seat in deciding:
            row = rows.blank[seat]
            rows.write(seat, match.observe(seat), row)
            if match.masked:
                rows.write_mask(seat, match.mask(seat), row)
            if hasattr(players[seat], "choose_rows"):
                raise OpponentError(f"--replay: {players[seat].name} needs a batch of matches; name another opponent")
            chosen, memories[seat] = players[seat].act(torch.from_numpy(row)[None], memories[seat])
            actions[0, seat] = chosen.numpy()[0]
        by_seat = rows.to_actions(actions)
        match.step({seat: by_seat[seat][0] for seat in deciding})
        yield _drawn(match, game, mode)


def _drawn(match: ImportedMatch, game: ImportedGame, mode: str) -> Any:
    """Return a picture, or text, as the render mode says."""
    other = next(suffix for suffix, known in MODES.items() if known != mode)
    fix = f"give a name that ends in {other}, or leave it out"
    try:
        frame = match.render()
    except ImportError:
        raise
    except Exception as error:  # some games draw in one of their modes only
        raise InputError(f"--replay: {game.name} cannot draw itself here: {raised(error)}; {fix}") from error
    if isinstance(frame, str) != (mode == "ansi") or frame is None:
        kind = "nothing" if frame is None else "text" if isinstance(frame, str) else "pictures"
        raise InputError(f"--replay: {game.name} draws {kind} here; {fix}")
    return frame if isinstance(frame, str) else np.array(frame, dtype=np.uint8)  # it may draw on the same one again
