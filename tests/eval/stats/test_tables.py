"""Intervals against published values, counts, tables and JSON."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from sparring.curriculum.score import wilson
from sparring.envs.dogfight.evaluation.command import DuelMatches, conditions
from sparring.envs.dogfight.training.matches import MatchSettings
from sparring.eval.stats.payoff import ladder_markdown
from sparring.eval.stats.ratings import Anchor
from sparring.eval.stats.tables import MatchRecord, Report, markdown, summarize, to_json


def record(opponent="ace", by_seat=((3, 1, 1), (2, 0, 3)), *, player="pupil", regime="none", pairs=(1, 1, 1, 0, 2)):
    return MatchRecord(player, opponent, regime, by_seat, length=12.34, own_hp=2.5, their_hp=1.0, pairs=pairs)


def about(records, **setting):
    matches = DuelMatches(MatchSettings(**setting))
    return conditions(SimpleNamespace(regimes=[*dict.fromkeys(record.regime for record in records)]), matches)


def report(*records, player="pupil"):
    return Report(
        player=player,
        records=records,
        games=10,
        seed=3,
        conditions=about(records),
        deterministic=True,
        device="cpu",
        command="python eval/run.py --ckpt pupil",
        checkpoint="checkpoints/pupil/final.pt",
        run="pupil",
        training={"env_steps": 7},
        anchor=None if player else Anchor("ace"),
    )


def row(text, first):
    """Return the cells of the first table row that starts with `first`."""
    line = next(line for line in text.splitlines() if line.startswith("|") and line.split("|")[1].strip() == first)
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [  # The first four: R. G. Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (50, 50, 0.9287, 1.0),  # n / (n + z^2) = 50 / 53.8415
        (5, 10, 0.2366, 0.7634),  # 1/2 -+ z / (1 + z^2/10) * sqrt(1/40 + z^2/400)
    ],
)
def test_wilson_matches_published_interval(successes, n, low, high):
    assert wilson(successes, n) == pytest.approx((low, high), abs=5e-5)


def test_zero_trials_give_full_interval():
    assert wilson(0, 0) == (0.0, 1.0)


def test_all_or_none_touch_limits_exactly():
    assert wilson(0, 7)[0] == 0.0
    assert wilson(7, 7)[1] == 1.0
    assert wilson(7, 7)[0] == pytest.approx(1.0 - wilson(0, 7)[1])


@pytest.mark.parametrize(("successes", "n"), [(-1, 5), (6, 5), (1, 0)])
def test_impossible_counts_are_rejected(successes, n):
    with pytest.raises(ValueError, match="between 0 and n"):
        wilson(successes, n)


def test_record_sums_its_seats():
    result = record()
    assert (result.games, result.wins, result.draws, result.losses) == (10, 5, 1, 4)
    assert result.win_rate == 0.5
    assert (result.score, result.decided) == (0.55, 0.9)
    assert result.interval == wilson(2.5, 5)


def test_interval_unit_is_pair_of_games():
    """2.5 of 5: 1/2 -+ 1.95996 / (1 + 3.84146/5) * sqrt(1/20 + 3.84146/100) = 1/2 -+ 0.3296. 400 of 400 are 200 pairs:
    200 / 203.84146 = 98.1 %."""
    assert record().interval == pytest.approx((0.1704, 0.8296), abs=5e-5)
    assert record(by_seat=((200, 0, 0), (200, 0, 0)), pairs=(0, 0, 0, 0, 200)).interval == pytest.approx(
        (0.98115, 1.0), abs=5e-6
    )


def test_record_without_games_has_undefined_win_rate():
    with pytest.raises(ValueError, match="no game"):
        _ = record(by_seat=((0, 0, 0), (0, 0, 0))).win_rate


def test_opponent_record_is_same_games_from_other_seat():
    other = record().mirrored()
    assert (other.player, other.opponent, other.own_hp, other.their_hp) == ("ace", "pupil", 1.0, 2.5)
    assert other.by_seat == ((3, 0, 2), (1, 1, 3))
    assert other.pairs == (2, 0, 1, 1, 1)
    assert other.mirrored() == record()


def test_summary_has_mean_and_last_of_worst():
    records = [record("a", ((5, 0, 0), (5, 0, 0))), record("b"), record("c")]
    summary = summarize(records)
    assert summary.mean == pytest.approx(2 / 3)
    assert (summary.worst, summary.worst_opponent) == (0.5, "c")


def test_markdown_states_what_was_measured():
    text = markdown(report(record()))
    assert text.startswith("# pupil: classic rules, physics none, bot_rate=tick, deterministic\n")
    assert row(text, "ace") == [
        "ace",
        "10",
        "5",
        "1",
        "4",
        "55.0",
        "22.3 to 83.9",
        "90.0",
        "50.0",
        "17.0 to 83.0",
        "12.3",
        "2.50 / 1.00",
    ]
    assert "wins: mean 50.0 %, worst 50.0 % (ace)" in text
    assert "score: mean 55.0 %, worst 55.0 % (ace)" in text
    assert "decided: mean 90.0 %" in text
    for condition in ("classic rules", "bot_rate=tick", "deterministic", "10 games", "seed 3"):
        assert condition in text
    assert "by physics" not in text


def test_several_regimes_get_own_tables_and_summary():
    bad = record("chaser", ((0, 0, 5), (1, 0, 4)), regime="full")
    text = markdown(report(record(), record("chaser"), record(regime="full"), bad))
    assert text.startswith("# pupil: classic rules, 2 regimes of physics,")
    assert text.count("| opponent") == 2
    score, wins = text.split("## Win % by physics")
    assert row(wins, "full") == ["full", "50.0", "10.0", "30.0", "10.0"]
    assert row(score, "full") == ["full", "55.0", "10.0", "32.5", "10.0"]
    assert "worst of all 10.0 % (chaser, full)" in wins


def test_held_out_opponents_are_summarized_separately():
    """Bots and held-out opponents each have own mean and worst, in the table and in the JSON."""
    none = record("held_out:runner", ((0, 5, 0), (0, 5, 0)))
    some = record("released/dogfight_unified_dr", ((1, 0, 4), (1, 0, 4)))
    mixed = report(record(), none, some)
    assert "wins: mean 10.0 %, worst 0.0 % (held_out:runner)" in markdown(mixed)
    assert "held out: score: mean 35.0 %, worst 20.0 % (released/dogfight_unified_dr)" in markdown(mixed)
    content = json.loads(to_json(mixed))
    assert content["summary"]["none"]["worst_opponent"] == "ace"
    score = {"mean": 0.35, "worst": 0.2, "worst_opponent": "released/dogfight_unified_dr"}
    wins = {"mean": 0.1, "worst": 0.0, "worst_opponent": "held_out:runner"}
    assert content["held_out"]["none"] == {**wins, "score": score, "decided": 0.5}
    alone = markdown(report(some))
    assert "held out: score: mean 20.0 %" in alone
    assert alone.count("wins: mean 20.0 %") == 1
    assert json.loads(to_json(report(some)))["summary"]["none"]["mean"] == 0.2
    assert json.loads(to_json(report(record())))["held_out"] == {}
    both = markdown(report(record(), none, replace(record(), regime="full"), replace(none, regime="full")))
    score, wins = both.split("## Win % by physics")
    assert row(wins, "full") == ["full", "50.0", "0.0", "50.0", "50.0", "0.0", "0.0"]
    assert row(score, "full") == ["full", "55.0", "50.0", "55.0", "55.0", "50.0", "50.0"]


def test_name_cannot_break_table():
    assert r"| a\|b " in markdown(report(record("a|b")))


def test_notes_are_under_conditions_and_in_json():
    noted = replace(report(record()), notes=("a is old", "b is large"))
    assert "every tick\n\nNote: a is old.  \nNote: b is large.\n\n## Physics" in markdown(noted)
    ranked = replace(report(record(), record().mirrored(), player=None), notes=("a is old",))
    assert "every tick\n\nNote: a is old.\n\nScore %" in ladder_markdown(ranked)
    assert json.loads(to_json(noted))["notes"] == ["a is old", "b is large"]
    assert "Note" not in markdown(report(record()))


def test_other_conditions_are_named():
    agent, challenge = (about([record()], bot_rate="agent", rules=rules) for rules in ("classic", "challenge"))
    text = markdown(replace(report(record()), conditions=agent, deterministic=False))
    assert "every 10 ticks" in text
    assert "bot_rate=agent" in text
    assert "sampled actions" in text
    # Regimes of gravity mean nothing there.
    assert "gravity is always 130 m/s^2" in markdown(replace(report(record()), conditions=challenge))


def test_ladder_is_sorted_by_mean():
    result = record(player="chaser", by_seat=((5, 0, 0), (4, 1, 0)), pairs=(0, 0, 0, 1, 4))
    text = ladder_markdown(report(result.mirrored(), result, player=None))
    assert row(text, "chaser") == ["chaser", "", "95.0 (54.8 to 99.7)", "95.0", "90.0", "90.0"]
    assert row(text, "ace") == ["ace", "5.0 (0.3 to 45.2)", "", "5.0", "90.0", "0.0"]
    assert text.index("| chaser ") < text.index("| ace ")


def test_ladder_names_players_rated_with_virtual_draw():
    won = record(player="chaser", by_seat=((5, 0, 0), (5, 0, 0)), pairs=(0, 0, 0, 0, 5))
    text = ladder_markdown(report(won, player=None))
    (line,) = [line for line in text.splitlines() if line.startswith("| chaser | +")]
    assert line.split("|")[2].strip() == f"+{400 * math.log10((10 + 0.25) / 0.25):.0f}*"
    assert "0.5 of a virtual draw against ace" in text
    assert "virtual" not in ladder_markdown(report(record(player="chaser"), player=None))


def test_json_has_rows_and_reproduction_data():
    content = json.loads(to_json(report(record())))
    assert {key: content[key] for key in ("schema_version", "kind", "seed", "games", "rules", "bot_rate")} == {
        "schema_version": 1,
        "kind": "evaluation",
        "seed": 3,
        "games": 10,
        "rules": "classic",
        "bot_rate": "tick",
    }
    assert content["checkpoint"] == "checkpoints/pupil/final.pt"
    assert content["training"] == {"env_steps": 7}
    (line,) = content["records"]
    assert (line["wins"], line["draws"], line["losses"], line["games"]) == (5, 1, 4, 10)
    assert line["by_seat"] == [[3, 1, 1], [2, 0, 3]]
    assert line["interval"] == pytest.approx([0.1704, 0.8296], abs=5e-5)
    assert line["score_interval"] == pytest.approx([0.2228, 0.8390], abs=5e-5)
    assert (line["score"], line["decided"]) == (0.55, 0.9)
    summary = {"mean": 0.5, "worst": 0.5, "worst_opponent": "ace"}
    score = {"mean": 0.55, "worst": 0.55, "worst_opponent": "ace"}
    assert content["summary"]["none"] == {**summary, "score": score, "decided": 0.9}


def test_non_finite_number_is_error():
    with pytest.raises(ValueError, match="JSON"):
        to_json(report(replace(record(), length=float("nan"))))
