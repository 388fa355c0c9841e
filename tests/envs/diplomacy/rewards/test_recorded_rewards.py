"""Rewards against rows recorded from the original functions.

The positions are from random games of the package `diplomacy`; each row also has the rewards of the phase that follows.
Two things differ by intent. The neighbour lists of the original are in mixed case, so that it misses coastal pairs that
only an army may cross; they were in upper case here. Its term for dislodged units found the wrong powers: none, or the
conqueror, as the loser, if both units were of one kind. It was switched off here, and `lost` is how many units of each
power the package says were dislodged in the phase. Phases are left out where the package's lists of influence name
another power than the one whose unit is there, as after the build in `test_phase_rewards.py`.
"""

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from sparring.configs.language import GRPOConfig
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.tensors import power_of
from sparring.envs.diplomacy.rewards import scoring
from sparring.envs.diplomacy.rewards.sample_rewards import balance_bonus, final_scores, leader_gap

PHASE_OF = {"M": codes.SPRING, "R": codes.SPRING_RETREATS, "A": codes.WINTER}
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
LEGACY = GRPOConfig(use_position_scoring=False, win_bonus=20.0, winner_threshold_sc=5)


def column(rows, name):
    return torch.tensor([row[name] for row in rows], dtype=torch.float64)


def board(rows, name, dtype):
    return torch.tensor([[-1 if c == "-" else DIGITS.index(c) for c in row[name]] for row in rows], dtype=dtype)


def state(rows):
    units, dislodged = (board(rows, name, torch.uint8) for name in ("units", "dislodged"))
    owner, done = board(rows, "owner", torch.int8), torch.zeros(len(rows), dtype=torch.uint8)
    phase = torch.tensor([PHASE_OF[row["phase"]] for row in rows], dtype=torch.int8)
    return {"units": units, "owner": owner, "dislodged": dislodged, "done": done, "phase": phase}


@pytest.fixture(scope="module")
def rows():
    found = json.loads((Path(__file__).parent / "recorded_positions.json").read_text())
    return [dict(zip(found["fields"], row, strict=True)) for row in found["rows"]]


@pytest.fixture(scope="module")
def steps(rows):
    """Return (row, next row of the same game) for every phase between two."""
    pairs = pairwise(rows)
    return [(one, two) for one, two in pairs if one["game"] == two["game"] and one["step"] is not None]


def test_records_cover_all_kinds(rows, steps):
    assert len(rows) >= 250
    assert len(steps) >= 200
    assert {row["phase"] for row in rows} == {"M", "R", "A"}
    assert sum(any(row["lost"]) for row, _ in steps) >= 15


@pytest.mark.parametrize("name", ["dense", "strategic"])
def test_recorded_step_scores(rows, name):
    score = {"dense": scoring.standing, "strategic": scoring.strategic_standing}[name]
    now = state(rows)
    torch.testing.assert_close(score(now["units"], now["owner"]), column(rows, name), rtol=0, atol=1e-4)


@pytest.mark.parametrize(("name", "rules"), [("final", GRPOConfig()), ("legacy", LEGACY)])
def test_recorded_final_scores(rows, name, rules):
    """A power with dislodged units only is alive here, since it may retreat; the original counts it as eliminated."""
    now = state(rows)
    found, there = final_scores(now, rules), column(rows, name)
    now["dislodged"] = torch.zeros_like(now["dislodged"])
    torch.testing.assert_close(final_scores(now, rules), there, rtol=0, atol=1e-4)
    assert (found >= there - 1e-4).all()


def test_recorded_gap_and_balance(rows):
    owner = state(rows)["owner"]
    torch.testing.assert_close(leader_gap(owner), column(rows, "gap"), rtol=0, atol=1e-4)
    torch.testing.assert_close(balance_bonus(owner), column(rows, "balance"), rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["step", "strategic_step"])
def test_recorded_step_rewards_and_influence(steps, name):
    before, after = (state(list(part)) for part in zip(*steps, strict=True))
    influence = board([one for one, _ in steps], "influence", torch.int64)
    quiet = torch.zeros_like(before["units"])
    found = scoring.step_rewards(before, after, quiet, influence, strategic=name == "strategic_step")
    torch.testing.assert_close(found, column([one for one, _ in steps], name), rtol=0, atol=2e-4)
    held = scoring.influence_after(influence, before, after["units"])
    assert torch.equal(held, board([two for _, two in steps], "influence", torch.int64))


def test_dislodged_units_are_counted_once_by_power_that_lost_them(steps):
    """Movement only: each lost unit was dislodged by another power."""
    fallen = [(one, two) for one, two in steps if any(one["lost"])]
    before, after = (state(list(part)) for part in zip(*fallen, strict=True))
    influence = board([two for _, two in fallen], "influence", torch.int64)
    results = (after["dislodged"] > 0).to(torch.uint8) * (codes.DONE + codes.DISLODGED_FLAG)
    found = scoring.events(before, after["units"], results, influence)
    lost = column([one for one, _ in fallen], "lost")
    attackers = torch.where(after["dislodged"] > 0, power_of(after["units"]), -1)
    gained = torch.stack([(attackers == power).sum(dim=1) for power in range(7)], dim=1)
    torch.testing.assert_close(found, 0.5 * gained.double() - 0.5 * lost, rtol=0, atol=1e-9)
    assert torch.equal(gained.sum(dim=1), lost.sum(dim=1).long())
