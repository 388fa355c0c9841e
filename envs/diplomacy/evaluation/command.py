"""Evaluate bots, policies and language models in Diplomacy: `python eval/run.py --ckpt bot:dumbbot`.

One player has one power and another player the other six, each power equally often. A game without a winner after the
last year is a draw; --last-year defaults to the checkpoint's training. For each side, the command prints solos, draws,
losses, shares by draw size and by sum of squares, centres, survival and rank, with 95 % intervals. It writes them next
to the checkpoint or to --out, and with --replay a game to watch. If a server fails or Ctrl-C stops a language model,
complete rounds are written to files named `partial`, and their number of games is printed on stderr.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparring.agents.language.opponents import has_config, run_of
from sparring.agents.opponents import players
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
from sparring.eval.command import Evaluation, GameEvaluation, make_folders, prepare_torch
from sparring.eval.paired import evaluation
from sparring.eval.paired.evaluation import (
    Cell,
    PairedGame,
    PairedPlayers,
    Plan,
    Played,
    anchor_of,
    make_report,
    play_cells,
)
from sparring.eval.stats.tables import PairConditions, Report

if TYPE_CHECKING:
    from sparring.curriculum.league.league import League
    from sparring.envs.diplomacy.evaluation.matches import DiplomacyEntrant, DiplomacyMatches

LEAGUE = "league.json"


def evaluate(options: DiplomacyOptions) -> Evaluation:
    """Play the games of `options`; the result includes interrupted games. Raises `InputError` for bad input."""
    if options.league:
        return _references(options, options.league)
    if options.pool:
        return _pooled(options)
    if options.table:
        return _at_one_table(options)
    return evaluation.evaluate(DIPLOMACY, options)


def find(name: str, opponent: bool) -> players.Player:
    """Locate a player. Raises `UnknownNameError`."""
    return players.find_player(name, GAME)


def locate(game: PairedGame, options: DiplomacyOptions) -> tuple[players.Player | None, list[players.Player]]:
    """Locate the player and the opponents, files of policies and adapters as paths. Raises `InputError`."""
    player = game.find(options.ckpt, False) if options.ckpt else None
    players.check_game(GAME, *([player] if player else []))
    rivals = find_rivals(options, player)
    return player or options.bot, [rivals.get(name, name) for name in options.opponents]


def settle(options: DiplomacyOptions, player: players.Player | None) -> DiplomacyOptions:
    """Return the options with the last year of the player's training, unless they give one, and the start."""
    if isinstance(player, Path) and not options.last_year_given:
        options = replace(options, last_year=last_year_of(player) or options.last_year)
    return options.from_start()


