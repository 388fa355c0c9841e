"""Players of the seven powers of Diplomacy, read from text: `dumbbot`, or `FRANCE=final.pt,dumbbot`.

Names and files are resolved without torch. In a replay a player is a bot or a policy; a player without a power plays
all remaining powers. In a game with a person (`HumanLineup`), players without a power take the remaining powers in
turn. A saved game also names its players; players that run code or use a server must be named on the command line.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sparring.agents.language.opponents import INSTEAD
from sparring.agents.opponents.players import (
    SAMPLED_PREFIX,
    Player,
    check_game,
    display_name,
    find_folder,
    find_player,
    is_server,
    trains_language_model,
)
from sparring.configs.core.errors import InputError, choose
from sparring.configs.opponents import is_code, is_reference
from sparring.curriculum.league.league import BASE_MODEL
from sparring.envs.diplomacy import GAME
from sparring.envs.diplomacy.board.board import POWERS
from sparring.eval.options import Pairs

if TYPE_CHECKING:
    from sparring.envs.diplomacy.evaluation.options import DiplomacyOptions
    from sparring.envs.diplomacy.rollouts.games import Seats

YOU = "You"
"""Name of the person among the players of a saved game."""
FALLBACK_BOT = "dumbbot"
"""Bot for the retreats and adjustments of a policy that does not order them, if no bot plays the other powers."""


def read_lineup(players: Pairs) -> tuple[tuple[str, ...], str]:
    """Return the seven players in the order of powers, and the name without a power (empty if none).

    Raises `InputError` for a power that is unknown, named twice, or left without a player.
    """
    named: dict[str, str] = {}
    rest = ""
    for power, name in players:
        if not power and rest:
            raise InputError(f"--players {name}: {rest} already plays the others; name a power, as in FRANCE={name}")
        if not power:
            rest = name
        elif (power := choose("power", power.upper(), POWERS)) in named:
            raise InputError(f"--players names {power} twice; leave one out")
        else:
            named[power] = _some(f"{power}=", name)
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
    """Return the bots and files for `names`.

    Raises `UnknownNameError` with the choices, and `InputError` for a language model's run or files.
    """
    lineup = []
    for name in names:
        _check_policy(name, find_folder(name))
        lineup.append(player := find_player(name, GAME, bare=GAME.bots, models=False))
        _check_policy(name, player.parent if isinstance(player, Path) else None)
    return lineup


def _check_policy(name: str, run: Path | None) -> None:
    if run is not None and trains_language_model(run / "config.yaml"):
        raise InputError(
            f"--players {name}: is a language model, but only bots and policies play here; watch it with"
            f" python eval/run.py --env diplomacy --ckpt {name} --opponents {FALLBACK_BOT} --replay game.html"
        )


def load_seats(players: Sequence[Player], *, bot: str) -> Seats:
    """Load the players of the seven powers, each file once; `bot` decides the retreats and adjustments of policies.

    Policies trained with `network.all_phases=true` decide them themselves. Raises `InputError` for unusable files.
    """
    from sparring.envs.diplomacy.rollouts.games import in_order
    from sparring.envs.diplomacy.training.opponents import PolicyOrders, open_player

    loaded = {player: open_player(player) for player in dict.fromkeys(players)}
    for player in loaded.values():
        if isinstance(player, PolicyOrders) and player.bot:
            player.bot = bot
    return in_order([loaded[player] for player in players])


@dataclass(frozen=True)
class HumanLineup:
    """The person's power, and the players of the seven powers; None for the person."""

    power: int
    players: tuple[Player | None, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the seven players, as in a saved game."""
        return tuple(YOU if player is None else display_name(player) for player in self.players)


def new_lineup(power: str | None, opponents: Pairs, seed: int) -> HumanLineup:
    """Return the lineup of a new game. Raises `InputError` for a power named twice and for unknown players."""
    named, unassigned = _by_power(opponents)
    free = [name for name in POWERS if name not in named]
    if not free:
        raise InputError("--opponents names a player for all seven powers; leave out your own power")
    person = random.Random(seed).choice(free) if power is None else power.upper()
    return _lineup(person, named, unassigned or [FALLBACK_BOT])


def resumed_lineup(file: Path, players: Sequence[str], power: str | None, opponents: Pairs) -> HumanLineup:
    """Return the lineup of a saved game with these `players`; the command line replaces what it names.

    Raises `InputError` if neither names the person's power, or for players that only the command line may name.
    """
    if power is None and players.count(YOU) != 1:
        raise InputError(f"{file}: does not name your power; give --power")
    person = POWERS[players.index(YOU)] if power is None else power.upper()
    if opponents:
        named, unassigned = _by_power(opponents)
        return _lineup(person, named, unassigned or [FALLBACK_BOT])
    stored = dict(zip(POWERS, players, strict=True))
    for seat, name in stored.items():
        if seat != person and (is_reference(name) or is_server(name)):
            what = "is a server" if is_server(name) else "is code"
            raise InputError(f"{file}: {seat} was played by {name}, which {what}; name it again with --opponents")
    named = {seat: name for seat, name in stored.items() if seat != person and name not in ("", YOU)}
    try:
        return _lineup(person, named, [FALLBACK_BOT])
    except InputError as error:
        raise InputError(f"{file}: {error}; or give --opponents") from error


def _by_power(opponents: Pairs) -> tuple[dict[str, str], list[str]]:
    """Return players by power, and those without one."""
    named: dict[str, str] = {}
    unassigned = []
    for key, name in opponents:
        if not key.isalpha():  # an address or a path may hold an equals sign too
            unassigned.append(f"{key}={name}" if key else name)
            continue
        power = choose("power", key.upper(), POWERS)
        if power in named or not name:
            raise InputError(f"--opponents {key}={name}: name one player for {power}, as in {power}={FALLBACK_BOT}")
        named[power] = name
    return named, unassigned


def _lineup(person: str, named: Mapping[str, str], unassigned: Sequence[str]) -> HumanLineup:
    if person in named:
        raise InputError(
            f"--opponents {person}={named[person]}: {person} is yours; leave it out, or give another --power"
        )
    free = [power for power in POWERS if power != person and power not in named]
    turns = {power: unassigned[number % len(unassigned)] for number, power in enumerate(free)}
    names = {**named, **turns}
    players = {name: _find(name) for name in dict.fromkeys(names.values())}
    return HumanLineup(POWERS.index(person), tuple(players[names[p]] if p != person else None for p in POWERS))


def _find(name: str) -> Player:
    player = find_player(name, GAME, bare=GAME.bots)
    check_game(GAME, player)
    return player


def find_rivals(options: DiplomacyOptions, player: Player | None) -> dict[str, Path]:
    """Find the files of --opponents, policies or adapters; `player` is the player of --ckpt, None for bots.

    Raises `InputError` for missing files, and for a language model that is not an adapter.
    """
    rivals = {name: _find_rival(name) for name in options.rivals}
    for name, rival in rivals.items():
        if _is_model(player):
            raise InputError(
                f"--opponents {name}: {options.ckpt} is not an adapter, and only adapters of one model meet; {INSTEAD}"
            )
        if rival == player and not name.startswith(SAMPLED_PREFIX):
            raise InputError(f"--opponents {name}: is --ckpt itself; leave it out")
    return rivals


def _is_model(player: Player | None) -> bool:
    """Return whether a located player is a language model by its name, its address or its folder."""
    if isinstance(player, str):
        return not GAME.builds(player) and not is_code(player)
    return player is not None and player.is_dir()


def _find_rival(name: str) -> Path:
    rival = find_player(name.removeprefix(SAMPLED_PREFIX), GAME, bare=(*GAME.bots, BASE_MODEL))
    if isinstance(rival, str) or rival.is_dir():
        raise InputError(
            f"--opponents {name}: is a model, but an evaluation holds only one; name bots, policies, adapters on"
            f" the model of --ckpt, or {BASE_MODEL} for that model itself"
        )
    return rival
