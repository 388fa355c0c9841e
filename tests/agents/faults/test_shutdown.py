"""Signals at any point of a run: exit codes, saved files, and bit-for-bit resuming.

Real signals in a process of its own, delivered while it collects, learns, checks and saves.
"""

import json
import signal

import pytest

from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.run.states import StateFolder
from sparring.agents.trainers import train
from tests.agents.faults import planted, victims
from tests.agents.ppo.small_run import long, metrics, state_of, untimed

TERM, INT = signal.SIGTERM, signal.SIGINT
PLACES = ["rollout", "check", "save of a policy", "save of a state"]


def signalled(root, place, *numbers):
    """Return exit code and output of a run that saves every second update and is signalled in its sixth."""
    return victims.listen(planted.run_signalled, root, place, numbers, checkpoint_every=2)


def newest(root):
    """Return the update of the newest state, whose league is in league.json."""
    state = StateFolder(root / "small" / "state", 3, alert=pytest.fail).latest()
    assert json.loads((root / "small" / "league.json").read_text()) == state.content["league"]["league"]
    return state.summary["update"]


def leftovers(root):
    return [str(path) for path in root.rglob("*.tmp")]


def goes_on(root, undisturbed):
    train(long(root))
    assert state_of(root) == state_of(undisturbed)
    assert untimed(metrics(root)) == untimed(metrics(undisturbed))


@pytest.mark.parametrize("place", ["check", "save of a policy"])
def test_first_signal_finishes_update_and_saves(undisturbed, tmp_path, place):
    number, code = ((TERM, 75), (INT, 130))[PLACES.index(place) % 2]
    ended, said = signalled(tmp_path, place, number)
    assert ended == code
    assert "stopping after this update" in said
    assert "interrupted after 6 updates" in said
    assert newest(tmp_path) == 6
    assert leftovers(tmp_path) == []
    goes_on(tmp_path, undisturbed)


@pytest.mark.parametrize("place", ["rollout", "save of a state"])
def test_second_signal_saves_nothing_more(undisturbed, tmp_path, place):
    first, second, code = ((TERM, INT, 130), (INT, TERM, 75))[PLACES.index(place) % 2]
    found, said = signalled(tmp_path, place, first, second)
    assert found == code
    assert f"stopped at once; 4 updates are kept in {tmp_path / 'small'}; continue with: " in said
    assert "Traceback" not in said
    assert newest(tmp_path) == 4
    assert leftovers(tmp_path) == []
    policy = 6 if place == "save of a state" else 4  # a policy is saved just before its state
    assert load_checkpoint(tmp_path / "small" / "final.pt").training["update"] == policy
    goes_on(tmp_path, undisturbed)
