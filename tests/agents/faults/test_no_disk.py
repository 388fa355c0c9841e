"""A full or missing disk: training continues as long as possible, reports it, and keeps saved files."""

import json

import pytest

from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.run.states import StateFolder
from sparring.agents.trainers import train
from tests.agents.faults import planted, victims
from tests.agents.ppo.small_run import long, metrics, state_of, untimed


def check(root, last):
    """Check that every state and policy in the folder loads and the newest state is of update `last`."""
    states = StateFolder(root / "small" / "state", 3, alert=pytest.fail)
    assert states.latest().summary["update"] == last
    policies = [load_checkpoint(path) for path in (root / "small").glob("*.pt")]
    assert policies
    assert list(root.rglob("*.tmp")) == []


@pytest.mark.parametrize("full_after", [1, 5])
def test_run_on_full_disk_ends_with_one_line(undisturbed, tmp_path, full_after):
    code, text = victims.listen(planted.run_on_a_full_disk, tmp_path, full_after, checkpoint_every=2)
    assert code == 2, text
    assert text.splitlines()[-1].startswith("train.py: "), text
    alert = "alert: TensorBoard: its file cannot be written (File too large); training continues"
    assert [line for line in text.splitlines() if "TensorBoard" in line] == [alert]
    assert "Traceback" not in text
    if full_after > 3:  # later than the first snapshot, without which there is no self-play
        assert "final.pt: cannot be written (File too large); free some space; continue with" in text
        for what in ("no training state was saved", "no snapshot was taken", "step_768.pt was not saved"):
            assert f"alert: {what}" in text
        assert ".jsonl cannot be written" in text
    else:
        assert "pool: cannot be written (File too large); free some space" in text
    check(tmp_path, full_after - full_after % 2)
    train(long(tmp_path))
    assert state_of(tmp_path) == state_of(undisturbed)
    assert untimed(metrics(tmp_path)) == untimed(metrics(undisturbed))


@pytest.mark.parametrize("how", ["a file", "another one"])
def test_vanished_folder_ends_run_with_one_line(undisturbed, tmp_path, how):
    """Also covers unwritable folders for states and snapshots, which not even root can write."""
    code, text = victims.listen(planted.run_without_folder, tmp_path, 5, how, checkpoint_every=2)
    assert "alert: no training state was saved" in text, text
    assert "alert: no snapshot was taken" in text
    assert code == 2
    assert text.splitlines()[-1].startswith("train.py: "), text
    there = tmp_path / "small"
    assert how == "another one" or list(there.rglob("*")) == []
    if there.is_dir():
        there.rename(tmp_path / "remains")
    elif there.exists():
        there.unlink()
    (tmp_path / "elsewhere").rename(there)
    check(tmp_path, 4)
    rows = (there / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(row)["env_steps"] for row in rows] == [128 * update for update in range(1, len(rows) + 1)]
    train(long(tmp_path))
    assert state_of(tmp_path) == state_of(undisturbed)
