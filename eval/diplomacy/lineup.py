"""Players of the seven powers of Diplomacy, read from text: `dumbbot`, or `FRANCE=final.pt,dumbbot`.

A player is a bot, given by its name, or a policy, given by a path, a run's name or final.pt. One without a power plays
all powers that have no other player. Names and files are resolved without torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sparring.agents.opponents.players import Player, find_folder, find_player, trains_language_model
from sparring.configs.core.errors import InputError, choose
from sparring.envs.diplomacy import GAME
from sparring.envs.diplomacy.board.board import POWERS
from sparring.eval.diplomacy.models import load_policy
from sparring.eval.parser import keyed_name, read_names

if TYPE_CHECKING:
    from sparring.agents.play.diplomacy_matches import Seat

POLICIES = replace(GAME, text_game="")
"""Diplomacy without language models as players."""
FALLBACK_BOT = "dumbbot"
"""Bot for the retreats and adjustments of a policy, which orders neither, where no bot plays the other powers."""


def read_lineup(words: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Return the seven players in the order of powers, and the name without a power (empty if none).

    Raises `InputError` for a power that is unknown, named twice, or left without a player.
    """
    named: dict[str, str] = {}
    rest = ""
    for text in read_names("--players", words):
        power, name = keyed_name(text)
        if not power and rest:
            raise InputError(f"--players {text}: {rest} plays the other powers already; say which, as in FRANCE={text}")
        if not power:
            rest = str(text)
        elif (power := choose("power", power.upper(), POWERS)) in named:
            raise InputError(f"--players names {power} twice; leave one out")
        else:
            named[power] = _some(text, name)
    return _complete(named, rest), rest


def _some(text: str, name: str) -> str:
    if not name:
        raise InputError(f"--players {text}: names no player; write {text}dumbbot, or leave it out")
    return name


def _complete(named: dict[str, str], rest: str) -> tuple[str, ...]:
    missing = [power for power in POWERS if power not in named]
    if missing and not rest:
        raise InputError(
            f"--players has no player for {', '.join(missing)}; add a name without a power, such as dumbbot"
        )
    if rest and not missing:
        raise InputError(f"--players {rest}: every power has a player already; leave it out")
    return tuple(named.get(power, rest) for power in POWERS)


def find_lineup(names: Sequence[str]) -> list[Player]:
    """Return the bots and files that `names` mean.

    Raises `UnknownNameError` with the choices, and `InputError` for a language model's run or files.
    """
    lineup = []
    for name in names:
        _check_policy(name, find_folder(name))
        lineup.append(player := find_player(name, POLICIES, bare=GAME.bots))
        _check_policy(name, player.parent if isinstance(player, Path) else None)
    return lineup


def _check_policy(name: str, run: Path | None) -> None:
    if run is not None and trains_language_model(run / "config.yaml"):
        raise InputError(
            f"--players {name}: is a language model, and only bots and policies play here; watch it with"
            f" python eval/run.py --env diplomacy --ckpt {name} --opponents {FALLBACK_BOT} --replay game.html"
        )


def load_seats(players: Sequence[Player]) -> list[Seat]:
    """Return bots unchanged and the networks of files, each read once; raises `InputError` for unusable files."""
    networks = {path: load_policy(path) for path in players if isinstance(path, Path)}
    return [networks[player] if isinstance(player, Path) else _named(player) for player in players]


def _named(player: str) -> Seat:
    """Return a bot's name, or the Python object that a reference names."""
    if player in GAME.bots:
        return player
    from sparring.agents.opponents.diplomacy import order_player

    return order_player(player)
