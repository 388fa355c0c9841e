"""Examples computed and rounded by the original functions; powers alphabetical, Austria to Turkey."""

import json
from pathlib import Path

import pytest
import torch

from sparring.configs.language import GRPOConfig
from sparring.envs.diplomacy.batch import DiplomacyBatch, opening
from sparring.envs.diplomacy.board.board import POWERS, standard_board
from sparring.envs.diplomacy.orders.submit import submit
from sparring.envs.diplomacy.rewards import scoring
from sparring.envs.diplomacy.rewards.sample_rewards import (
    balance_bonus,
    elo_reward,
    expected_ranks,
    final_scores,
    leader_gap,
)
from sparring.envs.diplomacy.rollouts.task import stratum
from tests.envs.diplomacy.scenes import lines, rows

BOARD = standard_board()
MIDDLE, SOLO, TIED = (10, 7, 6, 5, 4, 2, 0), (18, 6, 5, 3, 2, 0, 0), (7, 7, 6, 5, 4, 3, 2)
PLACES, LEGACY = GRPOConfig(), GRPOConfig(use_position_scoring=False, win_bonus=20.0, winner_threshold_sc=5)


def made_up(*counts):
    """Return a unit for each centre, at home where possible and elsewhere otherwise."""
    owner = torch.tensor([[power for power, count in enumerate(counts) for _ in range(count)]], dtype=torch.int8)
    units = torch.zeros((1, 75), dtype=torch.uint8)
    home = torch.tensor(BOARD.home)
    free = (home < 0).nonzero().flatten().tolist()
    for power, count in enumerate(counts):
        own = (home == power).nonzero().flatten().tolist()[:count]
        while len(own) < count:
            own.append(free.pop())
        units[0, own] = 1 + power
    return {"units": units, "dislodged": torch.zeros_like(units), "owner": owner}


def strategic_without_threats(counts):
    now = made_up(*counts)
    threats = scoring.count_threats(now["units"], now["owner"])[0]
    return (scoring.strategic_standing(now["units"], now["owner"])[0] + 0.3 * threats).tolist()


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (scoring.standing, [6.6, 6.9, 6.9, 6.9, 6.6, 9.2, 6.9]),
        (scoring.strategic_standing, [1.8443, 2.1443, 2.1443, 2.1443, 1.8443, 4.5, 2.1443]),
    ],
)
def test_opening_standing(score, expected):
    """Trieste and Venice threaten each other."""
    start = opening()
    assert score(start["units"], start["owner"])[0].tolist() == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("strategic", [False, True])
def test_first_moves(strategic):
    """France: 3 units abroad in 3 new provinces. Germany: 2 and 2, Munich threatened. A bounce changes nothing."""
    batch = DiplomacyBatch(1, last_year=1910, threads=1)
    before, influence = batch.snapshot(), scoring.first_influence(batch.units)
    sheet = {
        "FRANCE": "A PAR - BUR, F BRE - MAO, A MAR - SPA",
        "GERMANY": "A MUN - RUH, F KIE - DEN, A BER - KIE",
        "ITALY": "A VEN - TRI",
        "AUSTRIA": "A VIE - TRI",
    }
    for power, text in sheet.items():
        submit(batch.orders[0].numpy(), lines(text), power=POWERS.index(power), **rows(batch))
    batch.process()
    found = scoring.step_rewards(before, batch.state, batch.results, influence, strategic=strategic)[0].tolist()
    batch.close()
    assert found == pytest.approx([0, 0, 0.9, 0.3, 0, 0, 0], abs=1e-9)


def test_gap():
    expected = [0, 0, -0.0556, -0.1111, -0.1667, -0.2778, -0.3889]
    assert leader_gap(made_up(*MIDDLE)["owner"])[0].tolist() == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [(MIDDLE, [0] + [0.5598] * 6), (TIED, [0, 0] + [0.628] * 5), ((34, 0, 0, 0, 0, 0, 0), [0] * 7)],
)
def test_balance_bonus(counts, expected):
    owner = torch.tensor([[power for power, count in enumerate(counts) for _ in range(count)]])
    assert balance_bonus(owner)[0].tolist() == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (MIDDLE, [8.2, 3.7799, 2.8799, 1.9799, 1.0799, -0.6201, -2.5]),
        (SOLO, [13.0, 0.2753, -0.6247, -2.4247, -3.2247, -4.9, -4.9]),
    ],
)
def test_strategic_score(counts, expected):
    assert strategic_without_threats(counts) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("counts", "rules", "expected"),
    [
        (MIDDLE, PLACES, [73.2, 41.3, 29.0, 21.7, 14.4, 6.9, -30]),
        (SOLO, PLACES, [141.6, 39.0, 26.7, 17.1, 9.9, -30, -30]),
        (TIED, PLACES, [66.3, 66.3, 29.0, 21.7, 14.4, 9.1, 4.9]),
        (MIDDLE, LEGACY, [43.2, 16.3, 14.0, 11.7, 9.4, 4.9, -1]),
        (TIED, LEGACY, [16.3, 16.3, 14.0, 11.7, 9.4, 7.1, 4.9]),
    ],
)
def test_recorded_final_scores(counts, rules, expected):
    assert final_scores(made_up(*counts), rules)[0].tolist() == pytest.approx(expected, abs=1e-9)


def test_final_score_of_opening():
    assert final_scores(opening(), PLACES)[0].tolist() == pytest.approx([32.1] * 5 + [59.3, 32.1])


@pytest.mark.parametrize(
    ("ratings", "expected"),
    [
        ([1000] * 7, 4.0),
        ([1200] + [1000] * 6, 2.4415),
        ([1000] + [900] * 6, 3.1596),
        ([1000, 1100, 1000, 1000, 950, 950, 900], 3.8571),
    ],
)
def test_expected_ranks(ratings, expected):
    assert expected_ranks(torch.tensor([ratings]))[0, 0].item() == pytest.approx(expected, abs=5e-5)


def placed(place):
    """Return owners [1, 34] with the first power in this place."""
    centres = [7 - abs(place - 1), *(n for n in range(7, 0, -1) if n != 8 - place)]
    return torch.tensor([[power for power, count in enumerate(centres) for _ in range(count)]])


@pytest.mark.parametrize(("place", "expected"), [(1, 11.4415), (7, 5.4415)])
def test_conditioned_reward(place, expected):
    found = 10 + elo_reward(placed(place), torch.tensor([[1200.0] + [1000.0] * 6]), 0.5)[0, 0].item()
    assert found == pytest.approx(expected, abs=5e-5)


def test_recorded_conditioned_rewards():
    """Sixty draws of ratings, place, reward and scale."""
    recorded = json.loads((Path(__file__).parent / "recorded_conditioned.json").read_text())
    assert len(recorded) >= 60
    for row in recorded:
        ratings = torch.tensor([row["ratings"]])
        assert expected_ranks(ratings)[0, 0].item() == pytest.approx(row["expected"], abs=1e-4)
        found = row["raw"] + elo_reward(placed(row["place"]), ratings, row["scale"])[0, 0].item()
        assert found == pytest.approx(row["reward"], abs=1e-4)


@pytest.mark.parametrize(("centres", "year", "expected"), [(3, 1902, (0, 0)), (4, 1905, (1, 1)), (6, 1906, (2, 2))])
def test_buckets_of_centres_and_years(centres, year, expected):
    assert stratum(centres, year) == expected
