"""Language-model benchmarks: both trainers do the same work and account for their time."""

import argparse
import sys
import time

import numpy as np
import pytest

from benchmarks import llm
from benchmarks.llm_parts import ours
from benchmarks.llm_parts.work import Size, requests_of
from sparring.agents.language.backend import Decision

SIZE = Size(groups=2, samples=2, hidden=32, layers=1, seed=1)


def decision(prompt, tokens, counts):
    arrays = [np.array(values, dtype=np.int32) for values in (prompt, tokens, counts)]
    return Decision(chosen=(), prompt_ids=arrays[0], token_ids=arrays[1], allowed_counts=arrays[2])


def test_group_answers_share_prompt_with_own_draws():
    requests = requests_of(SIZE)
    prompts = [request.text for request in requests]
    assert prompts[0] == prompts[1] != prompts[2] == prompts[3]
    assert len({request.seed for request in requests}) == 4
    assert prompts == [request.text for request in requests_of(SIZE)]


def test_perfect_cache_by_hand():
    # Read are 1 2 3 9 and 1 2 4 9: eight tokens, of which 1, 2, 3, 9, 4 and the other 9 are new.
    texts = [decision([1, 2, 3], [9, 5], [1, 2]), decision([1, 2, 4], [9, 6, 7], [1, 3, 2])]
    assert ours.perfect_hit_rate(texts) == 0.25
    assert ours.perfect_hit_rate([*texts, decision([1, 2, 3], [9], [1])]) == 0.25  # decides nothing, is not read
    assert ours.perfect_hit_rate([texts[0]] * 4) == 0.75


def test_own_trainer_accounts_for_time_and_shared_prompts():
    found = ours.measure(Size(groups=1, samples=4, hidden=32, layers=1, seed=1), rounds=1, threads=1)
    assert min(found.values()) > 0
    assert found["decided"] < found["answer"]
    assert found["hit_rate"] == found["perfect_hit_rate"] == 0.75


def test_step_with_games_accounts_for_time():
    step = ours.measure_step(SIZE, threads=1)
    assert step["decisions"] >= 4
    assert min(step.values()) > 0
    assert all(0 < step[name] < 1 for name in ("outside", "outside_rollout", "outside_learning", "mask"))


@pytest.mark.slow  # half a minute in TRL; the comparison of `make bench` runs it
def test_trl_trains_on_answers_of_requested_length():
    pytest.importorskip("trl", minversion="1.16")
    args = argparse.Namespace(**llm.QUICK, seed=1, threads=1)
    found = llm.in_its_own_process(llm.TRL, args, 5)  # TRL leaves traces in its process
    assert found["answer"] == 5
    assert min(found["sample"], found["learn"], found["peak"]) > 0


def test_nested_calls_count_once(monkeypatch):
    class Model:
        def outer(self):
            self.inner()

        def inner(self):
            time.sleep(0.02)

    monkeypatch.setattr(ours, "MODEL_CALLS", ((Model, "outer"), (Model, "inner")))
    inner = Model.inner
    with ours.Clock() as clock:
        Model().outer()
    assert 0.02 <= clock.within <= clock.seconds  # counted twice it would be more than all
    assert Model.inner is inner


def test_group_of_one_is_rejected(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["llm.py", "--samples", "1"])
    with pytest.raises(SystemExit, match="2"):
        llm.main()
    assert "--samples=1: must be at least 2" in capsys.readouterr().err
