"""Both halves run, at once where asked, and an error of either comes out after both have ended."""

import threading

import pytest
import torch

from sparring.agents.distributed.processes import ParallelHalves


@pytest.fixture(params=[True, False])
def pair(request):
    pair = ParallelHalves(parallel=request.param)
    yield pair
    pair.close()


def test_both_results_in_order(pair):
    assert pair.both(lambda: "policy", lambda: "value") == ("policy", "value")


def test_side_by_side_means_at_the_same_time():
    pair, barrier = ParallelHalves(parallel=True), threading.Barrier(2)
    pair.both(lambda: barrier.wait(10), lambda: barrier.wait(10))  # alone, either would wait in vain
    pair.close()


def test_the_thread_uses_as_many_torch_threads_as_its_maker():
    pair = ParallelHalves(parallel=True)
    assert len(set(pair.both(torch.get_num_threads, torch.get_num_threads))) == 1
    pair.close()


def fail():
    raise FloatingPointError("broken")


def test_errors_come_out_once_both_have_ended(pair):
    for first, second in ((fail, bool), (bool, fail)):
        with pytest.raises(FloatingPointError, match="broken"):
            pair.both(first, second)
    assert pair.both(int, str) == (0, "")
