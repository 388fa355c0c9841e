"""Ladders and sequential tests, in any game whose matches two players can swap (`evaluation.py`)."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
from tqdm import tqdm

from sparring.configs.core.errors import InputError
from sparring.curriculum.score import SCORES, GameCounts, score_interval
from sparring.curriculum.sprt import Hypotheses, SPRTVerdict, judge
from sparring.eval.command import Evaluation, kept_cells
from sparring.eval.paired.evaluation import (
    Cell,
    Pair,
    PairedGame,
    PairedPlayers,
    Plan,
    anchor_of,
    make_report,
    place_of_results,
    play_cell,
    round_robin,
)
from sparring.eval.paired.options import PairedEvaluationOptions
from sparring.eval.stats.payoff import ladder_markdown
from sparring.eval.stats.requirements import sprt_markdown
from sparring.eval.stats.tables import to_json

OPEN_END = "{desc}; {n_fmt} of at most {total_fmt} games [{elapsed}, {rate_noinv_fmt}]"
"""Bar format without percentage and remaining time, for work that usually ends long before its maximum."""


def run_ladder(game: PairedGame, options: PairedEvaluationOptions, players: PairedPlayers, plan: Plan) -> Evaluation:
    """Play a round robin, and rate the players."""
    entrants, stem = players.all, place_of_results(game, options, None, "ladder")
    records = round_robin(entrants, replace(plan, cells_file=kept_cells(stem)))
    sides = [side for record in records for side in (record, *record.other_side())]
    anchor = anchor_of(game, options, [player.name for player in entrants])
    report = make_report(game, options, plan, sides, (*players.notes, *game.notes(records)), anchor)
    return Evaluation(ladder_markdown(report), to_json(report), stem, quiet=options.quiet)


def run_sprt(game: PairedGame, options: PairedEvaluationOptions, players: PairedPlayers, plan: Plan) -> Evaluation:
    """Test sequentially whether the player is stronger; a failure unless H1 is accepted."""
    assert options.hypotheses is not None
    player, (opponent, *rest) = players.player, players.opponents
    if rest:
        raise InputError(f"--sprt tests one thing: give --opponents one name, not {len(rest) + 1}")
    stem = place_of_results(game, options, player, "sprt")
    pair, plan = (player, opponent), replace(plan, cells_file=kept_cells(stem))
    verdict, games = sequential(pair, plan, options.hypotheses, options.max_games)
    text = sprt_markdown(player.name, opponent.name, verdict, games, options.hypotheses, players.notes)
    names = {"player": player.name, "opponent": opponent.name, "command": options.command}
    assert game.conditions is not None
    fields = {**names, "env": game.conditions(options, plan.matches).env, "notes": list(players.notes)}
    # The interval by pairs of games is the right one of the score, and pairs say nothing of wins alone.
    figures = games.figures() | {"score_interval": score_interval(verdict.pairs)}
    data = json.dumps(fields | asdict(options.hypotheses) | asdict(verdict) | figures, indent=1) + "\n"
    failures = () if verdict.accepted == "H1" else (text.splitlines()[0].removeprefix("# "),)
    return Evaluation(text, data, stem, failures=failures, quiet=options.quiet)


def sequential(pair: Pair, plan: Plan, hypotheses: Hypotheses, max_games: int) -> tuple[SPRTVerdict, GameCounts]:
    """Play batches of `plan.games` new games until the test is decided or `max_games` are played; count the games."""
    pairs, counts = np.zeros(len(SCORES), dtype=np.int64), np.zeros(3, dtype=np.int64)
    low, high = hypotheses.bounds
    store = plan.store()
    stored = store.read() if store else {}
    with tqdm(total=max_games, unit=" games", bar_format=OPEN_END, disable=plan.quiet) as bar:
        for batch in range(max(max_games // plan.games, 1)):
            cell = Cell(pair, plan.regimes[0], replace(plan, seed=(plan.seed + batch) % 2**31))
            key = cell.whole_key
            if key not in stored:
                stored[key] = play_cell(cell, tqdm(disable=True))
                if store and key:
                    store.add(key, stored[key])
            record = (stored[key] if key else stored.pop(key))[0]
            pairs += np.array(record.pairs)
            counts += np.array(record.counts)
            verdict = judge(pairs.tolist(), hypotheses)
            bar.set_description_str(
                f"{pair[0].name} vs {pair[1].name}: LLR {verdict.llr:.2f}, ends at {low:.2f} or {high:.2f}"
            )
            bar.update(plan.games)
            if verdict.accepted:
                break
    if store:
        store.discard()
    wins, draws, losses = counts.tolist()
    return verdict, GameCounts((wins, draws, losses))
