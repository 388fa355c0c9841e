"""Each sign is seen when it lasts, said once, and not seen where there is nothing."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from sparring.agents.run.guard import COOL_DOWN, ENOUGH, HOLD, Detectors, Guard, GuardVerdict
from sparring.configs.schema import GuardConfig, PPOConfig

USUAL = {"train/entropy": 0.5, "rollout/action_size": 0.4, "train/value_loss": 0.02, "train/grad_norm": 0.3}
USUAL |= {"curriculum/ace/win_rate": 0.95, "curriculum/chaser/win_rate": 0.85}
FAULTS = {
    "train/entropy fell from 0.50 to -1.10 nats": {"train/entropy": -1.1},
    "continuous actions are 25 in size, far beyond their bounds": {"rollout/action_size": 25.0},
    "train/value_loss is 0.5, 25 times its recent maximum": {"train/value_loss": 0.5},
    "train/grad_norm is 60, 200 times its recent maximum": {"train/grad_norm": 60.0},
    "bots mastered before are no longer beaten: ace 55%": {"curriculum/ace/win_rate": 0.55},
}


def alerts(detectors, metrics, updates):
    return [detectors.alerts(metrics) for _ in range(updates)]


def healthy():
    detectors = Detectors()
    assert not any(alerts(detectors, USUAL, ENOUGH))
    return detectors


@pytest.mark.parametrize("text", FAULTS)
def test_a_lasting_fault_is_said_once_and_again_after_the_cool_down(text):
    said = alerts(healthy(), USUAL | FAULTS[text], HOLD + COOL_DOWN)
    assert said[HOLD - 1] == said[-1] == [text]
    assert sum(map(len, said)) == 2


@pytest.mark.parametrize("text", FAULTS)
def test_a_passing_one_is_not(text):
    detectors = healthy()
    for _ in range(10):
        assert not any(alerts(detectors, USUAL | FAULTS[text], HOLD - 1))
        assert not any(alerts(detectors, USUAL, 1))


def test_a_bot_never_mastered_cannot_be_lost():
    assert not any(alerts(healthy(), USUAL | {"curriculum/chaser/win_rate": 0.2}, 20))


def test_nothing_is_judged_before_it_is_known_what_is_usual():
    detectors = Detectors()
    assert not any(alerts(detectors, USUAL, ENOUGH - 1))
    assert not any(alerts(detectors, USUAL | {"train/grad_norm": 60.0, "train/entropy": -3.0}, 1))


@pytest.mark.parametrize("text", [text for text in FAULTS if text.startswith("train/")])
def test_a_skipped_update_blinds_no_sign(text):
    """An update of which every step was skipped has no loss, NaN; so have states of earlier versions after one."""
    detectors = healthy()
    skipped = dict.fromkeys(("train/entropy", "train/value_loss", "train/grad_norm"), math.nan)
    assert not any(alerts(detectors, USUAL | skipped, 1))
    assert alerts(detectors, USUAL | FAULTS[text], HOLD)[-1] == [text]
    state = healthy().state_dict()
    for name in skipped:
        state["recent"][name][0] = math.nan
    detectors.load_state_dict(state)
    assert not any(alerts(detectors, USUAL, 1))
    assert alerts(detectors, USUAL | FAULTS[text], HOLD)[-1] == [text]


def test_windows_and_counters_come_back():
    detectors, twin = healthy(), Detectors()
    fault = USUAL | {"train/grad_norm": 60.0, "curriculum/ace/win_rate": 0.1}
    assert not any(alerts(detectors, fault, HOLD - 1))
    twin.load_state_dict(json.loads(json.dumps(detectors.state_dict())))
    assert twin.alerts(fault) == detectors.alerts(fault) != []


TRACES = json.loads((Path(__file__).parent / "healthy_traces.json").read_text())


@pytest.mark.parametrize("number", range(20))
def test_nothing_fires_on_runs_that_learn_as_they_should(number):
    """Recorded by record_healthy_traces.py."""
    optimizer = SimpleNamespace(state={})
    learner = SimpleNamespace(config=PPOConfig(), state_dict=dict, optimizer=optimizer)
    guard = Guard(GuardConfig(), learner, alert=pytest.fail)
    for update, row in enumerate(TRACES[number]):
        guard.before()
        assert guard.after(update, row) is GuardVerdict.GO_ON
        guard.watch(row, quarantined=0)
    assert len(TRACES[number]) == 80
    assert (guard.counts["restored_updates"], guard.counts["alerts"]) == (0, 0)
