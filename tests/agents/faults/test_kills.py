"""Kills at any moment: saved files stay valid and the run resumes identically."""

import itertools
import random
import shutil
import signal
import time

import pytest

from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.run.folder import RunFolder
from sparring.agents.run.states import StateFolder, read_state
from sparring.curriculum.pool import Pool
from tests.agents.faults import planted, victims
from tests.agents.ppo.small_run import flat, metrics, state_of, untimed

KILLS, KEEP = 4, 2


@pytest.fixture
def folder(tmp_path):
    """Return a folder in which update 1 was saved."""
    planted.save(tmp_path, 1, KEEP)
    return tmp_path


def check(folder, keep):
    """Check that every listed file loads; return the newest update of each kind."""
    states = StateFolder(folder / "state", keep, alert=pytest.fail)
    for found in [*map(read_state, states.paths()), states.latest()]:
        update = found.summary["update"]
        assert found.content["n"] == [update]
        assert set(found.content["w"].tolist()) == {update}
    checkpoint = load_checkpoint(folder / "final.pt")
    weights = {float(weight) for tensor in checkpoint.network.state_dict().values() for weight in tensor.flatten()}
    assert weights == {float(checkpoint.training["update"])}
    pool = Pool(folder / "pool", 3, shape=planted.policy(0).shape)
    for snapshot in pool.snapshots:
        assert float(pool.load(snapshot.name)["actor.0.weight"][0, 0]) == snapshot.update
    return states.latest().summary["update"], checkpoint.training["update"], pool.snapshots[-1].update


def clean(folder, keep):
    """Open the folder like a run does; no partial file is left afterwards."""
    RunFolder(folder).clean()
    states = StateFolder(folder / "state", keep, alert=pytest.fail)
    states.clean()
    assert [str(path) for path in folder.rglob("*") if path.name.startswith(".")] == []
    assert len(states.paths()) <= keep + 1


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_kill_before_file_operation_keeps_saved_state(tmp_path, step):
    """With one state kept there is no fallback, so a valid state must exist at every moment."""
    keep = 1
    (tmp_path / "whole").mkdir()
    planted.save(tmp_path / "whole", 1, keep)
    for at in itertools.count(step=step):
        folder = tmp_path / str(at)
        shutil.copytree(tmp_path / "whole", folder)
        code = victims.finish(planted.save_and_die, folder, 2, keep, at)
        assert set(check(folder, keep)) <= {1, 2}
        clean(folder, keep)
        newest = check(folder, keep)
        shutil.rmtree(folder)
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert newest == (2, 2, 2)
    assert at > 40


def test_repeatedly_killed_run_resumes_bit_for_bit(undisturbed, tmp_path):
    root, rng, kills = tmp_path / "killed", random.Random(1), 0
    while True:
        process, receiver = victims.start_telling(planted.run_telling, root, out=tmp_path / "said", checkpoint_every=1)
        began = victims.told(receiver)
        begin = time.perf_counter()
        if not began or not victims.told(receiver):
            break
        time.sleep(rng.uniform(0.0, 1.0) * (time.perf_counter() - begin))
        process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
    process.join()
    said = (tmp_path / "said").read_text()
    assert process.exitcode == 0, said
    assert kills >= 3
    assert "starts from the beginning" not in said
    assert "damaged" not in said
    assert state_of(root) == state_of(undisturbed)
    assert untimed(metrics(root)) == untimed(metrics(undisturbed))
    for name in ("final.pt", "before.pt", "best.pt"):
        ours, theirs = (load_checkpoint(place / "small" / name) for place in (root, undisturbed))
        assert flat(ours.network.state_dict()) == flat(theirs.network.state_dict())
    assert [str(path) for path in root.rglob(".*")] == []
