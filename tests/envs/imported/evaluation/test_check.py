"""`eval/check.py` on a valid game and on games with one fault each."""

import json

import numpy as np
import pytest

import sparring
from sparring.configs.opponents import registered
from sparring.envs.imported.evaluation import trial
from sparring.envs.imported.evaluation.conformance import (
    FIX,
    MOST_MOVES,
    NOTE,
    RandomPlay,
    check_ends,
    check_observations,
    check_seats,
)
from sparring.envs.imported.evaluation.policy import ImportedGame
from sparring.eval.check import main
from tests.envs.imported.evaluation.saved import DUEL


def lines(report, level):
    return {line["check"]: line["text"] for line in report.data["lines"] if line["level"] == level}


def test_valid_game_has_no_findings_and_learns(capsys):
    report = sparring.check(DUEL, trial=1)
    assert report.data["faults"] == 0, report.markdown
    sound = lines(report, "ok")
    assert sound["zero sum"] == "the seats' sums add up to 0 in every match"
    assert sound["length"].startswith("3 to 3 moves")
    assert sound["spaces"] == "sees 9 numbers; acts by 1 choice(s) among 4 with masks"
    assert {"PettingZoo's parallel_api_test", "training", "pool", "masks", "speed"} <= sound.keys()
    assert f"Train: `python train.py env=pettingzoo env.id={DUEL}`" in report.markdown
    assert capsys.readouterr().out == ""
    assert "check_witness" not in registered()


@pytest.mark.parametrize(
    ("fault", "check", "told"),
    [
        ("seed", "seeds", "two matches of one seed differ from move 0 on"),
        ("mask", "random play", "card 3 is played already"),
        ("seats", "seats", "player_0 leads nearly always"),
        ("scale", "rewards", "scale rewards by about"),
        (
            "shared",
            "PettingZoo's parallel_seed_test",
            "; make the spaces in __init__: those of a class",
        ),
    ],
)
def test_fault_is_reported_with_fix(fault, check, told):
    report = sparring.check(DUEL, {"fault": fault}, trial=0, games=100)
    assert told in lines(report, "fix")[check]


MASKS = "tests.envs.imported.mask_games"


@pytest.mark.parametrize(
    ("game", "options", "check", "told"),
    [
        ("Masked", {"kind": "legal_moves"}, "masks", "'legal_moves', which is not read as a mask"),
        ("Masked", {"kind": "late", "start": 10}, "random play", "after 8 rounds without masks"),
        ("Turns", {"pay": "cycle"}, "random play", "and its rewards since its last turn add up to 0"),
        ("Turns", {"pay": "never"}, "random play", "last() pays p_1 0, and its rewards"),
    ],
)
def test_masks_and_rewards_are_read_as_in_training(game, options, check, told):
    report = sparring.check(f"{MASKS}:{game}", options, trial=0, games=16)
    assert told in lines(report, "fix")[check]


def test_late_masks_are_no_fault():
    report = sparring.check(f"{MASKS}:Masked", {"start": 5}, trial=0, games=16)
    assert "acts by 1 choice(s) among 3 with masks" in lines(report, "ok")["spaces"]
    assert "masks" not in lines(report, "fix")


@pytest.mark.parametrize(
    ("fault", "level", "told"),
    [
        ("blank", "fix", "every seat observed the same in all of its"),
        ("blank_seats", "fix", "every seat observed the"),
        ("one_blind", "fix", "player_1 observed the same in all of its"),
    ],
)
def test_constant_observation_must_be_changed(fault, level, told):
    report = sparring.check(DUEL, {"fault": fault}, trial=0, games=32)
    assert told in lines(report, level)["spaces"]


def test_one_decision_game_may_have_constant_observation():
    pytest.importorskip("pyspiel")
    report = sparring.check("openspiel:matrix_rps", trial=0, games=32)
    assert "columns never changed" in lines(report, "note")["spaces"]
    assert "spaces" not in lines(report, "fix")


def test_observations_outside_space_are_noted():
    for fault, notes in (("", 0), ("outside", 1)):
        told = list(check_observations(ImportedGame("pettingzoo", DUEL, {"fault": fault}), 0))
        assert [(line.level, "player_0 observed {" in line.text) for line in told] == [("note", True)] * notes


@pytest.mark.parametrize(
    ("moves", "level", "told"),
    [(MOST_MOVES, "fix", "add a limit of moves"), (160, "note", "10 moves of random play, in 20 s")],
)
def test_check_separates_slow_from_endless_game(moves, level, told):
    none, columns = np.zeros((0, 2)), np.zeros(3)
    play = RandomPlay("ab", none, none[:, 0], none[:, 0], columns, columns, np.array([9, 9]), moves, moves, 20.0)
    (line,) = check_ends(play)
    assert (line.level, told in line.text) == (level, True)


def test_seat_that_never_decides_is_reported():
    both = np.zeros((60, 2))
    play = RandomPlay("ab", both, both[:, 0].astype(int), both[:, 0], both[0], both[0], np.array([9, 0]), 9, 9, 1.0)
    assert [line.level for line in check_seats(play, [0, 0], alike=True) if "b never decided in 60" in line.text] == [
        "fix"
    ]


def test_general_sum_game_is_noted():
    report = sparring.check(DUEL, {"fault": "sum", "rounds": 2}, trial=0, games=100)
    assert "add up to 0 to 2" in lines(report, "note")["zero sum"]
    assert report.data["kwargs"] == {"fault": "sum", "rounds": 2}


def test_openspiel_game_is_checked():
    pytest.importorskip("pyspiel")
    report = sparring.check("openspiel:kuhn_poker", trial=0)
    assert report.data["faults"] == 0
    assert "other seeds give other matches" in lines(report, "note")["seeds"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ([DUEL, "--trial", "0", "--games", "32"], 0, "nothing has to be changed"),
        ([DUEL, "fault=scale", "--trial", "0", "--games", "32"], 1, "1 thing to change"),
        ([f"{DUEL}:nothing"], 2, "does not define nothing"),
        (["openspiel:chess_like"], 2, "is not a game of OpenSpiel"),
        ([DUEL, "fault"], 2, "fault: is not an option of the game; write KEY=VALUE"),
        ([DUEL, "--games", "3"], 2, "--games 3: must be in [16, 1000000]"),
        ([DUEL, "fault=1=2", "--out", "report.txt"], 2, "must end in .json"),
    ],
)
def test_exit_codes(words, code, told, capsys):
    assert main(words) == code
    shown = capsys.readouterr()
    assert told in shown.out + shown.err


def test_report_is_written_as_data(tmp_path):
    assert main([DUEL, "--trial", "0", "--games", "16", "--quiet", "--out", str(tmp_path / "duel.json")]) == 0
    assert json.loads((tmp_path / "duel.json").read_text())["game"] == f"pettingzoo:{DUEL}"


@pytest.mark.parametrize(("updates", "status"), [(1, NOTE), (trial.ENOUGH, FIX)])
def test_idle_seat_is_no_fault_after_few_updates(updates, status):
    """On a slow machine, a short trial can have an idle seat."""
    log, witness = trial.TrialLog(1.0), trial.Witness()
    log.metrics = [{trial.WINS: 0.5}] * updates
    witness.seats[1] = 64
    (line,) = [one for one in trial._opponents(log, witness, 2) if one.check == "seats in training"]
    assert line.level == status
    assert "never decided in seat 0" in line.text
