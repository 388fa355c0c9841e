"""League files: round trips, killed writers, damage and unknown versions."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sparring.curriculum.league.file
from sparring.curriculum.league.file import LeagueError, LeagueFile, _digest, read_league, write_league
from sparring.curriculum.league.league import CHALLENGER, record
from sparring.curriculum.ratings import GameResult
from tests.curriculum.league.small_league import small_league

ROOT = Path(__file__).resolve().parents[3]


def played():
    rng = np.random.default_rng(2)
    names = list(small_league().agents)
    games = [GameResult(tuple(rng.choice(names, 7)), tuple(rng.permutation(7) + 1)) for _ in range(20)]
    return record(small_league(), games)


def test_league_round_trips_bit_for_bit(tmp_path):
    file = LeagueFile(tmp_path)
    file.restore(played())
    assert LeagueFile(tmp_path).read() == played()
    assert read_league(json.loads(json.dumps(write_league(played())))) == played()


def test_league_restores_earlier_state(tmp_path):
    file = LeagueFile(tmp_path)
    earlier = played()
    file.restore(record(earlier, [GameResult((CHALLENGER, "chaos"), (1, 2))]))
    assert file.read() != earlier
    file.restore(earlier)
    assert file.read() == played()


def test_unusable_files_are_set_aside_and_usable_kept(tmp_path):
    file = LeagueFile(tmp_path)
    assert file.put_aside_damaged() == ""
    file.restore(played())
    assert file.put_aside_damaged() == ""
    for broken in (file.path.read_text()[:-20], file.path.read_text().replace("chaos", "chaps")):
        file.path.write_text(broken)
        said = file.put_aside_damaged()
        assert "league.json: cannot be used (" in said
        assert said.endswith("); it is kept as league.json.damaged")
        assert (tmp_path / "league.json.damaged").read_text() == broken
        file.restore(played())


WRITER = """
import sys
sys.path.insert(0, '.')
from pathlib import Path
from sparring.curriculum.ratings import GameResult
from sparring.curriculum.league.file import LeagueFile
from sparring.curriculum.league.league import CHALLENGER, record
file = LeagueFile(Path(sys.argv[1]))
league = file.read()
while True:
    league = record(league, [GameResult((CHALLENGER, 'chaos'), (1, 2))])
    file.restore(league)
"""


def test_killed_writer_leaves_complete_league(tmp_path):
    file = LeagueFile(tmp_path)
    file.restore(small_league())
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], cwd=ROOT)
    while file.read()["chaos"].games < 5:
        assert process.poll() is None
    process.kill()
    process.wait()
    league = file.read()
    assert league["chaos"].games == league[CHALLENGER].games >= 5


def test_full_disk_leaves_league_unchanged(tmp_path, monkeypatch):
    file = LeagueFile(tmp_path)
    file.restore(small_league())

    def full(path, data):
        raise OSError("no room")

    monkeypatch.setattr(sparring.curriculum.league.file, "write_atomically", full)
    with pytest.raises(OSError, match="no room"):
        file.restore(played())
    assert file.read() == small_league()


def test_damage_anywhere_in_file_is_detected(tmp_path):
    """One character per line is replaced by another digit or letter: it is never read as another league."""
    file = LeagueFile(tmp_path)
    file.restore(played())
    text = file.path.read_text()
    rng = np.random.default_rng(0)
    places = [place for place, char in enumerate(text) if char.isalnum()]
    for place in rng.choice(places, 200, replace=False):
        file.path.write_text(text[:place] + ("7" if text[place] != "7" else "3") + text[place + 1 :])
        with pytest.raises(LeagueError, match=r"league\.json: "):
            file.read()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "must be a valid dictionary"),
        ('{"format": "sparring-diplomacy"}', "format='sparring-diplomacy': must be 'sparring-league'"),
        ('{"format": "sparring-league", "version": 2}', "version=2: must be less than or equal to 1"),
    ],
)
def test_other_files_are_named(tmp_path, content, message):
    (tmp_path / "league.json").write_text(content)
    with pytest.raises(LeagueError, match=message) as error:
        LeagueFile(tmp_path).read()
    assert "\n" not in str(error.value)


def test_missing_league_is_named(tmp_path):
    with pytest.raises(LeagueError, match=r"league\.json: is missing"):
        LeagueFile(tmp_path).read()


def crafted(where, value):
    """Return a league with one modified field and a matching digest."""
    plain = write_league(played())
    kind, key = where
    plain[kind][0][key] = value
    plain["sha256"] = _digest({"agents": plain["agents"], "results": plain["results"]})
    return plain


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("agents", "elo"), float("nan"), r"agents\.0\.elo=nan: must be a finite number"),
        (("agents", "games"), -1, r"agents\.0\.games=-1: must be greater than"),
        (("agents", "kind"), "king", r"agents\.0\.kind='king': "),
        (("agents", "name"), "../../x", r"agents\.0\.name='\.\./\.\./x': "),
        (("agents", "path"), "a\nb", r"agents\.0\.path='a\\nb': "),
        (("results", "players"), ["chaos", "unknown"], r"results: players 'chaos' and 'unknown' must be two agents"),
        (("results", "total"), [1, 2], r"results\.0\.total\.2 is missing"),
    ],
)
def test_crafted_fields_are_rejected_by_path(tmp_path, where, value, message):
    """Names and paths can name files."""
    (tmp_path / "league.json").write_text(json.dumps(crafted(where, value)))
    with pytest.raises(LeagueError, match=message):
        LeagueFile(tmp_path).read()
