"""The overfit check passes as it is, and catches five faults planted in the trainer, each by its own criterion."""

from contextlib import nullcontext

import numpy as np
import pytest

pytest.importorskip("transformers")
pytest.importorskip("chess")

from sparring.agents.grpo.objective.logprob_source import LogProbs, Source
from sparring.agents.grpo.objective.reference import Reference
from sparring.agents.grpo.rollouts.rollout import Rollouts
from sparring.agents.llm.decoding import free_text, scoring
from tests.agents.grpo.overfit.small_check import failures, make_model, pay, run_check


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("small"))


@pytest.fixture(autouse=True)
def paid(monkeypatch):
    monkeypatch.setattr("sparring.envs.chess.text_tasks.task.reward_of", pay)


def test_it_passes_without_a_fault(model, tmp_path):
    code, report = run_check(model, tmp_path, "good")
    assert failures(report) == []
    assert (code, report["verdict"]) == (0, "PASS")
    steps = report["steps"]
    assert steps[0]["before"] < steps[-1]["after"]
    assert [one["before"] for one in steps[1:]] == [one["after"] for one in steps[:-1]]
    assert [one["beta"] for one in steps[:3]] == [0.0, 0.0, 0.005]


def test_shuffled_rewards(model, tmp_path, monkeypatch):
    play, rng = Rollouts.play, np.random.default_rng(0)

    def shuffled(self, plan):
        batch = play(self, plan)
        if plan.samples > 1:
            batch.rewards = rng.permutation(batch.rewards)
        return batch

    monkeypatch.setattr(Rollouts, "play", shuffled)
    code, report = run_check(model, tmp_path, "shuffled")
    assert code == 1
    assert "reward slope" in failures(report)


def test_a_reference_that_is_not_frozen(model, tmp_path, monkeypatch):
    def moving(self, scorer):
        return LogProbs(scorer().detach(), Source.REFERENCE, self.weights)

    monkeypatch.setattr(Reference, "score", moving)
    code, report = run_check(model, tmp_path, "moving")
    assert (code, failures(report)) == (1, ["reference"])


def test_an_end_of_text_that_is_not_trained(model, tmp_path, monkeypatch):
    append = free_text._append

    def untrained(text, token, logprob, allowed):
        append(text, token, 0.0 if token == 2 else logprob, 1 if token == 2 else allowed)

    monkeypatch.setattr(free_text, "_append", untrained)
    code, report = run_check(model, tmp_path, "endless")
    assert (code, failures(report)) == (1, ["end of text"])


def test_a_mask_that_the_trainer_drops_ends_the_run(model, tmp_path, monkeypatch):
    """The trainer reads the padding on the left as text."""
    whole = scoring.Context._tensor

    def unmasked(self, values):
        return whole(self, np.ones_like(values) if values.dtype == bool else values)

    monkeypatch.setattr(scoring, "Context", type("Unmasked", (scoring.Context,), {"_tensor": unmasked}))
    code, report = run_check(model, tmp_path, "unmasked")
    assert (code, report) == (1, {})


def test_dropout_in_the_trainer_ends_the_run(model, tmp_path, monkeypatch):
    whole = scoring._hidden

    def dropped(model, batch):
        import torch

        return torch.nn.functional.dropout(whole(model, batch), 0.1, training=True)

    monkeypatch.setattr(scoring, "without_dropout", lambda model: nullcontext())
    monkeypatch.setattr(scoring, "_hidden", dropped)
    code, report = run_check(model, tmp_path, "dropout")
    assert (code, report) == (1, {})
