"""Shared command-line options of the evaluation commands, validated without torch so that errors appear at once.

A command creates a `Parser`, adds its own options to the groups returned by these functions, and reads.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any, NoReturn

from sparring.agents.opponents.players import display_name, find_checkpoint
from sparring.agents.run.folder import FINAL
from sparring.configs.core.allowed import complaint
from sparring.configs.core.errors import ConfigError, InputError, UnknownNameError, choices, choose, nearest
from sparring.configs.core.files import unusable_text, user_path
from sparring.configs.core.status import as_called
from sparring.configs.games import DOGFIGHT_V0
from sparring.configs.schema import DEVICE
from sparring.envs.dogfight.rules import BOT_RATES, BOTS, HELD_OUT, LEVELS, REGIMES, RULES
from sparring.envs.game import games
from sparring.eval.stats.ratings import Anchor

REGIME_NAMES = (*LEVELS, *REGIMES)
ALL = "all"
GAMES = "[2, 1000000]"
SEED = "[0, 2147483647]"
THREADS = "[0, 4096]"
WIDTH = 120

ENV_VERSIONS = ("0", "1")
"""Dogfight versions; the last is the current one."""

HELD_OUT_SET = "held_out"
OPPONENT_SETS = {"bots": BOTS, HELD_OUT_SET: HELD_OUT}
"""Names that stand for several opponents."""

Group = argparse._ArgumentGroup


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """Options of `eval/run.py` in every game. The values have been validated; players have not been located."""

    ckpt: str
    """Empty if not given."""
    seed: int
    device: str
    threads: int
    out: Path | None
    quiet: bool
    command: str
    """The full command line as typed."""


@dataclass(frozen=True, kw_only=True)
class PlayOptions(CommonOptions):
    """Options of every command that plays the dogfight."""

    opponents: tuple[str, ...]
    """Without duplicates; the members of a set in its place."""
    sets: tuple[str, ...]
    """Those of `OPPONENT_SETS` that were named."""
    anchor: Anchor | None
    stochastic: bool
    env_version: int
    """Oldest environment version accepted for the evaluated policy."""
    games: int
    regimes: tuple[str, ...]
    rules: str | None
    bot_rate: str | None


class Parser(argparse.ArgumentParser):
    """Parser of the command `script` that raises `InputError` with one line, without the usage.

    `env` is the game, a value of --env, whose options `eval/run.py` then has.
    """

    def __init__(self, script: str, description: str, epilog: str = "", *, env: str = "") -> None:
        self.script = script
        super().__init__(
            prog=f"python {script} --env {env}" if env else f"python {script}",
            description=fill(description, WIDTH),
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if env:
            self.add_argument(
                "--env",
                help="the game, where it is not that of --ckpt: dogfight, diplomacy, chess, gymnasium, pettingzoo, "
                "openspiel",
            )

    def format_help(self) -> str:
        """Return the help, with commands as they are called."""
        return as_called(super().format_help())

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing and exiting."""
        raise InputError(f"{message}; --help lists the options")

    def read(self, arguments: Sequence[str]) -> dict[str, Any]:
        """Return values by option, and the full `command`. An unknown option raises with the nearest known one."""
        values, unknown = self.parse_known_args(arguments)
        for action in self._actions:
            _check_texts((*action.option_strings, action.dest)[0], getattr(values, action.dest, None))
        flags = [text for action in self._actions for text in action.option_strings]
        for text in unknown:
            if text.startswith("-"):
                _refuse_option(text.partition("=")[0], flags, self.prog.partition(" --env ")[2])
            self.error(f"unexpected {text!r}: say which option it belongs to, as in --ckpt {text}")
        read = {name: value for name, value in vars(values).items() if name != "env"}
        return read | {
            "command": f"{as_called(f'python {self.script}')} {shlex.join(map(_lasting, arguments))}".strip()
        }

    def read_play(self, arguments: Sequence[str]) -> dict[str, Any]:
        """Call `read`, then validate and convert the fields of `PlayOptions`. Raises `InputError`."""
        values = self.read(arguments)
        _check_conditions(values)
        named = read_names("--opponents", values["opponents"])
        values["sets"] = tuple(name for name in named if name in OPPONENT_SETS)
        members = [member for name in named for member in OPPONENT_SETS.get(name, (name,))]
        values["opponents"] = tuple(dict.fromkeys(members))
        values["regimes"] = _regimes(values["regimes"])
        values["anchor"] = Anchor.parse(values["anchor"]) if values["anchor"] else None
        values["env_version"] = int(choose("--env-version", values["env_version"], ENV_VERSIONS))
        return values


