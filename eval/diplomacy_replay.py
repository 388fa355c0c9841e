"""Replay of a Diplomacy game: `python eval/diplomacy_replay.py --out game.html`; `--help` lists the options.

Bots and policies play one game, or a saved game is read (from this project or the package `diplomacy`). Writes a
self-contained HTML page, text, or a saved game. Also checks saved games: exit code 1 if a phase differs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING, Any, cast

if not __package__:  # Run as a script, possibly before installation.
    run_path(str(Path(__file__).parents[1] / "configs" / "installed.py"))["check_installed"]("eval/diplomacy_replay.py")

from sparring.agents.opponents.players import BOT_PREFIX, Player, display_name
from sparring.configs.core.errors import InputError, one_line
from sparring.configs.core.files import holds, write_atomically
from sparring.configs.core.status import COMPILING, said_if_long
from sparring.envs.diplomacy.board.codes import BOTS
from sparring.envs.diplomacy.evaluation.lineup import FALLBACK_BOT, find_lineup, load_seats, read_lineup
from sparring.envs.diplomacy.evaluation.page import UNKNOWN, write_replay
from sparring.envs.diplomacy.records.game_log import game_log, result
from sparring.envs.diplomacy.records.timeline import Phase, phases_of
from sparring.eval.command import announce_loading, make_folders, run_command, write
from sparring.eval.options import RESULTS, SEED, CommandOptions, CommandText, Pairs, argument, from_keywords, parse

if TYPE_CHECKING:
    from sparring.envs.diplomacy.records.history import PhaseRecord

LAST_YEAR = "[1901, 2000]"
VIA = ("sea", "land")
_GAME = "the game"

_EXAMPLES = f"""\
examples:
  python eval/diplomacy_replay.py --out game.html --players dumbbot --seed 3
  python eval/diplomacy_replay.py --out game.html --players FRANCE=final.pt,dumbbot --last-year 1920
  python eval/diplomacy_replay.py --out game.html --players RUSSIA=chaos,TURKEY=chaos,dumbbot
  python eval/diplomacy_replay.py --out game.html --players FRANCE=search:seconds=0.5,dumbbot
  python eval/diplomacy_replay.py --log game.txt --save game.json      the game as text and as a saved game
  python eval/diplomacy_replay.py --game game.json --out game.html     a saved game, ours or of the package diplomacy
  python eval/diplomacy_replay.py --game games.jsonl --verify          every phase adjudicated again

bots: {", ".join(BOTS)}
A policy orders movements; its retreats and adjustments are left to the bot of the powers that are not named, or
else to {FALLBACK_BOT}. Language models do not play here, but in eval/run.py --ckpt C --replay game.html.
exit codes: 0 done, 1 --verify found a difference, 2 bad input, 130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(CommandOptions):
    """Options of the command; players and files have not been located yet."""

    TEXT = CommandText(
        "eval/diplomacy_replay.py",
        "Play a game of Diplomacy between bots and policies, or read a saved one. Write it as a web page, as text, or "
        "as a saved game, or check saved games against the adjudicator.",
        _EXAMPLES,
    )
    players: Pairs = argument((), metavar="P", group=_GAME, split=True)
    """A bot or a policy for all powers, POWER=P for one (default: random)."""
    seed: int = argument(None, SEED, metavar="N", group=_GAME)
    """Seed of the bots (default: 0)."""
    last_year: int = argument(None, LAST_YEAR, metavar="Y", group=_GAME)
    """Year after which the game is a draw (default: 1910)."""
    game: Path | None = argument(None, metavar="JSON", group=_GAME)
    """Show this saved game instead of playing one."""
    verify: bool = argument(False, group=_GAME)
    """Adjudicate all phases of --game, or of each line of a .jsonl, again; report the first that differs."""
    via: str = argument(None, VIA, metavar="V", group=_GAME)
    """How to read a move VIA without a convoy: sea or land (default: sea, the unit stays)."""
    out: Path | None = argument(None, metavar="HTML", group=RESULTS)
    """The page, such as game.html."""
    log: Path | None = argument(None, metavar="TXT", group=RESULTS)
    """Write the game as text."""
    save: Path | None = argument(None, metavar="JSON", group=RESULTS)
    """Write the game in a format that --game reads."""
    quiet: bool = argument(False, group=RESULTS)
    """Print only failures, without a bar or table."""
    lineup: tuple[str, ...] = ()
    """Seven names, in power order."""
    rest: str = ""
    """The player given without a power."""

    @property
    def files(self) -> list[Path]:
        """Output paths."""
        return [path for path in (self.out, self.log, self.save) if path is not None]

    def implied(self) -> dict[str, Any]:
        """Return the powers' players, and defaults. Raises `InputError` for options that a saved game lacks."""
        for name in ("players", "seed", "last_year"):
            if self.game is not None and self.gives(name):
                option = f"--{name.replace('_', '-')}"
                raise InputError(f"{option} does not apply to --game, a finished game; remove one of them")
        lineup, rest = read_lineup(self.players or (("", "random"),))
        return {
            "lineup": lineup,
            "rest": rest,
            "seed": self.seed or 0,
            "last_year": 1910 if self.last_year is None else self.last_year,
        }

    def check(self) -> None:
        """Raise `InputError` without an output, or for one with a wrong suffix or named twice."""
        if (self.verify or self.via) and self.game is None:
            raise InputError(f"--{'verify' if self.verify else 'via'} needs a saved game; add --game game.json")
        if self.verify and self.files:
            raise InputError("--verify does not write files; remove --out, --log and --save")
        if not self.files and not self.verify:
            raise InputError("--out is missing: name the page, as in --out game.html, or use --log or --save")
        if self.out is not None and self.out.suffix.lower() != ".html":
            raise InputError(
                f"--out {str(self.out)!r}: must end in .html, since it is a page for a browser; or use --log or --save"
            )
        first: dict[Path, str] = {}
        for option in ("game", "out", "log", "save"):
            path = getattr(self, option)
            if path is not None and (other := first.setdefault(path, option)) != option:
                raise InputError(f"--{option} {str(path)!r}: is already the file of --{other}; choose another")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return run_command("eval/diplomacy_replay.py", _run, arguments)


