"""Opponents by name, as in `eval/run.py`; the only place of this package that resolves and loads players."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparring.agents.opponents.players import Player, find_player
from sparring.agents.opponents.suggestions import check_game
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
