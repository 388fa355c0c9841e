"""Evaluate bots, policies and language models in Diplomacy: `python eval/run.py --ckpt bot:dumbbot`.

One player has one power and another the other six, each power equally often. A game without a winner after the last
year (--last-year, else that of the checkpoint's training) is a draw. Prints for each side solos, draws, losses, shares
by draw size and by sum of squares, centres, survival and rank, with 95 % intervals. Writes them beside the checkpoint
or to --out, and with --replay a game to watch. If a server fails or Ctrl-C stops a language model, complete rounds are
written to files named `partial`, and their number of games is printed on stderr.
Exit codes: 0 done, 2 bad input or a failing server (on stderr), 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sparring.agents.opponents.players import Player, find_folder, find_player, results_place, runs_with
from sparring.configs.core.errors import InputError, choices
from sparring.configs.core.paths import CHECKPOINTS
from sparring.curriculum.league.league import BASE_MODEL
from sparring.envs.diplomacy import GAME
from sparring.eval.command import make_folders, publish_results, run_command, use_machine, write_asked
from sparring.eval.diplomacy.games import Played, play_bots
from sparring.eval.diplomacy.models import LanguagePlayer, find_rivals, load
from sparring.eval.diplomacy.options import DiplomacyOptions, read_options
from sparring.eval.diplomacy.settings import last_year_of
from sparring.eval.diplomacy.tables import references_json, references_markdown, to_json, to_markdown

if TYPE_CHECKING:
    from sparring.agents.policies.actor_critic import ActorCritic
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
    found = find_player(options.ckpt, GAME) if options.ckpt else None
    rivals = find_rivals(options, found)
    make_folders([options.out], files=[options.replay])
    device, threads = use_machine(options.device, options.threads, quiet=options.quiet)
    if isinstance(found, Path) and not options.last_year_given:
        options = replace(options, last_year=last_year_of(found) or options.last_year)
    player = _load(options, found, device, rivals)
    if isinstance(player, LanguagePlayer):
        from sparring.eval.diplomacy.language import play_language

        played = play_language(options, player, device, threads)
    else:
        played = play_bots(options, player, device, threads)
    if played.records:
        _publish(options, found, played)
    if played.cut is not None:
        print(_what_is_left(options, played), file=sys.stderr)
        raise played.cut
    return 0


def _load(
    options: DiplomacyOptions, found: Player | None, device: str, rivals: Mapping[str, Path]
) -> LanguagePlayer | ActorCritic | None:
    """Load the player of --ckpt, None for bots; raises `InputError` for unusable players and options."""
    player = None
    if found is not None:
        temperature = options.temperature or 0.0
        player = load(found, temperature=temperature, device=device, settings=options.settings, rivals=rivals)
    language = isinstance(player, LanguagePlayer)
    if BASE_MODEL in options.opponents and not (isinstance(player, LanguagePlayer) and BASE_MODEL in player.models):
        what = "a model on a server" if language else "a policy, not an adapter"
        raise InputError(f"--opponents {BASE_MODEL}: {options.ckpt} is {what}; name bots")
    for name in () if language else options.rivals:
        raise InputError(f"--opponents {name}: {options.ckpt} is a policy, not an adapter, and meets bots alone")
    for name in () if language else options.language_only:
        raise InputError(f"--{name}: {options.ckpt} is no language model; leave it out")
    return player


def _publish(options: DiplomacyOptions, found: Player | None, played: Played) -> None:
    """Print the results, and write them to --out, else beside the checkpoint.

    Partial results have names of their own, and so never replace complete ones.
    """
    text = to_markdown(options, played.records, played.about)
    data = to_json(options, played.records, played.about)
    place = None if found is None else results_place(found)
    folder, name = (options.out, "diplomacy") if options.out else place or (None, "")
    name = f"{name}.partial" if played.cut is not None else name
    publish_results(folder, name, text, data, quiet=options.quiet)
    if options.replay:
        from sparring.eval.diplomacy.page import write_replay

        writer = partial(write_replay, phases=played.phases, players=played.players, note=played.note)
        write_asked(options.replay, writer, quiet=options.quiet)


def _what_is_left(options: DiplomacyOptions, played: Played) -> str:
    """Return the message about games that were cut off."""
    done = played.records[0].games if played.records else 0
    kept = "the table is of these" if done else "nothing is written"
    lost = "games of one round are played side by side, and those under way are lost"
    return f"eval/run.py: stopped after {done} of {options.games} games per pair; {kept}; {lost}"


def _show_league(options: DiplomacyOptions, text: str) -> int:
    """Print a run's fixed references, and write them to --out."""
    name, league = _read_league(text)
    make_folders([options.out])
    markdown, data = references_markdown(name, league), references_json(name, league)
    publish_results(options.out, "references", markdown, data, quiet=options.quiet)
    return 0


def _read_league(text: str) -> tuple[str, League]:
    """Return a run's name and league, given its name or folder."""
    from sparring.curriculum.league.file import LeagueFile

    folder = find_folder(text, holding=LEAGUE)
    if folder is None:
        runs = runs_with(LEAGUE)
        known = choices(text, runs) if runs else f"no run in {CHECKPOINTS} has one yet"
        raise InputError(f"--league {text!r}: no {LEAGUE} there or in checkpoints/{text}; {known}")
    return folder.name, LeagueFile(folder).read()