def add_players(parser: Parser, *, ckpt: str, metavar: str, opponents: str) -> Group:
    """Add the player options; `ckpt` and `opponents` are the help texts of these two."""
    group = parser.add_argument_group("who plays")
    group.add_argument("--ckpt", default="", metavar=metavar, help=ckpt)
    group.add_argument("--opponents", nargs="+", default=["bots"], metavar="O", help=opponents)
    group.add_argument(
        "--anchor",
        metavar="A",
        help="whose rating is fixed, as in ace or ace=1000 (default: the hardest bot that plays, brawler, at 0)",
    )
    group.add_argument(
        "--stochastic", action="store_true", help="let policies sample their actions (ONNX agents never do)"
    )
    group.add_argument(
        "--env-version",
        default=ENV_VERSIONS[-1],
        metavar="|".join(ENV_VERSIONS),
        help=f"0 lets a classic policy of {DOGFIGHT_V0} be evaluated in today's game, which the table then says",
    )
    return group


def add_conditions(parser: Parser, *, games: int) -> None:
    """Add the match options; `games` is the default number per pair of players."""
    group = parser.add_argument_group("under what conditions")
    group.add_argument(
        "--games", type=int, default=games, metavar="N", help=f"games per opponent, even (default: {games})"
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the matches (default: 0)")
    group.add_argument(
        "--regimes", nargs="+", default=["none"], metavar="R", help="levels and regimes of physics, or all"
    )
    group.add_argument("--rules", metavar="|".join(RULES), help="default: those the policy was trained under")
    group.add_argument(
        "--bot-rate", metavar="|".join(BOT_RATES), help="bots decide every tick (default) or as often as policies"
    )
    add_machine(group)


def add_machine(group: Group) -> None:
    """Add the seed, device and thread options."""
    group.add_argument("--device", default="auto", metavar="D", help="auto, cpu, cuda, cuda:1 ... (default: auto)")
    group.add_argument("--threads", type=int, default=0, metavar="N", help="CPU threads; 0 is every core (default)")


def check_machine(values: dict[str, Any]) -> None:
    """Raise `InputError` for an invalid seed, number of threads or device."""
    for name, allowed in {"seed": SEED, "threads": THREADS}.items():
        check_number(f"--{name}", values[name], allowed)
    if wrong := complaint(values["device"], DEVICE):
        raise InputError(f"--device {values['device']!r}: {wrong}")


def add_results(parser: Parser, *, out: str, metavar: str) -> Group:
    """Add the output options; `out` is the help text of --out."""
    group = parser.add_argument_group("what becomes of the results")
    group.add_argument("--out", type=Path, metavar=metavar, help=out)
    group.add_argument("--quiet", action="store_true", help="no bar, no table; only what failed")
    return group


def check_number(option: str, value: float, allowed: str) -> None:
    """Raise `InputError` unless `value` lies in the interval `allowed`."""
    wrong = complaint(value, allowed)
    if wrong:
        raise InputError(f"{option} {value}: {wrong}")


def check_page(path: Path | None, instead: str = "", *, option: str = "--replay") -> None:
    """Raise `InputError` unless the path of `option`, if any, is that of a page; `instead` offers another output."""
    if path is not None and path.suffix.lower() not in (".html", ".htm") and not path.is_dir():
        raise InputError(f"{option} {str(path)!r}: is a page for a browser; give a name that ends in .html{instead}")


def _refuse_option(name: str, flags: Sequence[str], game: str) -> NoReturn:
    """Raise for an unknown option, of `game` if the command has several games, since it may be one of another game.

    The dashes are left out of the search, which every option would share.
    """
    near = nearest(name.lstrip("-"), [flag.lstrip("-") for flag in flags])
    hint = f"--{near}" if near and f"--{near}" in flags else ""
    other = f"; these are the options of {game}, --env names another game" if game else ""
    raise UnknownNameError(f"unknown option {name!r}: {choices(name, flags, near=hint)}{other}")


def _check_texts(option: str, value: Any) -> None:
    """Raise `ConfigError` for a path that no file can have, and for text that no path could hold."""
    if isinstance(value, Path):
        user_path(option, value)
    for text in value if isinstance(value, list | tuple) else [value]:
        if isinstance(text, str) and (wrong := unusable_text(text)):
            raise ConfigError(f"{option}={text!r}: {wrong}")


def _lasting(word: str) -> str:
    """Return a word for the stored command, with the name of a run in place of a path that means another run later."""
    names = [word] if isinstance(word, WholeName) else word.split(",")
    return ",".join(_run_of(name) if Path(name).name == FINAL else name for name in names)


def _run_of(name: str) -> str:
    try:
        return display_name(find_checkpoint(name))
    except InputError:
        return name  # refused where it is used


def _check_conditions(values: dict[str, Any]) -> None:
    check_number("--games", values["games"], GAMES)
    check_machine(values)
    if values["games"] % 2:
        raise InputError(f"--games {values['games']}: must be even, since every match is played from both seats")
    for name, known in {"rules": RULES, "bot_rate": BOT_RATES}.items():
        if values[name] is not None:
            choose(name, values[name], known)


def _regimes(words: Sequence[str]) -> tuple[str, ...]:
    """Parse names of levels and regimes; `all` selects every one."""
    names = read_names("--regimes", words)
    for name in names:
        choose("regime", name, (*REGIME_NAMES, ALL))
    return REGIME_NAMES if ALL in names else names


class WholeName(str):
    """One name in a call, such as the path of a policy, which is not split at its commas and signs."""

    __slots__ = ("key",)
    key: str | None
    """Key of a mapping under which it is given, in front of an equals sign; empty for an object or a path by itself,
    None for text, in which a key may stand."""

    def __new__(cls, text: str, key: str | None = None) -> WholeName:
        """Return `text`, which begins with `key=` if there is a key."""
        name = super().__new__(cls, text)
        name.key = key
        return name


def split_names(words: Sequence[str]) -> list[str]:
    """Return the names in words of a command line, separated by commas, and those of a call as they are.

    Options of a player, as in search:seconds=1,seed=2, stay with it.
    """
    names: list[str] = []
    for word in words:
        for part in [word] if isinstance(word, WholeName) else map(str.strip, word.split(",")):
            if names and part.partition("=")[0] in _option_keys(names[-1]):
                names[-1] = f"{names[-1]},{part}"
            elif part:
                names.append(part)
    return names


def _option_keys(name: str) -> tuple[str, ...]:
    """Return the keys that may follow in the name of a player with options, empty for another."""
    kind = name.partition(":")[0].rpartition("=")[2]
    return next((player.keys for game in games() for player in game.built_players if player.kind == kind), ())


def keyed_name(word: str) -> tuple[str, str]:
    """Return the key and the name of KEY=NAME; the key of a name without one is empty."""
    key = getattr(word, "key", None)
    if key is not None:
        return key, word[len(key) + 1 :] if key else str(word)
    key, equals, name = word.partition("=")
    return (key, name) if equals and ":" not in key else ("", word)


def read_names(option: str, words: Sequence[str]) -> tuple[str, ...]:
    """Return names separated by spaces, commas or both, without duplicates."""
    names = split_names(words)
    if not names:
        raise InputError(f"{option} is empty: name at least one")
    return tuple(dict.fromkeys(names))
