"""Diplomacy payoff matrix: pairs of games of one power against six, against games played by hand."""

import numpy as np
import pytest
import torch

import sparring
from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import NUM_CENTRES, NUM_POWERS
from sparring.envs.diplomacy.rollouts.games import play_to_end
from sparring.eval.payoff import main
from tests.configs import messages

PLAYERS = ("random", "dumbbot", "chaos")


def shares(lone, six, games, last_year, seed=0):
    """Return the share of squares of `lone`, which plays power i % 7 in game i, centre by centre."""
    batch = DiplomacyBatch(games, threads=1, last_year=last_year)
    seats = torch.zeros(games, NUM_POWERS, dtype=torch.bool)
    for game in range(games):
        seats[game, game % NUM_POWERS] = True
    play_to_end(batch, [(lone, seats), (six, ~seats)], seed=seed)
    found = []
    for game, owners in enumerate(batch.owner.tolist()):
        counts = [owners.count(power) for power in range(NUM_POWERS)]
        alone = [power for power, count in enumerate(counts) if count > NUM_CENTRES // 2]
        squares = [float(power in alone) for power in range(NUM_POWERS)] if alone else [n * n for n in counts]
        found.append(squares[game % NUM_POWERS] / sum(squares))
    batch.close()
    return found


def test_lone_power_with_larger_share_wins_pair(tmp_path):
    out = tmp_path / "matrix.png"
    report = sparring.payoff(
        env="diplomacy", opponents=PLAYERS, games=28, last_year=1902, threads=1, anchor="chaos=100", out=out
    )
    data = report.data
    assert (data["kind"], data["env"], data["last_year"]) == ("diplomacy_payoff", "sparring/Diplomacy-v0", 1902)
    for record in data["records"]:
        pair = record["player"], record["opponent"]
        ours, theirs = (np.array(shares(*names, 14, 1902)) for names in (pair, pair[::-1]))
        expected = [int((ours < theirs).sum()), 0, int((ours == theirs).sum()), 0, int((ours > theirs).sum())]
        assert record["pairs"] == expected
        row, column = map(PLAYERS.index, pair)
        assert data["payoff"][row][column] == pytest.approx((expected[4] + expected[2] / 2) / 14)
    assert {tuple(record["pairs"]) for record in data["records"]} != {(0, 0, 14, 0, 0)}
    assert {rating["player"]: rating["elo"] for rating in data["ratings"]}["chaos"] == 100.0
    assert out.exists()


def test_run_snapshots_are_players(tmp_path):
    policy = "released/diplomacy_student"
    names = [
        player["name"]
        for player in sparring.payoff(policy, opponents=["random"], games=14, last_year=1901).data["players"]
    ]
    assert names == [policy, "random"]


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_payoff"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, check_row):
    check_row(main, row)


def test_language_model_is_rejected_in_payoff_matrix():
    with pytest.raises(InputError, match="tiny"):
        sparring.payoff(env="diplomacy", opponents=["random", "tiny"])
