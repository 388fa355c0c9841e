"""The seven players of a game with a person: read from the command line or a saved game, located without torch.

A word of --opponents is a name, or POWER=name for one power; names without a power take the powers that are left, in
turn. A saved game names its players too. Those that run code or ask a server are taken from the command line alone.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparring.agents.opponents.players import Player, check_game, display_name, find_player, is_server
from sparring.configs.core.errors import InputError, choose
from sparring.configs.opponents import is_reference
from sparring.envs.diplomacy import GAME
from sparring.envs.diplomacy.board.board import POWERS
from sparring.eval.diplomacy.lineup import FALLBACK_BOT
from sparring.eval.parser import keyed_name

YOU = "You"
"""Name of the person among the players of a saved game."""


@dataclass(frozen=True)
class HumanLineup:
    """The person's power, and the players of the seven powers; None for the person."""

    power: int
    players: tuple[Player | None, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the seven players, as in a saved game."""
        return tuple(YOU if player is None else display_name(player) for player in self.players)


def new_lineup(power: str | None, words: Sequence[str] | None, seed: int) -> HumanLineup:
    """Return the lineup of a new game. Raises `InputError` for a power named twice and for unknown players."""
    named, others = _read_words(words or (FALLBACK_BOT,))
    free = [name for name in POWERS if name not in named]
    if not free:
        raise InputError("--opponents names a player for all seven powers; leave out that of yours")
    mine = random.Random(seed).choice(free) if power is None else power.upper()
    return _lineup(mine, named, others or [FALLBACK_BOT])


def resumed_lineup(file: Path, players: Sequence[str], power: str | None, words: Sequence[str] | None) -> HumanLineup:
    """Return the lineup of a saved game with these `players`; the command line replaces what it names.

    Raises `InputError` where neither says which power is the person's, and for players that only it may name.
    """
    if power is None and players.count(YOU) != 1:
        raise InputError(f"{file}: does not say which power is yours; give --power")
    mine = POWERS[players.index(YOU)] if power is None else power.upper()
    if words is not None:
        named, others = _read_words(words)
        return _lineup(mine, named, others or [FALLBACK_BOT])
    stored = dict(zip(POWERS, players, strict=True))
    for place, name in stored.items():
        if place != mine and (is_reference(name) or is_server(name)):
            what = "is a server" if is_server(name) else "is code"
            raise InputError(f"{file}: {place} was played by {name}, which {what}; name it again with --opponents")
    named = {place: name for place, name in stored.items() if place != mine and name not in ("", YOU)}
    try:
        return _lineup(mine, named, [FALLBACK_BOT])
    except InputError as error:
        raise InputError(f"{file}: {error}; or give --opponents") from error


def _read_words(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return players by power, and those without one."""
    named: dict[str, str] = {}
    others = []
    for word in words:
        key, name = keyed_name(word)
        if not key.isalpha():  # an address or a path may hold an equals sign too
            others.append(word)
            continue
        power = choose("power", key.upper(), POWERS)
        if power in named or not name:
            raise InputError(f"--opponents {word}: name one player for {power}, as in {power}={FALLBACK_BOT}")
        named[power] = name
    return named, others


def _lineup(mine: str, named: Mapping[str, str], others: Sequence[str]) -> HumanLineup:
    if mine in named:
        raise InputError(f"--opponents {mine}={named[mine]}: {mine} is yours; leave it out, or give another --power")
    left = [power for power in POWERS if power != mine and power not in named]
    turns = {power: others[number % len(others)] for number, power in enumerate(left)}
    names = {**named, **turns}
    found = {name: _find(name) for name in dict.fromkeys(names.values())}
    return HumanLineup(POWERS.index(mine), tuple(found[names[p]] if p != mine else None for p in POWERS))


def _find(name: str) -> Player:
    player = find_player(name, GAME, bare=GAME.bots)
    check_game(GAME, player)
    return player