def last_year_of(path: Path) -> int | None:
    """Return the last year of the training of a file or folder from `find_player`, or None.

    It is stored in a policy's file; for an adapter or a model's folder, in the configuration of its run. A policy has
    no experience of later years. Raises `InputError` for an invalid year.
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


def open_players(
    options: DiplomacyOptions,
    player: players.Player | None,
    opponents: Sequence[players.Player],
    device: str,
    like: Any = None,
) -> PairedPlayers:
    """Load the players. Raises `InputError` for unusable players or inapplicable options of language models."""
    from sparring.agents.language.opponents import is_adapter
    from sparring.envs.diplomacy.evaluation.matches import DiplomacyEntrant, open_entrant
    from sparring.envs.diplomacy.training.opponents import LanguageOptions, LanguagePlayer, open_player

    by_name = dict(zip(options.opponents, opponents, strict=True))
    rivals = {name: rival for name, rival in by_name.items() if isinstance(rival, Path)}
    texts = options.past_orders, options.instructions()
    how = LanguageOptions(options.temperature or 0.0, options.settings, rivals, *texts)
    sure = not options.stochastic
    loaded = player if player is None or options.bot else open_player(player, device, language=how, deterministic=sure)
    language = isinstance(loaded, LanguagePlayer)
    if BASE_MODEL in options.opponents and not (isinstance(loaded, LanguagePlayer) and BASE_MODEL in loaded.models):
        what = "a model on a server" if language else "a policy, not an adapter"
        raise InputError(f"--opponents {BASE_MODEL}: {options.ckpt} is {what}; name bots")
    for name, rival in {} if language else rivals.items():
        if is_adapter(rival):
            who = f"{options.ckpt} is a policy" if isinstance(player, Path) else "the others are bots or searches"
            raise InputError(
                f"--opponents {name}: is a language model, which can only play against adapters; {who}, not an adapter"
            )
    drawn = [name for name in options.opponents if name.startswith(players.SAMPLED_PREFIX)]
    others = [*drawn, *(name for name in options.opponents if is_code(name) or GAME.builds(name))]
    for name in others if language else []:
        raise InputError(f"--opponents {name}: {options.ckpt} is a language model, which plays only bots and adapters")
    if language and not options.runner.alone:
        raise InputError(f"--workers: {options.ckpt} is a language model, which plays in one process; leave it out")
    if language and options.stochastic:
        raise InputError(f"--stochastic: {options.ckpt} is a language model; give --temperature")
    for name in () if language else options.language_only:
        raise InputError(f"--{name}: {options.ckpt} is not a language model; leave it out")
    first = None if player is None else DiplomacyEntrant(options.name, loaded, player)
    rows = [
        DiplomacyEntrant(name, None, rival) if language else open_entrant(name, rival, device, deterministic=sure)
        for name, rival in by_name.items()
    ]
    players_used = ExitStack()
    for backend in loaded.models.values() if isinstance(loaded, LanguagePlayer) and options.hypotheses else ():
        players_used.callback(backend.close)  # after an evaluation its games close them
    return PairedPlayers(first, rows, resources=players_used)


def matches(
    options: DiplomacyOptions, opened: Sequence[DiplomacyEntrant], device: str, threads: int
) -> DiplomacyMatches:
    """Return matches to the last year of `options`, for a test in pairs of games."""
    from sparring.envs.diplomacy.evaluation.games import LanguagePairs
    from sparring.envs.diplomacy.evaluation.matches import DiplomacyMatches, SwappedMatches
    from sparring.envs.diplomacy.training.opponents import LanguagePlayer

    if not options.hypotheses:
        return DiplomacyMatches(options, device, threads)
    kind = LanguagePairs if isinstance(opened[0].plays, LanguagePlayer) else SwappedMatches
    return kind(options, device, threads)


def conditions(options: Any, played: DiplomacyMatches) -> PairConditions:
    """Return the last year, and how a pair of games is counted."""
    return PairConditions(
        "diplomacy",
        "diplomacy_payoff",
        GAME.id,
        f"{GAME.title} {options.begin or ''}to the end of {options.last_year}",
        {"last_year": options.last_year} | ({"start": options.begin.plain()} if options.begin else {}),
        (),
        lambda record: [],
        details="; each pair compares the lone power of one player with the lone power of the other, each against "
        "six of the other in the same power: the larger share of squares wins both games",
    )


def play(options: DiplomacyOptions, opened: PairedPlayers, plan: Plan, played: Played) -> None:
    """Play the player alone against six of each opponent, in a ladder every player; language models also as six."""
    from sparring.envs.diplomacy.evaluation.games import play_language, reference_cells
    from sparring.envs.diplomacy.training.opponents import LanguagePlayer

    if opened.player and isinstance(opened.player.plays, LanguagePlayer):
        play_language(options, opened, plan, played)
        return
    entrants = {entrant.name: entrant for entrant in opened.opponents}
    pairs = [(opened.player or entrants[one], entrants[six]) for one, six in options.cells]
    cells = [Cell(pair, "", plan, filmed=bool(options.replay) and pair is pairs[-1]) for pair in pairs]
    one, six = pairs[-1]
    played.about["players"] = [one.name, *[six.name] * (NUM_POWERS - 1)]
    play_cells(plan, [*cells, *reference_cells(options, opened, plan)], played)


def texts(options: DiplomacyOptions, opened: PairedPlayers, plan: Plan, played: Played) -> tuple[str, str]:
    """Return the tables of both sides, of a whole ladder with ratings, and the JSON."""
    from sparring.envs.diplomacy.evaluation.results import to_json, to_markdown

    model = played.about.get("language_model", {})
    report = None if played.cut or not options.ladder else _rated(options, plan, played)
    return to_markdown(options, played.records, model, report), to_json(options, played.records, model, report)


def _rated(options: DiplomacyOptions, plan: Plan, played: Played) -> Report | None:
    """Return the paired games of a ladder with ratings; None for a single player."""
    from sparring.envs.diplomacy.evaluation.matches import pairs_of

    pairs = pairs_of(played.records)
    anchor = anchor_of(DIPLOMACY, options, options.opponents)
    return make_report(DIPLOMACY, options, replace(plan, games=2 * plan.games), pairs, (), anchor) if pairs else None


def outputs(
    options: DiplomacyOptions, opened: PairedPlayers, plan: Plan, played: Played
) -> dict[Path, Callable[[Path], None]]:
    """Return the writer of --replay."""
    if not options.replay or not played.films:
        return {}
    from sparring.envs.diplomacy.evaluation.page import write_replay

    about = played.about
    return {
        options.replay: partial(write_replay, phases=played.films, players=about["players"], note=about.get("note", ""))
    }


def _pooled(options: DiplomacyOptions) -> Evaluation:
    """Return the table of the games in the files of --pool."""
    make_folders([options.out])
    prepare_torch()
    from sparring.envs.diplomacy.evaluation.pool import pooled

    markdown, data = pooled([Path(name) for name in options.pool])
    return Evaluation(markdown, data, (options.out, "pool") if options.out else None, quiet=options.quiet)


def _at_one_table(options: DiplomacyOptions) -> Evaluation:
    """Return the table of several language models in the same games."""
    from sparring.envs.diplomacy.evaluation.table import play_table

    return play_table(options)


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


DIPLOMACY = PairedGame(
    GAME,
    find,
    open_players,
    matches,
    conditions=conditions,
    anchors=("random",),
    locate=locate,
    settle=settle,
    play=play,
    texts=texts,
    outputs=outputs,
    results="diplomacy",
    by_text=True,
)
EVALUATION = GameEvaluation(DiplomacyOptions, evaluate, {".html": "replay"}, {"games": NUM_POWERS})
