"""Every recorded decision of the scripted opponents, by the kernels and by the NumPy peer, from both seats.

A row is *stable* where a disturbance of millimetres changes neither mode, shot nor throttle, nor the turn by 0.01; the
others lie on an edge and are left out.
"""

import numpy as np
import pytest

from sparring.envs.dogfight import rules
from tests.envs.dogfight.recorded import peer, simulator
from tests.envs.dogfight.recorded.rows import MEMORY, BotRows, Decisions, array, bot_rows

CHASER = rules.bot_id("chaser")
MODE, TIMER = MEMORY.index("mode"), MEMORY.index("timer")


def test_recorded_ids_and_parameters_match_rules():
    assert tuple(array("bot_names")) == rules.BOTS
    assert tuple(array("parameter_names")) == tuple(parameter.name for parameter in rules.PARAMETERS)


@pytest.mark.parametrize(("rule_set", "rows", "bots"), [("classic", 22_100, 5), ("challenge", 7_510, 4)])
def test_nearly_every_row_is_stable(rule_set, rows, bots):
    recorded = bot_rows(rule_set, 0)
    assert len(recorded.bots) == rows
    assert recorded.stable.mean() > 0.996
    assert (np.bincount(recorded.bots, minlength=5) > 1_500).sum() == bots


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("rule_set", rules.RULES)
@pytest.mark.parametrize("implementation", [simulator, peer], ids=["kernels", "numpy"])
def test_every_stable_decision_matches_record(implementation, rule_set, seat):
    rows = bot_rows(rule_set, seat)
    decided = implementation.decisions(rows)
    for bot, name in enumerate(rules.BOTS):
        mine = rows.stable & (rows.bots == bot)
        if mine.any():
            wrong = {what: np.flatnonzero(bad & mine) for what, bad in disagreements(decided, rows).items()}
            wrong = {what: (len(found), found[:5].tolist()) for what, found in wrong.items() if len(found)}
            assert not wrong, f"{name} in seat {seat}: count and first rows {wrong}"
            exact = np.abs(decided.turn - rows.decided.turn)[mine] < 1e-4
            assert exact.mean() >= 0.99, name


def disagreements(decided: Decisions, rows: BotRows) -> dict[str, np.ndarray]:
    """Return where a decision differs from the recorded one, bool [N] by what differs."""
    expected = rows.decided
    wrong = {
        "turn": ~(np.abs(decided.turn - expected.turn) <= 1e-2),
        "throttle": ~(np.abs(decided.throttle - expected.throttle) <= 1e-3),
        "shoot": decided.shoot != expected.shoot,
    }
    for column, name in enumerate(MEMORY):
        wrong[name] = decided.memory[:, column] != expected.memory[:, column]
    # The chaser's mode is the sign of its yo-yo, without meaning while none runs.
    wrong["mode"] &= (rows.bots != CHASER) | (expected.memory[:, TIMER] > 0)
    return wrong
