"""Elo against the original system: its examples and 200 matches recorded from its functions."""

import json
from pathlib import Path

import pytest

from sparring.curriculum.ratings import by_player, elo_after

SEVEN = tuple("abcdefg")


def rated(before, seats, scores, k):
    return before | elo_after(before, [by_player(seats, scores)], k=k)


def test_seven_different_places():
    found = rated(dict.fromkeys(SEVEN, 1000.0), SEVEN, [70, 60, 50, 40, 30, 20, 10], 48.0)
    assert list(found.values()) == pytest.approx([1024, 1016, 1008, 1000, 992, 984, 976])


def test_tie_by_score():
    found = rated({"a": 1200.0, "b": 1000.0, "c": 1000.0}, "abc", [10, 10, 5], 48.0)
    assert list(found.values()) == pytest.approx([1199.532, 1018.234, 982.234], abs=5e-4)


@pytest.mark.parametrize(("k", "expected"), [(32.0, [1009.492, 840.508]), (48.0, [1014.238, 835.762])])
def test_agent_in_six_seats_is_one_opponent(k, expected):
    seats = ["hero", *6 * ["bot"]]
    found = rated({"hero": 1000.0, "bot": 850.0}, seats, [59.3, 32.1, 40, 20, 10, 5, -30], k)
    assert list(found.values()) == pytest.approx(expected, abs=5e-4)


def test_recorded_matches():
    """Seats by agent number, final scores, ratings before, and after with K 32 and 48."""
    rows = json.loads((Path(__file__).parent / "recorded_elo.json").read_text())
    assert len(rows) >= 190
    assert {len(set(row["seats"])) for row in rows} >= {2, 3, 4, 5, 6}
    for row in rows:
        before = {str(number): elo for number, elo in enumerate(row["before"])}
        for k in (32, 48):
            found = rated(before, row["seats"], row["scores"], float(k))
            assert [found[name] for name in before] == pytest.approx(row[f"k{k}"], abs=1e-3)


def test_means_differing_by_rounding_are_equal():
    assert by_player("abb", [0.3, 0.1 + 0.2, 0.3]).ranks == (1, 1)
