"""Simulated executors by hand, and the recorded tasks of the repository."""

import pytest

from benchmarks.workers.__main__ import RECORDED, report
from benchmarks.workers.simulate import RecordedTask, Recording, drawn, read_recording, simulated_s
from sparring.configs.core.errors import InputError

FREE = {"start": 0.0, "driver": 0.0}


@pytest.mark.parametrize(
    ("times", "workers", "costs", "seconds"),
    [
        ([1.0, 2.0, 3.0], 1, FREE, 6.0),
        ([1.0, 2.0, 3.0], 2, FREE, 4.0),  # the third follows the first
        ([1.0, 2.0, 3.0], 100, FREE, 3.0),
        ([1.0] * 4, 4, {"start": 5.0, "driver": 0.0}, 6.0),
        ([1.0] * 4, 4, {"start": 0.0, "driver": 0.5}, 3.0),  # the driver sends one each half second
        ([0.0] * 10, 1000, {"start": 0.0, "driver": 0.5}, 5.0),
    ],
)
def test_the_seconds_of_a_job(times, workers, costs, seconds):
    assert simulated_s(times, workers, **costs) == pytest.approx(seconds)


def test_a_recording_is_read_as_written(tmp_path):
    tasks = (RecordedTask(1, 7, 0.5, 2.0, 1.5, 28), RecordedTask(1, 7, 2.0, 4.0, 2.0, 28))
    recording = Recording(tasks, 3.0, 0.001, "here")
    recording.write(tmp_path / "tasks.jsonl")
    assert read_recording(tmp_path / "tasks.jsonl") == recording
    assert (recording.rate(1), recording.rate(1, started=True)) == (14.0, 16.0)
    assert set(drawn(recording, 20)) == {1.5, 2.0}
    with pytest.raises(InputError, match=r"none: is no recording of tasks; make one with --record FILE"):
        read_recording(tmp_path / "none")


def test_the_report_of_the_recorded_tasks():
    text = report(read_recording(RECORDED))
    assert "| 10,000 | 1,000 | " in text
    assert text.count("\n| 1,000 | ") == 5
