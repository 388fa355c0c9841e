"""Evaluate bots, policies and language models in Diplomacy: `python eval/run.py --env diplomacy --ladder`.

One power is played by one player and six by another, each power equally often; a game that nobody has won by the end of
the last year, which is that of the checkpoint's training unless --last-year names one, is a draw. Says for either side
solos, draws and losses, the shares by draw size and by sum of squares, centres, survival and rank, with 95 % intervals,
and writes them beside the checkpoint or where --out says, and with --replay a game to watch. Where a server or Ctrl-C
ends the games of a language model, the rounds that are whole are written, with `partial` in the files' names, and
stderr says how many games these are. Exit codes: 0 done, 2 bad input or a server that fails (on stderr), 130 stopped
with Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sparring.configs.core.errors import InputError
from sparring.eval import find
from sparring.eval.command import make_folders, publish, run_command, write
from sparring.eval.diplomacy.candidates import beside, find_candidate
from sparring.eval.diplomacy.games import Played, play, settle
from sparring.eval.diplomacy.options import DiplomacyOptions, read_options
from sparring.eval.diplomacy.rivals import find_rivals
from sparring.eval.diplomacy.tables import references_json, references_markdown, to_json, to_markdown

if TYPE_CHECKING:
    from sparring.curriculum.league.league import League

__all__ = ["main", "read_options"]
LEAGUE = "league.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, `sys.argv` unless given, and return the exit code."""
    return run_command("eval/run.py", _run, arguments)


def _run(arguments: Sequence[str]) -> int:
    options = read_options(arguments)
    if options.league:
        return _show_league(options, options.league)
    found = find_candidate(options.ckpt) if options.ckpt else None
    rivals = find_rivals(options, found)
    make_folders([options.out] if options.out else [], files=[options.replay] if options.replay else [])
    options = settle(options, found)
    played = play(options, found, rivals)
    if played.records:
        _publish(options, found, played)
    if played.cut is not None:
        print(_what_is_left(options, played), file=sys.stderr)
        raise played.cut
    return 0


def _publish(options: DiplomacyOptions, found: Path | str | None, played: Played) -> None:
    text = to_markdown(options, played.records, played.about)
    data = to_json(options, played.records, played.about)
    publish(text, _files(options, found, data, text, partial=played.cut is not None), quiet=options.quiet)
    if options.replay:
        _write_replay(options.replay, played, quiet=options.quiet)


def _files(
    options: DiplomacyOptions, found: Path | str | None, data: str, text: str, *, partial: bool
) -> dict[Path, str | bytes]:
    """Where results go: as asked for, else beside the checkpoint; bots and models without a place have none.

    Those of a part of the games have names of their own, and so never take the place of those of all.
    """
    place = None if found is None else beside(found)
    if options.out:
        place = options.out, "diplomacy"
    if place is None:
        return {}
    name = f"{place[1]}.partial" if partial else place[1]
    return {place[0] / f"{name}.json": data, place[0] / f"{name}.md": text}


def _what_is_left(options: DiplomacyOptions, played: Played) -> str:
    """The line about games that were cut off."""
    done = played.records[0].games if played.records else 0
    kept = "the table is of these" if done else "nothing is written"
    lost = "games of one round are played side by side, and those under way are lost"
    return f"eval/run.py: stopped after {done} of {options.games} games per pair; {kept}; {lost}"


def _write_replay(path: Path, played: Played, *, quiet: bool) -> None:
    from sparring.eval.diplomacy.page import write_replay

    write(path, partial(write_replay, phases=played.phases, players=played.players, note=played.note))
    if not quiet:
        print(f"Wrote {path}")


def _show_league(options: DiplomacyOptions, text: str) -> int:
    """Print a run's fixed references, and write them where --out says."""
    name, league = _read_league(text)
    make_folders([options.out] if options.out else [])
    markdown, files = references_markdown(name, league), {}
    if options.out:
        data = references_json(name, league)
        files = {options.out / "references.json": data, options.out / "references.md": markdown}
    publish(markdown, files, quiet=options.quiet)
    return 0


def _read_league(text: str) -> tuple[str, League]:
    """A run's name and its league, the run given by its name or folder."""
    from sparring.curriculum.league.file import LeagueFile

    folder = find.find_folder(text, find.CHECKPOINTS, holding=LEAGUE)
    if folder is None:
        runs = sorted(path.parent.name for path in find.CHECKPOINTS.glob(f"*/{LEAGUE}"))
        choices = f"choose from {', '.join(runs)}" if runs else f"no run in {find.CHECKPOINTS} has one yet"
        raise InputError(f"--league {text!r}: no {LEAGUE} there or in checkpoints/{text}; {choices}")
    return folder.name, LeagueFile(folder).read()
