"""Executor tasks: same results with any number of processes, worker deaths, Ray with a lost node."""

import os
import pickle
import time
from types import SimpleNamespace

import pytest

from sparring.agents.distributed import pools
from sparring.agents.distributed.tasks import KeptResults, finish_tasks, run_tasks
from sparring.configs.core import device
from sparring.configs.core.device import Executor
from sparring.configs.core.errors import InputError
from tests.agents.distributed.ray_cluster import call_apart, two_nodes, wait_for_one_node

SEVERAL = Executor(workers=2)


def square(number):
    return number * number


def fragile(task):
    """Exit at the first attempt at an odd number, leaving a file behind."""
    number, folder = task
    mark = folder / str(number)
    if number % 2 and not mark.exists():
        mark.touch()
        os._exit(9)
    return number * number


def doomed(number):
    os._exit(9)


def refuses(number):
    raise InputError(f"number={number}: is refused; give another")


def pids(number):
    return os.getpid()


def test_one_worker_runs_tasks_locally_in_order():
    assert list(run_tasks(square, [3, 1, 2], Executor())) == [(3, 9), (1, 1), (2, 4)]
    assert [pid for _, pid in run_tasks(pids, [1], Executor())] == [os.getpid()]
    assert list(run_tasks(square, [], Executor(device.RAY))) == []  # nothing is started


def test_several_workers_match_one_despite_deaths(tmp_path):
    given = [(number, tmp_path) for number in range(3)]
    assert sorted(result for _, result in run_tasks(fragile, given, SEVERAL)) == [0, 1, 4]
    assert (tmp_path / "1").exists()  # it died once


def test_task_error_or_death_of_all_workers_stops(monkeypatch):
    monkeypatch.setattr(pools, "MOST_DEATHS", 1)
    with pytest.raises(InputError, match="number=1: is refused"):
        list(run_tasks(refuses, [1], SEVERAL))
    with pytest.raises(InputError, match=r"1 worker .* died of it, the last with exit code 9; use fewer work"):
        list(run_tasks(doomed, [1], SEVERAL))


def test_cores_are_divided_among_local_workers(monkeypatch):
    monkeypatch.setattr(device, "usable_cores", lambda: 8)
    assert [Executor(workers=count).task_threads for count in (1, 2, 16)] == [0, 4, 1]
    assert (Executor(workers=2, threads=3).task_threads, Executor(device.RAY).task_threads) == (3, 1)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setattr(pools.sys, "modules", {})  # torch reads the variable when it is loaded
    pools._use_threads(3)
    assert os.environ["OMP_NUM_THREADS"] == "3"


def test_ray_is_required_only_where_used(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(pools, "import_module", missing)
    with pytest.raises(InputError, match=r"executor ray needs ray: `sparring install ray`"):
        list(run_tasks(square, [1], Executor(device.RAY)))


def test_node_with_other_version_is_rejected():
    with pytest.raises(InputError, match=r"a node has Sparring .*, the driver 0\.0; install one on all"):
        pools._on_node("0.0", 1, pools._packed(square, 3))


def test_unpicklable_task_is_rejected():
    with pytest.raises(InputError, match=r"a task cannot be sent to another process \(.*\); remove workers"):
        list(run_tasks(square, [lambda: 0], SEVERAL))
    with pytest.raises(
        InputError, match=r"a worker cannot import what a task needs \(No module named 'nowhere'\); put"
    ):
        pools._done(b"cnowhere\nplay\n.")
    assert pickle.loads(pools._done(pools._packed(square, 3))) == 9


def count(number, bar):
    """Count in two halves, as a task with a progress bar, and fail at 3."""
    bar.update(5)
    if number == 3:
        raise KeyboardInterrupt
    return number * number


def test_results_follow_task_order(packed_tasks, capsys):
    for executor in (Executor(), SEVERAL):
        results = finish_tasks(count, [4, 1, 2], executor, sizes=[10, 10, 20], label=lambda number: f"task {number}")
        assert results == [16, 1, 4]
        bar = capsys.readouterr().err
        assert "40/40" in bar
        assert "task " in bar
    assert packed_tasks == [(SEVERAL, 3)]


def test_results_are_buffered_until_all_tasks_finish(tmp_path):
    """Interrupted at the third task; the next call runs the third and fourth, and one whose line was truncated."""
    file, played = tmp_path / "cells.jsonl", []

    def watched(number, bar):
        played.append(number)
        return count(number, bar)

    def finish(numbers):
        keys = [str(number) if number else "" for number in numbers]  # 0 is kept nowhere
        how = {"label": str, "quiet": True, "cached": KeptResults(file, int), "keys": keys}
        return finish_tasks(watched, numbers, Executor(), **how)

    with pytest.raises(KeyboardInterrupt):
        finish([0, 1, 2, 3, 4])
    assert len(file.read_text().split()) == 4 * 2  # lines of four words
    file.write_text(file.read_text().rstrip("}\n"))
    played.clear()
    assert finish([0, 1, 2, 4]) == [0, 1, 4, 16]
    assert played == [0, 2, 4]
    assert not file.exists()


def slow_square(number):
    time.sleep(1.0)
    return number * number


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "127.0.0.1:9",
            r"executor address 127\.0\.0\.1:9: no Ray cluster answers \(.*refused\); start one with `ray start",
        ),
        ("head", "executor address head: must be auto, HOST:PORT or ray://HOST:PORT"),
    ],
)
def test_address_without_cluster_is_rejected_immediately(monkeypatch, address, message):
    monkeypatch.setattr(pools, "import_module", lambda name: SimpleNamespace(is_initialized=lambda: False))
    with pytest.raises(InputError, match=message):
        list(run_tasks(square, [1], Executor(device.RAY, address)))


def lose_a_node():
    """Run eight tasks on two nodes, one of which is killed after the second result."""
    with two_nodes() as (address, lose):
        results = {}
        for number, result in run_tasks(slow_square, range(8), Executor(device.RAY, address)):
            results[number] = result
            if len(results) == 2:
                lose()
        assert results == {number: number * number for number in range(8)}
        wait_for_one_node()


@pytest.mark.slow
def test_cluster_survives_node_loss():
    call_apart("tests.agents.distributed.test_tasks", "lose_a_node")
