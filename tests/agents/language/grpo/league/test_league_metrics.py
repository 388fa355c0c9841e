"""The reference table of fixed players by hand, and the league's metrics."""

import pytest

from sparring.agents.language.grpo.matchmaking import (
    CATEGORIES,
    Opponents,
    ReferenceRow,
    best_checkpoint,
    bucket,
    league_metrics,
    reference_drop,
    reference_table,
)
from sparring.curriculum.league.league import CHALLENGER, enter_checkpoint, new_league, record
from sparring.curriculum.ratings import GameResult, head_to_head
from tests.curriculum.league.small_league import rated, small_league


def test_table_by_hand():
    league = small_league(2, base_model=940.0, c10=1010.0, c20=1090.0, dumbbot=1190.0, random=905.0, chaos=905.0)
    assert reference_table(league) == [
        ReferenceRow("base_model", 940.0, -60.0, 0),
        ReferenceRow("checkpoint_000020 minus base_model", 150.0, None, 0),
        ReferenceRow("total reference drop", 60.0 + 95.0 + 100.0 + 40.0 + 60.0, None, 0),
        ReferenceRow("dumbbot", 1190.0, 190.0, 0),
        ReferenceRow("territorial", 960.0, 0.0, 0),
        ReferenceRow("coordinated", 940.0, 0.0, 0),
        ReferenceRow("chaos", 905.0, -75.0, 0),
        ReferenceRow("random", 905.0, -15.0, 0),
        ReferenceRow("defensive", 900.0, 0.0, 0),
    ]


def test_challenger_is_not_counted_as_checkpoint():
    league = rated(small_league(0), challenger=3000.0)
    assert best_checkpoint(league) is None
    assert [row.figure for row in reference_table(league)][:2] == ["base_model", "total reference drop"]


def test_games_are_counted_and_gap_uses_smaller_count():
    league = record(small_league(1), 3 * [GameResult(("base_model", "chaos"), (1, 2))])
    league = record(league, [GameResult(("base_model", "checkpoint_000010"), (1, 2))])
    base, gap, *_ = reference_table(league)
    assert (base.games, gap.games) == (4, 1)


def test_league_metrics_by_hand():
    games = [
        GameResult((CHALLENGER, "chaos", "chaos"), (2, 1, 3)),
        GameResult(("dumbbot", CHALLENGER), (1, 1)),
        GameResult(("dumbbot", "random"), (1, 2)),
    ]
    league = rated(record(small_league(2), games), c20=1300.0)
    names = ("chaos", CHALLENGER, "checkpoint_000020")
    drawn = [Opponents(names, tuple(bucket(league, name) for name in names))]
    metrics = league_metrics(league, drawn, games)
    assert metrics["elo/win_rate"] == pytest.approx((0 + 1 + 0.5) / 3)
    assert metrics["elo/games_played"] == 2.0
    assert metrics["elo/challenger"] == league[CHALLENGER].elo != 1000.0
    assert metrics["trueskill/chaos_rating"] == league["chaos"].belief.shown
    assert metrics["league/num_checkpoints"] == 2.0
    assert metrics["league/best_elo"] == metrics["elo/checkpoint_000020"] == 1300.0
    rates = {key: value for key, value in metrics.items() if key.startswith("pfsp/")}
    drawn_rates = dict.fromkeys(("self", "peer", "stronger"), pytest.approx(1 / 3))  # chaos is 20 to 100 below
    assert rates == {f"pfsp/{name}_rate": drawn_rates.get(name, 0.0) for name in CATEGORIES}
    assert all(type(value) is float for value in metrics.values())


def test_unknown_values_are_omitted():
    metrics = league_metrics(small_league(0), [], [])
    assert not metrics.keys() & {"elo/win_rate", "pfsp/peer_rate"}
    assert metrics["league/best_elo"] == 1000.0  # the learner's, before the first checkpoint
    assert metrics["league/num_checkpoints"] == 0.0


def test_best_checkpoint_or_learner_is_first_without_base_model():
    """A league without a base model, like the dogfight's self-play."""
    league = record(new_league(["ace"]), head_to_head(CHALLENGER, "ace", (3, 0, 1)))
    assert [(row.figure, row.games) for row in reference_table(league)] == [(CHALLENGER, 4), ("ace", 4)]
    league = enter_checkpoint(league, step=5, path="pool/snapshot_000005.pt", name="snapshot_000005")
    assert [row.figure for row in reference_table(league)] == ["snapshot_000005", "ace"]


def test_original_bots_are_references():
    league = new_league(("random", "chaos_seed", "defensive", "territorial_seed", "coordinated_seed"), "tiny")
    league = rated(league, chaos_seed=905.0, base_model=940.0)
    assert reference_drop(league) == 60.0 + 95.0 + 100.0 + 40.0 + 60.0
    assert [row.elo for row in reference_table(league) if row.figure == "total reference drop"] == [355.0]
