"""Opponents by name, as in `eval/run.py`; the only place of this package that resolves and loads players."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparring.agents.opponents.players import Player, check_game, find_player, released_of, runs_of
from sparring.configs.core.paths import CHECKPOINTS
from sparring.envs.dogfight import GAME

if TYPE_CHECKING:
    from sparring.eval.dogfight.players import Entrant


def find_opponent(name: str) -> Player:
    """Locate an opponent without loading torch: a bot, a checkpoint, a run, a released name or an ONNX file.

    Raises `UnknownNameError` with the choices and the nearest match, and `InputError` for a player of another game.
    """
    found = find_player(name, GAME, bare=GAME.bots)
    check_game(GAME, found)
    return found


def load_opponent(found: Player) -> Entrant:
    """Load a located opponent on the CPU. Raises `InputError` for an unusable policy."""
    from sparring.eval.dogfight.players import load_entrant

    return load_entrant(found, "cpu")


def known_opponents(first: str) -> tuple[str, ...]:
    """Return the names that a page offers: `first`, the bots, released policies, and runs with a final policy."""
    names = (first, *GAME.bots, *released_of(GAME, CHECKPOINTS), *runs_of(GAME, CHECKPOINTS))
    return tuple(dict.fromkeys(names))
