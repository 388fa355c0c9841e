"""Callbacks see every update, evaluation and policy, can stop a run, and never change its numbers."""

import pytest

from sparring import Callback, train
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.run.states import read_state
from sparring.configs.core.errors import InputError
from tests.agents.ppo.small_run import config, flat, long, metrics, state_of, untimed


class Recorder(Callback):
    """Record all calls; stop after `stop_at` updates, and raise after `raise_at`."""

    def __init__(self, *, stop_at=0, raise_at=0, error=None):
        self.stop_at, self.raise_at, self.error, self.calls = stop_at, raise_at, error, []

    def on_update(self, run, metrics):
        self.calls.append(("update", run, dict(metrics)))
        if run.update == self.raise_at:
            raise self.error
        return run.update == self.stop_at

    def on_evaluation(self, run, metrics):
        self.calls.append(("evaluation", run, dict(metrics)))

    def on_checkpoint(self, run, path):
        self.calls.append(("checkpoint", run, path))

    def of(self, kind):
        return [(run, found) for name, run, found in self.calls if name == kind]


def test_callbacks_receive_logs_and_change_nothing(undisturbed, tmp_path):
    recorder = Recorder()
    final = train(long(tmp_path), callbacks=[recorder])
    assert [run.update for run, _ in recorder.of("update")] == list(range(1, 9))
    assert {run.updates for run, _ in recorder.of("update")} == {8}
    for (_, found), row in zip(recorder.of("update"), metrics(tmp_path), strict=True):
        assert found.items() <= row.items()
    assert [run.env_steps for run, _ in recorder.of("update")] == [row["env_steps"] for row in metrics(tmp_path)]
    assert [run.update for run, _ in recorder.of("evaluation")] == [4, 8]  # every=4
    assert all(key.startswith("eval/") for _, found in recorder.of("evaluation") for key in found)
    written = {path.name for _, path in recorder.of("checkpoint")}
    assert written == {"final.pt", "best.pt", "before.pt"}
    assert recorder.of("checkpoint")[-1][1] == final
    assert state_of(tmp_path) == state_of(undisturbed)
    assert untimed(metrics(tmp_path)) == untimed(metrics(undisturbed))


def test_run_stopped_by_callback_resumes_bit_for_bit(undisturbed, tmp_path):
    final = train(long(tmp_path), callbacks=[Recorder(stop_at=4)])
    assert load_checkpoint(final).training["interrupted"] is True
    newest = max((tmp_path / "small" / "state").glob("update_*"))
    assert read_state(newest).content["updates"] == 4
    train(long(tmp_path))
    assert state_of(tmp_path) == state_of(undisturbed)
    assert untimed(metrics(tmp_path)) == untimed(metrics(undisturbed))
    weights = [load_checkpoint(root / "small" / "final.pt").network.state_dict() for root in (tmp_path, undisturbed)]
    assert flat(weights[0]) == flat(weights[1])


def test_callback_exception_ends_run_with_saved_state(undisturbed, tmp_path, capsys):
    later, error = Recorder(), RuntimeError("of the callback")
    with pytest.raises(RuntimeError) as caught:
        train(long(tmp_path), callbacks=[Recorder(raise_at=3, error=error), later])
    assert caught.value is error
    assert [run.update for run, _ in later.of("update")] == [1, 2]  # none is called after the exception
    assert "a callback raised RuntimeError; the run ends, its state is saved" in capsys.readouterr().out
    train(long(tmp_path))
    assert state_of(tmp_path) == state_of(undisturbed)
    assert untimed(metrics(tmp_path)) == untimed(metrics(undisturbed))


def test_base_exceptions_end_run_like_errors(tmp_path):
    error = SystemExit(3)
    with pytest.raises(SystemExit) as caught:
        train(config(tmp_path), callbacks=[Recorder(raise_at=1, error=error)])
    assert caught.value is error
    assert read_state(max((tmp_path / "small" / "state").glob("update_*"))).content["updates"] == 1


def test_exception_at_last_policy_is_raised(tmp_path):
    class Fails(Callback):
        def on_checkpoint(self, run, path):
            if path.name == "final.pt" and run.update == run.updates:
                raise OSError("full")

    with pytest.raises(OSError, match="full"):
        train(config(tmp_path), callbacks=[Fails()])
    assert train(config(tmp_path)).exists()


def test_invalid_callback_is_rejected_before_folder_creation(tmp_path):
    for wrong, words in [
        (Recorder, "callbacks: Recorder is a class; pass an instance, Recorder()"),
        (print, "callbacks: builtin_function_or_method has no on_update, on_evaluation, on_checkpoint; inherit"),
    ]:
        with pytest.raises(InputError, match="^" + words.replace("(", r"\(").replace(")", r"\)")):
            train(config(tmp_path), callbacks=[wrong])
    assert list(tmp_path.iterdir()) == []


def test_bad_input_gives_one_line_error(tmp_path):
    with pytest.raises(
        InputError, match=r"overrides='seed=3': is one string; pass a list, as in \['seed=3'\], or a dict"
    ):
        train("quickstart", "seed=3")
    with pytest.raises(InputError, match="overrides: require the name of a run"):
        train(config(tmp_path), {"seed": 3})
