"""The training loop with a toy trainer: order of calls and of written files."""

import math
import signal

import pytest
import torch

from sparring.agents.run.fit import fit
from sparring.agents.run.folder import LOCK
from sparring.agents.run.guard import GuardVerdict, LearningFailed
from sparring.agents.run.session import RunSession
from sparring.agents.run.signals import Stopped
from sparring.agents.run.states import StateError
from sparring.configs.core.errors import InputError
from sparring.configs.core.typed import ContentError
from tests.agents.ppo.small_run import config


class Counting:
    """Count updates; `calls` records what `fit` requested, `verdicts` are the guard's answers."""

    unit, cannot_save = "update", ""

    def __init__(self, updates=3, verdicts=()):
        self.updates, self.updates_done, self.calls, self.verdicts = updates, 0, [], list(verdicts)

    @property
    def final(self):
        return self.session.folder.final

    @property
    def over(self):
        return self.updates_done >= self.updates

    @property
    def env_steps(self):
        return 10 * (self.updates_done + 1)

    def restore_or_init(self, session):
        self.session = session
        if session.found:
            self.load_state_dict(session.found)

    def nothing_left(self):
        return "nothing left to do"

    def describe(self):
        yield "a toy"

    def update(self):
        self.calls.append("update")
        self.verdict = self.verdicts.pop(0) if self.verdicts else GuardVerdict.GO_ON
        return {"x": 1.0}

    def evaluate(self):
        self.calls.append("evaluate")
        return {"y": 2.0}

    def advance(self):
        self.updates_done += 1

    def headline(self, metrics):
        return "toy", f"{metrics['x']}"

    def save_policy(self, path, *, interrupted):
        self.calls.append(f"policy{self.updates_done}{' interrupted' if interrupted else ''}")
        path.write_text("policy")

    def state_dict(self):
        self.calls.append("state")
        return {"done": self.updates_done}

    def load_state_dict(self, state):
        self.updates_done = state.content["done"]

    def summary(self):
        return {"device": "cpu"}


class Session(RunSession):
    """A session whose guard gives the planned verdicts."""

    trainer = None

    @property
    def verdict(self):
        return self.trainer.verdict


def run(root, trainer, **options):
    with Session(config(root, **options), total=trainer.updates) as session:
        session.trainer = trainer
        return fit(trainer, session)


def test_updates_are_evaluated_and_policy_is_saved_before_state(tmp_path):
    trainer = Counting(updates=2)
    final = run(tmp_path, trainer, checkpoint_every=2)
    saved = [["policy0 interrupted", "state"], ["policy2 interrupted", "state", "policy2", "state"]]
    assert trainer.calls == [*saved[0], *["update", "evaluate"] * 2, *saved[1]]
    assert final.read_text() == "policy"


def test_finished_run_only_rewrites_policy(tmp_path, capsys):
    run(tmp_path, Counting())
    again = Counting()
    run(tmp_path, again)
    assert again.calls == ["policy3"]
    assert "nothing left to do" in capsys.readouterr().out


def test_guard_rollback_loads_newest_state(tmp_path, capsys):
    trainer = Counting(verdicts=[GuardVerdict.GO_ON] * 2 + [GuardVerdict.ROLL_BACK])
    run(tmp_path, trainer, checkpoint_every=1)
    assert trainer.calls.count("update") == 4
    assert "alert: rolled back to update_000002" in capsys.readouterr().out


def test_last_state_is_kept_when_guard_gives_up(tmp_path, capsys):
    give_up = Counting(verdicts=[GuardVerdict.GO_ON, GuardVerdict.GIVE_UP])
    with pytest.raises(LearningFailed):
        run(tmp_path, give_up, checkpoint_every=1)
    assert "the run ends after update 1" in capsys.readouterr().out
    assert max(path.name for path in (tmp_path / "small" / "state").iterdir()) == "update_000001"


def test_signal_finishes_update_and_run_resumes(tmp_path, capsys):
    class Signalled(Counting):
        def update(self):
            signal.raise_signal(signal.SIGTERM)
            return super().update()

    trainer = Signalled()
    with pytest.raises(Stopped) as stopped:
        run(tmp_path, trainer)
    assert stopped.value.code == 75
    assert trainer.calls[-4:] == ["update", "evaluate", "policy1 interrupted", "state"]
    assert "continue with: python train.py resume=small" in capsys.readouterr().out
    rest = Counting()
    run(tmp_path, rest)
    assert rest.calls.count("update") == 2


def test_full_disk_is_alert_during_training_and_error_at_end(tmp_path, capsys):
    class Full(Counting):
        def save_policy(self, path, *, interrupted):
            raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match=r"final.pt: cannot be written \(No space left on device\); free some space"):
        run(tmp_path, Full(), checkpoint_every=100)
    assert "alert: final.pt was not saved (No space left on device); training continues" in capsys.readouterr().out


class Refused(Counting):
    """Reject the state to resume from."""

    def load_state_dict(self, state):
        raise ContentError("done=5: must be less")


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != LOCK}


def test_rejected_state_leaves_every_file_unchanged(tmp_path):
    """This includes the lines after the state, which a resumed run replaces."""
    options = config(tmp_path, checkpoint_every=2)
    with RunSession(options, total=5) as session:
        fit(Counting(5), session)
    events = tmp_path / "small" / "events.jsonl"
    assert "done after 5 updates" in events.read_text()  # said after the last state
    before = files(tmp_path)
    with pytest.raises(StateError, match="done=5: must be less"), RunSession(options, total=5) as session:
        fit(Refused(5), session)
    assert files(tmp_path) == before
    with RunSession(options, total=5) as session:
        fit(Counting(5), session)
    assert "done after 5 updates" not in events.read_text()


def test_invalid_state_is_not_written(tmp_path, capsys):
    class Spoiled(Counting):
        def state_dict(self):
            bad = {"recent": [1.0, math.nan]} if self.updates_done == 2 else {"w": torch.ones(2)}
            return {"done": self.updates_done, "toy": bad}

    with RunSession(config(tmp_path, checkpoint_every=1), total=2) as session:
        with pytest.raises(InputError, match=r"state: the last training state is not saved \(toy\.recent\.1=nan: must"):
            fit(Spoiled(2), session)
        assert session.newest_state().content["done"] == 1
    assert "alert: no training state was saved (toy.recent.1=nan: must be a finite number)" in capsys.readouterr().out