def write_game(options: ReplayOptions) -> tuple[Path, ...]:
    """Play or read the game of `options`, write it, and return the files. Raises `InputError`."""
    lineup = find_lineup(options.lineup)
    if options.game is not None and not holds(options.game.is_file):
        raise InputError(f"--game {str(options.game)!r}: no such file")
    make_folders([], files=options.files)
    announce_loading(quiet=options.quiet)
    if options.game is None:
        _publish(options, *play(options, lineup))
    else:
        _publish(options, *_read(options.game, via=options.via or VIA[0], quiet=options.quiet))
    return tuple(options.files)


def play(options: ReplayOptions, lineup: Sequence[Player]) -> tuple[list[PhaseRecord], list[Phase], list[str]]:
    """Play one game to its end; return its records, its phases, and the players, searches with their seeds."""
    from sparring.envs.diplomacy.records.history import WatchedBatch
    from sparring.envs.diplomacy.rollouts.games import play_to_end
    from sparring.envs.diplomacy.search.player import expected, played_names

    rest = options.rest.removeprefix(BOT_PREFIX)
    seats = load_seats(lineup, bot=rest if rest in BOTS else FALLBACK_BOT)
    with said_if_long(COMPILING, enabled=not options.quiet):
        batch = WatchedBatch(1, last_year=options.last_year, threads=1)
        batch.load_kernels()  # Compile while the message is shown, not silently during the game.
    players = [player for player, _ in seats]
    batch.believed = partial(expected, players=players)
    play_to_end(batch, seats, seed=options.seed)
    batch.close()
    past = batch.past()
    return past, phases_of(past), played_names([display_name(player) for player in lineup], players)


def verify_game(options: ReplayOptions) -> int:
    """Print how many phases of a saved game differ, and the first of them; return 1 if there is one, else 0."""
    from sparring.envs.diplomacy.records.saved_game import verify_file

    path = cast(Path, options.game)
    with said_if_long(COMPILING, enabled=not options.quiet):
        phases, differing = verify_file(path, via=options.via or VIA[0])
    if not options.quiet:
        moved = sum(difference.in_position for difference in differing)
        detail = f": {moved} in the next position, {len(differing) - moved} only in results" if differing else ""
        print(f"{phases} phases adjudicated again, {len(differing)} differ{detail}")
    for difference in differing[:1]:
        print(one_line(f"{path}: game {difference.game}, {difference}"), file=sys.stderr)
    return int(bool(differing))


def _run(arguments: Sequence[str]) -> int:
    options = parse(ReplayOptions, arguments)
    if options.verify:
        return verify_game(options)
    write_game(options)
    return 0


def _read(path: Path, *, via: str, quiet: bool) -> tuple[list[PhaseRecord], list[Phase], list[str]]:
    """Return a saved game, its phases and its players. Raises `InputError` if it cannot be shown."""
    from sparring.envs.diplomacy.records.saved_game import load, load_players

    with said_if_long(COMPILING, enabled=not quiet):
        game, players = load(path, via=via), list(load_players(path))
    try:
        return game, phases_of(game), players
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _publish(
    options: ReplayOptions, game: Sequence[PhaseRecord], phases: Sequence[Phase], players: Sequence[str]
) -> None:
    """Write the requested outputs and print their paths."""
    from sparring.envs.diplomacy.records.saved_game import save
    from sparring.envs.diplomacy.records.verification import summary

    ended = result(phases)
    if options.out is not None:
        nameless = f"Diplomacy: {options.game.name} · {ended}" if options.game and not any(players) else ""
        write(options.out, partial(write_replay, phases=phases, players=players, title=nameless))
    if options.log is not None:
        names = [name or UNKNOWN for name in players] if any(players) else []
        write(options.log, partial(write_atomically, data=game_log(phases, players=names)))
    if options.save is not None:
        write(options.save, partial(save, game=game, players=players))
    if not options.quiet:
        print(*map(one_line, (*summary(game), f"{len(phases) - 1} phases, {ended}")), sep="\n")
        print("Wrote", ", ".join(map(str, options.files)))


def replay_game(
    out: str | Path | None = None, *, players: Any = None, progress: bool = False, **options: Any
) -> tuple[Path, ...]:
    """Play or read a game of Diplomacy and write it, as `python eval/diplomacy_replay.py --out OUT` does.

    `out` is the page. `players` is one player for all powers, a list of seven, or a mapping from powers, where the key
    "" covers all others: `{"FRANCE": "final.pt", "": "dumbbot"}`. `options` are `seed`, `last_year`, `game`, a saved
    game, `log`, the game as text, and `save`. Returns the written files. Raises `InputError` for bad input.
    """
    keywords = {"out": out, "players": players, **options, "quiet": not progress}
    return write_game(from_keywords(ReplayOptions, keywords))


if __name__ == "__main__":
    sys.exit(main())
