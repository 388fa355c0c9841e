"""Requirements on win rates: parsing, names, and failures."""

import pytest

from sparring.configs.core.errors import InputError, UnknownNameError
from sparring.eval.stats.requirements import Requirement
from sparring.eval.stats.tables import MatchRecord


def record(opponent, wins, regime="none"):
    pairs = (20 - wins, 0, 0, 0, wins)
    return MatchRecord("pupil", opponent, regime, ((wins, 0, 0), (0, 0, 20 - wins)), 1.0, 1.0, 1.0, pairs)


@pytest.mark.parametrize(
    ("text", "opponent", "regime", "minimum"),
    [
        ("brawler>=0.95", "brawler", None, 0.95),
        (" ace @ full >= 1 ", "ace", "full", 1.0),
        ("released/old-one>=0", "released/old-one", None, 0.0),
        ("score:ace@full>=0.5", "ace", "full", 0.5),
        ("decided>=0.5", "mean", None, 0.5),
        ("score:held_out:worst>=0.5", "held_out:worst", None, 0.5),
        ("winner>=0.5", "winner", None, 0.5),
        ("stockfish:1>=0.5", "stockfish:1", None, 0.5),
    ],
)
def test_requirement_is_parsed(text, opponent, regime, minimum):
    requirement = Requirement.parse(text)
    assert (requirement.opponent, requirement.regime, requirement.minimum) == (opponent, regime, minimum)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ace",
        "ace>0.5",
        "score:",
        "score",
        "@full>=0.5",
        "ace>=",
        "ace>=x",
        ">=0.5",
        "ace>=0.5>=0.6",
        "ace>=1.1",
        "ace>=e",
    ],
)
def test_malformed_requirement_is_named(text):
    with pytest.raises(InputError, match="--require") as caught:
        Requirement.parse(text)
    assert repr(text) in str(caught.value)


def test_unmeasured_requirement_is_rejected():
    Requirement.parse("worst@full>=0.5").check_names(["ace"], ["full"])
    with pytest.raises(UnknownNameError, match="did you mean 'brawler'"):
        Requirement.parse("brawlr>=0.5").check_names(["ace", "brawler"], ["none"])
    with pytest.raises(UnknownNameError, match=r"'full'.*choose from none"):
        Requirement.parse("ace@full>=0.5").check_names(["ace"], ["none"])


def test_exact_minimum_is_enough():
    assert Requirement.parse("ace>=0.95").failures([record("ace", 19)]) == []
    (line,) = Requirement.parse("ace>=0.951").failures([record("ace", 19)])
    assert "0.9500 (19 of 20 won)" in line


def test_requirement_without_regime_must_hold_in_all():
    records = [record("ace", 20), record("ace", 10, "full"), record("ace", 11, "narrow")]
    assert len(Requirement.parse("ace>=0.6").failures(records)) == 2
    assert Requirement.parse("ace@none>=0.6").failures(records) == []
    (line,) = Requirement.parse("ace@full>=0.6").failures(records)
    assert "regime full" in line


def test_mean_and_worst_can_be_required():
    records = [record("ace", 20), record("brawler", 12)]
    assert Requirement.parse("mean>=0.8").failures(records) == []
    assert "0.8000 on average" in Requirement.parse("mean>=0.81").failures(records)[0]
    assert "0.6000 against brawler" in Requirement.parse("worst>=0.7").failures(records)[0]


def drawn(opponent, draws, games=20, regime="none"):
    pairs = (0, 0, games // 2, 0, 0)
    return MatchRecord("pupil", opponent, regime, ((0, draws, games - draws), (0, 0, 0)), 1.0, 1.0, 1.0, pairs)


def test_score_and_decided_share_can_be_required():
    """With 20 draws: no win, half the points, nothing decided."""
    records = [drawn("runner", 20), record("ace", 20)]
    assert Requirement.parse("score:runner>=0.5").failures(records) == []
    (line,) = Requirement.parse("score:runner>=0.51").failures(records)
    assert "failed: 0.5000 score (20 drawn, 0 of 20 won)" in line
    assert "0.0000 decided against runner" in Requirement.parse("decided:worst>=0.1").failures(records)[0]
    assert "0.7500 score on average" in Requirement.parse("score>=0.76").failures(records)[0]
    assert "0.5000 on average" in Requirement.parse("win>=0.51").failures(records)[0]


def test_regime_is_rejected_for_game_without_regimes():
    with pytest.raises(InputError, match="no regimes are played; leave out @full"):
        Requirement.parse("score:ace@full>=0.5").check_names(["ace"])
