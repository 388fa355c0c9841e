"""Evaluate bots, policies and language models in Diplomacy: `python eval/run.py --ckpt bot:dumbbot`.

One player has one power and another the other six, each power equally often. A game without a winner after the last
year (--last-year, else that of the checkpoint's training) is a draw. Prints for each side solos, draws, losses, shares
by draw size and by sum of squares, centres, survival and rank, with 95 % intervals. Writes them beside the checkpoint
or to --out, and with --replay a game to watch. If a server fails or Ctrl-C stops a language model, complete rounds are
written to files named `partial`, and their number of games is printed on stderr.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sparring.agents.opponents import players
from sparring.agents.opponents.language import has_config, run_of
from sparring.agents.run.folder import RunFolder
from sparring.configs.core.errors import InputError, choices
from sparring.configs.core.files import CHECKPOINTS
from sparring.configs.opponents import is_code
from sparring.curriculum.league.league import BASE_MODEL
from sparring.envs.diplomacy import GAME
from sparring.envs.diplomacy.board.codes import NUM_POWERS
from sparring.envs.diplomacy.board.positions import FIRST_YEAR, LAST_YEAR
from sparring.envs.diplomacy.evaluation.lineup import find_rivals
from sparring.envs.diplomacy.evaluation.options import DiplomacyOptions
from sparring.envs.diplomacy.validation import check_whole
from sparring.eval.command import (
    Evaluation,
    GameEvaluation,
    kept_cells,
    make_folders,
    options_key,
    prepare_torch,
    use_machine,
)

if TYPE_CHECKING:
    from sparring.curriculum.league.league import League
    from sparring.envs.diplomacy.evaluation.games import Played
    from sparring.envs.diplomacy.training.opponents import DiplomacyPlayer

LEAGUE = "league.json"


def evaluate(options: DiplomacyOptions) -> Evaluation:
    """Play the games of `options`; games cut short are part of the result. Raises `InputError` for bad input."""
    if options.league:
        return _references(options, options.league)
    if options.pool:
        return _pooled(options)
    player = players.find_player(options.ckpt, GAME) if options.ckpt else None
    players.check_game(GAME, *([player] if player else []))
    rivals = find_rivals(options, player)
    make_folders([options.out], files=[options.replay])
    device, threads = use_machine(options.device, options.runner.task_threads, quiet=options.quiet)
    if isinstance(player, Path) and not options.last_year_given:
        options = replace(options, last_year=last_year_of(player) or options.last_year)
    loaded = _load(options, player, device, rivals)
    from sparring.envs.diplomacy.evaluation.games import KeptFile, play_bots, play_language
    from sparring.envs.diplomacy.training.opponents import LanguagePlayer

    file = kept_cells(_place(options, player))
    key = options_key(options, [player, *options.opponents, *rivals.values()]) if file else ""
    saved = KeptFile(file, key) if file and key else None
    if isinstance(loaded, LanguagePlayer):
        played = play_language(options, loaded, device, threads, saved)
    else:
        assert not isinstance(loaded, str)
        played = play_bots(options, loaded, device, threads, rivals, saved)
    return _evaluation(options, player, played)


def last_year_of(path: Path) -> int | None:
    """Return the last year of the training of a file or folder from `find_player`, or None.

    It is in a policy's own file; for an adapter or a model's folder it is in the configuration of its run. Later years
    are beyond a policy's experience. Raises `InputError` for an invalid year.
    """
    contract = None if path.is_dir() else players.content_of(path).get("contract")
    year = contract.get("last_year") if isinstance(contract, dict) else None
    if year is None and has_config(run := run_of(path)):
        env = RunFolder(run).read_config().get("env")
        year = env.get("last_year") if isinstance(env, dict) else None
    if year is None:
        return None
    try:
        return check_whole("last_year", year, FIRST_YEAR, LAST_YEAR)
    except InputError as error:
        raise InputError(f"{path}: {error}; give --last-year") from error


def _load(
    options: DiplomacyOptions, player: players.Player | None, device: str, rivals: Mapping[str, Path]
) -> DiplomacyPlayer | None:
    """Load the player of --ckpt, None for bots; raises `InputError` for unusable players and options."""
    from sparring.agents.opponents.language import is_adapter
    from sparring.envs.diplomacy.training.opponents import LanguageOptions, LanguagePlayer, open_player

    how = LanguageOptions(options.temperature or 0.0, options.settings, rivals)
    loaded = None if player is None else open_player(player, device, language=how)
    language = isinstance(loaded, LanguagePlayer)
    if BASE_MODEL in options.opponents and not (isinstance(loaded, LanguagePlayer) and BASE_MODEL in loaded.models):
        what = "a model on a server" if language else "a policy, not an adapter"
        raise InputError(f"--opponents {BASE_MODEL}: {options.ckpt} is {what}; name bots")
    for name, rival in {} if language else rivals.items():
        if is_adapter(rival):
            who = f"{options.ckpt} is a policy" if isinstance(player, Path) else "the others are bots or searches"
            raise InputError(
                f"--opponents {name}: is a language model; {who}, not an adapter, and it meets adapters only"
            )
    for name in [name for name in options.opponents if is_code(name) or GAME.builds(name)] if language else []:
        raise InputError(f"--opponents {name}: {options.ckpt} is a language model, which meets bots and adapters only")
    if language and not options.runner.alone:
        raise InputError(f"--workers: {options.ckpt} is a language model, which plays in one process; leave it out")
    for name in () if language else options.language_only:
        raise InputError(f"--{name}: {options.ckpt} is not a language model; leave it out")
    return loaded


def _evaluation(options: DiplomacyOptions, player: players.Player | None, played: Played) -> Evaluation:
    """Return the results, with their place: --out, else beside the checkpoint.

    Partial results have names of their own, and so never replace complete ones.
    """
    cut, note = played.cut, _remaining_note(options, played) if played.cut is not None else ""
    if not played.records:
        return Evaluation("", "", cut=cut, cut_note=note, quiet=options.quiet)
    from sparring.envs.diplomacy.evaluation.results import to_json, to_markdown

    text = to_markdown(options, played.records, played.about)
    data = to_json(options, played.records, played.about)
    stem = _place(options, player)
    stem = (stem[0], f"{stem[1]}.partial") if stem and cut is not None else stem
    outputs = {}
    if options.replay:
        from sparring.envs.diplomacy.evaluation.page import write_replay

        writer = partial(write_replay, phases=played.phases, players=played.players, note=played.note)
        outputs[options.replay] = writer
    failures = options.failures([record for record in played.records if record.one == (options.bot or options.ckpt)])
    return Evaluation(text, data, stem, outputs, failures, cut=cut, cut_note=note, quiet=options.quiet)


def _place(options: DiplomacyOptions, player: players.Player | None) -> tuple[Path, str] | None:
    """Return folder and name of the results: --out, else beside the checkpoint."""
    return (options.out, "diplomacy") if options.out else players.results_place(player) if player is not None else None


def _remaining_note(options: DiplomacyOptions, played: Played) -> str:
    """Return the message about games that were cut off."""
    done = played.records[0].games if played.records else 0
    table_note = "the table is of these" if done else "nothing is written"
    rest = "games of one round are played side by side, and those under way are played again"
    return f"stopped after {done} of {options.games} games per pair; {table_note}; {rest}"


def _pooled(options: DiplomacyOptions) -> Evaluation:
    """Return the table of the games in the files of --pool."""
    make_folders([options.out])
    prepare_torch()
    from sparring.envs.diplomacy.evaluation.results import pooled

    markdown, data = pooled([Path(name) for name in options.pool])
    return Evaluation(markdown, data, (options.out, "pool") if options.out else None, quiet=options.quiet)


def _references(options: DiplomacyOptions, text: str) -> Evaluation:
    """Return the table of a run's fixed references."""
    from sparring.envs.diplomacy.evaluation.results import references_json, references_markdown

    name, league = _read_league(text)
    make_folders([options.out])
    markdown, data = references_markdown(name, league), references_json(name, league)
    stem = (options.out, "references") if options.out else None
    return Evaluation(markdown, data, stem, quiet=options.quiet)


def _read_league(text: str) -> tuple[str, League]:
    """Return a run's name and league, given its name or folder."""
    from sparring.curriculum.league.file import LeagueFile

    folder = players.find_folder(text, holding=LEAGUE)
    if folder is None:
        runs = players.runs_with(LEAGUE)
        hint = choices(text, runs) if runs else f"no run in {CHECKPOINTS} has one yet"
        raise InputError(f"--league {text!r}: no {LEAGUE} there or in checkpoints/{text}; {hint}")
    return folder.name, LeagueFile(folder).read()


EVALUATION = GameEvaluation(DiplomacyOptions, evaluate, {".html": "replay"}, {"games": NUM_POWERS})
