"""The table of standard tasks: its statistics over seeds, and options that every task accepts."""

import gymnasium
import numpy as np
import pytest
from scipy import stats

from benchmarks.standard_tasks import HEAD, TASKS, Task, summary, task_rows
from sparring.configs.load import load

RETURNS = np.array([-171.0, -180.0, -199.0, -613.0, -175.0])
"""One of five seeds failed."""


def test_mean_median_and_interquartile_mean_of_seeds():
    mean, median, iqm, interval, lowest = summary(RETURNS)
    half = stats.t.ppf(0.975, 4) * RETURNS.std(ddof=1) / np.sqrt(5)
    assert mean == f"{RETURNS.mean():.1f} ± {half:.1f}"
    assert (median, lowest) == ("-180.0", "-613.0")
    assert iqm == f"{(-175.0 - 180.0 - 199.0) / 3:.1f}"  # without the highest and the lowest
    low, high = map(float, interval.split(" to "))
    assert -613.0 < low < float(iqm) < high <= -171.0


def test_a_row_for_what_each_source_publishes():
    task = next(task for task in TASKS if task.name == "Hopper-v5")
    sampled, deterministic = task_rows(task, np.array([[1.5, 2.5, 999_424.0], [1.25, 2.25, 999_424.0]]))
    assert len(sampled) == len(deterministic) == len(HEAD)
    assert sampled[:4] == ["Hopper-v5", "999 k", "last 100 training episodes", "1.375 ± 1.588"]
    assert sampled[-1].startswith("CleanRL 2382.9")
    assert deterministic[-1].startswith("SB3 zoo 2410")


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_every_task_is_a_run_of_a_registered_environment(task: Task):
    config = load([*task.options, f"env.id={task.id or task.name}"])
    assert config.env.id in gymnasium.registry
    assert config.network.gsde == ("gSDE" in task.name)
