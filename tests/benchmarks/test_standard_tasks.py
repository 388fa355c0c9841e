"""The table of standard tasks: statistics over seeds, and options that every task accepts."""

import gymnasium
import numpy as np
import pytest
from scipy import stats

from benchmarks import standard_tasks
from benchmarks.standard_tasks import HEAD, TASKS, SeedResult, Task, summary, task_rows
from sparring.configs.core.errors import InputError
from sparring.configs.load import load

RETURNS = np.array([-171.0, -180.0, -199.0, -613.0, -175.0])
"""One of five seeds failed."""


def test_mean_median_and_iqm_of_seeds():
    mean, median, iqm, interval, lowest = summary(RETURNS)
    half = stats.t.ppf(0.975, 4) * RETURNS.std(ddof=1) / np.sqrt(5)
    assert mean == f"{RETURNS.mean():.1f} ± {half:.1f}"
    assert (median, lowest) == ("-180.0", "-613.0")
    assert iqm == f"{(-175.0 - 180.0 - 199.0) / 3:.1f}"  # without the highest and the lowest
    low, high = map(float, interval.split(" to "))
    assert -613.0 < low < float(iqm) < high <= -171.0


def test_each_published_source_has_row():
    task = next(task for task in TASKS if task.name == "Hopper-v5")
    results = [
        SeedResult("Hopper-v5", seed, [], *returns, 999_424) for seed, returns in ((1, (1.5, 2.5)), (2, (1.25, 2.25)))
    ]
    sampled, deterministic = task_rows(task, results)
    assert len(sampled) == len(deterministic) == len(HEAD)
    assert sampled[:5] == ["Hopper-v5", "2", "999 k", "last 100 training episodes", "1.375 ± 1.588"]
    assert sampled[-1].startswith("CleanRL 2382.9")
    assert deterministic[-1].startswith("SB3 zoo 2410")


def test_finished_seeds_are_printed_without_rerun(tmp_path, monkeypatch):
    trained = []

    def measured(task, seed, args):
        trained.append((task.name, seed, *args.overrides))
        return SeedResult(task.name, seed, args.overrides, float(seed), 2.0 * seed, 1000)

    def table_of(*arguments):
        page = tmp_path / "page.md"
        line = ["standard_tasks.py", "--folder", str(tmp_path), "--out", str(page), *arguments]
        monkeypatch.setattr("sys.argv", line)
        assert standard_tasks.main() == 0
        rows = [line.split("|")[1:-1] for line in page.read_text("utf-8").splitlines() if line.startswith("| ")]
        return {(row[0].strip(), row[1].strip(), row[4].split()[0]) for row in rows if "training" in row[3]}

    monkeypatch.setattr(standard_tasks, "measure", measured)
    assert table_of("--tasks", "CartPole-v1", "--seeds", "2") == {("CartPole-v1", "2", "1.500")}
    both = {("CartPole-v1", "2", "1.500"), ("Acrobot-v1", "3", "2.000")}
    assert table_of("--tasks", "Acrobot-v1", "--seeds", "3") == both
    assert table_of("--seeds", "0") == both
    assert trained == [("CartPole-v1", 1), ("CartPole-v1", 2), *(("Acrobot-v1", seed) for seed in (1, 2, 3))]
    # Seeds of other options are others.
    other = {("CartPole-v1, `ppo.precision=bf16`", "2", "1.500")}
    assert table_of("--tasks", "CartPole-v1", "--seeds", "2", "ppo.precision=bf16") == both | other
    assert trained[5:] == [("CartPole-v1", seed, "ppo.precision=bf16") for seed in (1, 2)]
    elsewhere = tmp_path / "published.jsonl"
    assert table_of("--tasks", "Acrobot-v1", "--seeds", "2", "--results", str(elsewhere)) == {
        ("Acrobot-v1", "2", "1.500")
    }
    assert len(elsewhere.read_text().splitlines()) == 2


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_every_task_is_run_of_registered_environment(task: Task):
    config = load([*task.options, f"env.id={task.id or task.name}"])
    assert config.env.id in gymnasium.registry
    assert config.network.gsde == ("gSDE" in task.name)


@pytest.mark.parametrize("text", [None, ""])
def test_empty_results_file_gives_no_table(text, tmp_path, monkeypatch):
    results = tmp_path / "results.jsonl"
    if text is not None:
        results.write_text(text)
    monkeypatch.setattr("sys.argv", ["standard_tasks.py", "--seeds", "0", "--results", str(results)])
    with pytest.raises(InputError, match="no task has two finished seeds"):
        standard_tasks.main()
