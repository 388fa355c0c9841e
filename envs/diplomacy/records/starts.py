"""Start positions of an evaluation from saved games: `--start game.json --phase S1903M`."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.batch import STATE
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.board.positions import Position
from sparring.envs.diplomacy.records.history_consistency import check_start
from sparring.envs.diplomacy.records.saved_game import load


@dataclass(frozen=True)
class StartPosition:
    """A position [1, ...], its file and phase, and a checksum."""

    position: Position
    file: str
    phase: str
    digest: str

    def plain(self) -> dict[str, Any]:
        """Return its entry in results."""
        return {name: getattr(self, name) for name in ("file", "phase", "digest")}

    def __str__(self) -> str:
        return f"from {self.phase} of {self.file} "


def read_start(path: Path, phase: str, last_year: int) -> StartPosition:
    """Return the position of a phase of a saved game, without one of its last.

    Raises `InputError` for a file or phase that is not there, and a position from which no game with all powers goes on
    to `last_year`.
    """
    try:
        positions = [record.position for record in load(path)]
    except InputError as error:
        raise InputError(f"--start {error}") from error
    named = {_name(position): position for position in reversed(positions)}  # the end has the name of a phase before it
    if phase and phase not in named:
        first, last = _name(positions[0]), _name(positions[-1])
        raise InputError(f"--phase {phase}: {path} has no such phase; its phases are from {first} to {last}")
    position = named[phase] if phase else positions[-1]
    name = _name(position)
    try:
        check_start(position, most=codes.SLOTS, last_year=last_year)
    except InputError as error:
        earlier = "" if phase else "; an earlier phase of the file is chosen with --phase"
        raise InputError(f"--start {path}: {name}: {error}{earlier}") from error
    _check_powers(position, f"--start {path}: {name}")
    digest = sha256(b"".join(position[field].numpy().tobytes() for field in STATE)).hexdigest()[:12]
    return StartPosition(position, path.name, name, digest)


def _check_powers(position: Position, where: str) -> None:
    """Raise `InputError` if a power has neither units nor centres, since each is played equally often."""
    units = codes.power_of(np.stack([position[name][0].numpy() for name in ("units", "dislodged")]))
    for number, power in enumerate(POWERS):
        if not ((units == number).any() or (position["owner"] == number).any()):
            raise InputError(f"{where}: {power} is out, but every power is played equally often; give an earlier phase")


def _name(position: Position) -> str:
    return codes.phase_name(int(position["year"]), int(position["phase"]))
