"""Check a PettingZoo or OpenSpiel game before training: `python eval/check.py my_package.my_game`.

Runs PettingZoo's own interface tests, plays random matches, and trains for half a minute in a run that is discarded.
Prints what is compatible, what to know, and what to change. Imports the module named on the command line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING, Any

if not __package__:  # Run as a script, possibly before installation.
    run_path(str(Path(__file__).parents[1] / "configs" / "installed.py"))["check_installed"]("eval/check.py")

from sparring.configs.core.errors import InputError, as_called
from sparring.configs.games import PACKAGES
from sparring.configs.serialization import read_yaml
from sparring.eval.command import FAILED, CommandReport, announce_loading, make_folders, publish, run_command, written
from sparring.eval.options import SEED, CommandOptions, CommandText, argument, check_suffix, from_keywords, parse

if TYPE_CHECKING:
    from sparring.envs.imported.evaluation.conformance import CheckLine
    from sparring.envs.imported.evaluation.policy import ImportedGame

GAMES = "[16, 1000000]"
TRIAL = "[0, 3600]"

_EXAMPLES = """\
examples:
  python eval/check.py my_package.my_game                   a module with env, parallel_env or raw_env
  python eval/check.py my_package.games:make_duel rounds=5  a function that makes the game, with its own options
  python eval/check.py pettingzoo.classic.connect_four_v3 --trial 0
  python eval/check.py openspiel:leduc_poker

exit codes: 0 nothing to change, 1 something to change, 2 bad input, 130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class CheckOptions(CommandOptions):
    """Options of the command; the game has not been made."""

    TEXT = CommandText(
        "eval/check.py",
        "Check a PettingZoo or OpenSpiel game: its interface, seeds, masks, seats, rewards, spaces and speed, and "
        "half a minute of training.",
        _EXAMPLES,
        usage="python eval/check.py GAME [KEY=VALUE ...] [options]",
    )
    game: str = argument("", metavar="GAME", positional=True)
    """A module, module:function, or openspiel:NAME."""
    kwargs: Mapping[str, Any] = argument((), metavar="KEY=VALUE", positional=True)
    """Options of the game itself."""
    games: int = argument(200, GAMES, metavar="N")
    """Number of random matches."""
    seed: int = argument(0, SEED, metavar="N")
    """Seed of the matches (default: 0)."""
    trial: float = argument(30.0, TRIAL, metavar="S")
    """Seconds of training (default: 30); 0 for none."""
    outcome: str = argument("", metavar="F")
    """env.outcome for training, module:function."""
    observation: str = argument("auto", metavar="O")
    """env.observation for training (default: auto)."""
    roles: tuple[str, ...] = argument((), metavar="R")
    """env.roles for training: the seats of each policy, as in --roles 'adversary_*' 'agent_*'."""
    out: Path | None = argument(None, metavar="JSON")
    """Write the report to this file."""
    quiet: bool = argument(False)
    """Print nothing."""
    package: str = ""
    id: str = ""

    @classmethod
    def from_words(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return the options of the game with values parsed as YAML."""
        game, *pairs = values.pop("game", [""])
        return values | {"game": game, "kwargs": dict(map(_option, pairs))}

    def implied(self) -> dict[str, Any]:
        """Return the package and the game's id in it."""
        package, colon, name = self.game.partition(":")
        if not (colon and package in PACKAGES):
            return {"package": PACKAGES[0], "id": self.game}
        return {"package": package, "id": name}

    def check(self) -> None:
        """Raise `InputError` for a missing game or a report path with another suffix."""
        if not self.id:
            raise InputError("GAME is missing: pass a module, module:function, or openspiel:NAME")
        check_suffix("--out", self.out, ".json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return run_command("eval/check.py", _run, arguments)


def check(options: CheckOptions) -> CommandReport:
    """Check a game. Raises `InputError` for bad input or if the name is not a game."""
    make_folders([], files=[options.out])
    announce_loading(quiet=options.quiet)
    from sparring.envs.imported.evaluation.conformance import FIX, check_game
    from sparring.envs.imported.evaluation.policy import ImportedGame
    from sparring.envs.imported.evaluation.trial import try_training

    game = ImportedGame(
        options.package,
        options.id,
        options.kwargs,
        observation=options.observation,
        outcome=options.outcome,
        roles=options.roles,
    )
    lines = check_game(game, options.games, options.seed)
    broken = any(line.check == "random play" for line in lines)
    if options.trial and not broken:
        lines += try_training(game, options.trial, options.seed)
    faults = sum(line.level == FIX for line in lines)
    about = {"game": game.name, "kwargs": options.kwargs, "games": options.games, "seed": options.seed}
    content = {"kind": "check", **about, "command": options.command, "faults": faults}
    content["lines"] = [asdict(line) for line in lines]
    data = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    files = {options.out: data} if options.out else {}
    return CommandReport(_markdown(game, lines, faults), data, files, options.quiet)


def _option(word: str) -> tuple[str, Any]:
    """Parse a game option, KEY=VALUE, with a YAML value."""
    key, equals, text = word.partition("=")
    if not equals or not key.isidentifier():
        raise InputError(f"{word}: is not an option of the game; write KEY=VALUE, such as board_size=5")
    return key, read_yaml(text)


def _run(arguments: Sequence[str]) -> int:
    report = check(parse(CheckOptions, arguments))
    publish(report.markdown, report.files, quiet=report.quiet)
    return FAILED if report.data["faults"] else 0


def _markdown(game: ImportedGame, lines: Sequence[CheckLine], faults: int) -> str:
    """Return the report as a table; what must be changed comes first."""
    from sparring.envs.imported.evaluation.conformance import FIX, NOTE, OK

    order = {FIX: 0, NOTE: 1, OK: 2}
    rows = [(line.check, line.level, line.text) for line in sorted(lines, key=lambda line: order[line.level])]
    verdict = f"{faults} thing{'s' * (faults != 1)} to change" if faults else "nothing to change"
    start = as_called(f"python train.py env={game.package} env.id={game.id}")
    options = "".join(f" env.kwargs.{key}={value}" for key, value in game.kwargs.items())
    options += f" 'env.roles=[{','.join(game.roles)}]'" if game.roles else ""
    wide = max(len(name) for name, _, _ in rows)
    body = "\n".join(f"- {level.ljust(4)} {name.ljust(wide)}  {text}" for name, level, text in rows)
    return f"# {game.name}: {verdict}\n\n{body}\n\nTrain: `{start}{options}`\n"


def check_game(
    game: str, kwargs: Mapping[str, Any] | None = None, *, progress: bool = False, **options: Any
) -> CommandReport:
    """Check a PettingZoo or OpenSpiel game, as `python eval/check.py GAME KEY=VALUE ...` does; return the report.

    `game` is a module, "module:function" or "openspiel:NAME", and `kwargs` are its own options. `options` are `games`,
    `seed`, `trial` (seconds of training, 0 for none), `outcome`, `observation` and `out`. `data` has `faults`, the
    number of things to change, and `lines`.

    Raises `InputError` for bad input, in one line, or if `game` is not a game.
    """
    keywords = {"game": game, "kwargs": kwargs, **options, "quiet": not progress}
    return written(check(from_keywords(CheckOptions, keywords)))


if __name__ == "__main__":
    sys.exit(main())
