"""Score, decided share and `--require` of them are in the results of every game."""

import pytest

import sparring
from sparring.curriculum.score import score_interval

GAMES = {
    "dogfight": ("bot:ace", "held_out:runner", {"games": 2}),
    "air_combat": ("bot:straight", "turning", {"games": 2}),
    "chess": ("bot:random", "random", {"games": 2, "plies": 20}),
    "diplomacy": ("bot:random", "random", {"games": 7, "last_year": 1902}),
}


@pytest.mark.parametrize("game", GAMES)
def test_every_game_reports_score_and_decided_share(game):
    """Drawn games: of two players that only flee or move at random, none wins in so short a time."""
    player, opponent, options = GAMES[game]
    asked = ["score>=0.05", f"win:{opponent}>=0", f"decided:{opponent}>=0.9", "score:worst>=0.9", f"{opponent}>=1"]
    quick = {"device": "cpu", "threads": 1} if game != "chess" else {}
    found = sparring.evaluate(player, env=game, opponents=opponent, require=asked, **options, **quick)
    (record,) = found.data["records"]
    assert (record["wins"], record["losses"] if game != "diplomacy" else 0) == (0, 0)
    assert record["decided"] == 0.0
    if game == "diplomacy":  # the score is the share of squares: an equal share is 1/7
        assert record["score"] == record["alone"]["squares"]["value"]
        assert 0.08 < record["score"] < 0.2
    else:
        assert record["score"] == 0.5
        pairs = record.get("pairs") or (0, record["draws"], 0)
        assert record["score_interval"] == pytest.approx(score_interval(pairs))
    assert "score %" in found.markdown
    assert "decided %" in found.markdown
    lines = found.failures
    assert [line.split("'")[1] for line in lines] == asked[2:]
    with pytest.raises(sparring.InputError, match="unknown opponent in --require"):
        sparring.evaluate(player, env=game, opponents=opponent, require=["score:nobody>=1"], **options, **quick)
