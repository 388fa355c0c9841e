"""The learner on decisions of a toy model: initial ratios of 1, a reference in use, rejected steps."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sparring.agents.language.decoding.constraint import Constraint
from sparring.agents.language.decoding.scoring import collate
from sparring.agents.language.grpo.learner import Sample
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.agents.run.guard import Guard, GuardVerdict
from sparring.configs.core.session import GuardConfig
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from tests.agents.language.grpo.rollouts.small_games import plan_of, small_config, toy_learner, toy_rollouts
from tests.agents.language.toys import llama, word_tokenizer


@pytest.fixture(scope="module")
def played():
    """Return the rollout turns of the untrained model."""
    config = small_config()
    rollouts = toy_rollouts(
        config,
        TransformersBackend(
            llama(word_tokenizer()),
            word_tokenizer(),
            constraint=Constraint(word_tokenizer(), DIPLOMACY_TEXT),
            temperature=0.8,
        ),
    )
    batch = rollouts.play(plan_of(config))
    rollouts.close()
    return batch.turns


def samples_of(turns, sign=1.0):
    return [Sample(turn.decision, sign * (1.0 if number % 2 else -1.0)) for number, turn in enumerate(turns)]


def lead(learner, samples):
    """Return the mean log-probability of good samples' tokens minus that of bad ones."""
    with torch.no_grad():
        good, bad = (
            learner._score(collate([one.decision for one in samples if sign * one.advantage > 0])).logp.mean()
            for sign in (1, -1)
        )
    return float(good - bad)


def test_before_any_update_ratios_are_one_and_kl_is_zero(played):
    metrics = toy_learner().learn(samples_of(played))  # one minibatch: everything is measured before the first step
    assert metrics["ppo/ratio_mean"] == pytest.approx(1.0, abs=1e-5)
    assert metrics["ppo/ratio_std"] < 1e-5
    assert metrics["kl/max"] < 1e-10
    assert metrics["train/kl_max"] < 1e-9


def test_step_raises_good_decisions_and_kl(played):
    learner = toy_learner("grpo.kl_beta=0", "grpo.target_kl=0")
    before = lead(learner, samples_of(played))
    for _ in range(5):
        metrics = learner.learn(samples_of(played))
    assert lead(learner, samples_of(played)) > before + 0.05
    assert metrics["benchmark/loss"] < -0.05
    assert metrics["kl/mean"] > 1e-3
    assert metrics["ppo/ratio_std"] > 0.01


def test_batch_without_signal_is_counted_and_changes_nothing(played):
    learner = toy_learner()
    before = {name: parameter.clone() for name, parameter in learner.parameters.items()}
    metrics = learner.learn([])
    assert metrics["processing/empty_batches"] == 1.0
    assert all(torch.equal(value, before[name]) for name, value in learner.parameters.items())
    assert not learner.optimizer.state
    assert learner.version == 1


def test_guard_reverts_broken_step_and_cuts_learning_rate(played):
    learner, alerts = toy_learner(), []
    before = {name: parameter.clone() for name, parameter in learner.parameters.items()}
    guard = Guard(GuardConfig(), learner, alert=alerts.append)
    guard.before(0)
    metrics = learner.learn(samples_of(played))
    assert any(not torch.equal(value, before[name]) for name, value in learner.parameters.items())
    verdict = guard.after(0, metrics | {"train/kl_max": 1e6})
    assert verdict is GuardVerdict.GO_ON
    assert all(torch.equal(value, before[name]) for name, value in learner.parameters.items())
    assert guard.rate_scale == 0.5
    assert learner.version == 0
    assert len(alerts) == 1


def test_bad_minibatch_is_skipped_alone(played):
    learner = toy_learner("grpo.minibatch_samples=2", "grpo.target_kl=0")
    found = samples_of(played)
    most = max(range(len(found)), key=lambda number: int((found[number].decision.allowed_counts > 1).sum()))
    found[most] = Sample(found[most].decision, float("nan"))
    metrics = learner.learn(found)
    assert metrics["train/skipped_steps"] == 1.0
    assert np.isfinite(metrics["benchmark/loss"])
    assert all(bool(torch.isfinite(value).all()) for value in learner.parameters.values())
    assert learner.optimizer.state


def test_inexact_decisions_are_rejected(played):
    rough = replace(played[0].decision, exact=False)
    with pytest.raises(ValueError, match="exact"):
        toy_learner().learn([Sample(rough, 1.0)])


def test_learner_resumes_bit_for_bit(played):
    whole, cut = toy_learner("grpo.use_ema_reference=true"), toy_learner("grpo.use_ema_reference=true")
    whole.learn(samples_of(played))
    cut.load_state_dict(whole.state_dict())
    one, other = whole.learn(samples_of(played, -1.0)), cut.learn(samples_of(played, -1.0))
    assert one == other
    assert all(torch.equal(value, cut.parameters[name]) for name, value in whole.parameters.items())


def test_kl_limit_stops_step_in_any_epoch(played):
    """Two minibatches: the first starts at the old policy, after the second the KL is measured."""
    options = ("grpo.minibatch_samples=2", "grpo.kl_beta=0", "grpo.epochs=4")
    stopped, free = toy_learner(*options, "grpo.target_kl=1e-9"), toy_learner(*options, "grpo.target_kl=0")
    metrics = stopped.learn(samples_of(played))
    assert metrics["train/kl_stop"] == 1
    assert steps_of(stopped) == 2
    free.learn(samples_of(played))
    assert steps_of(free) == 4 * -(-len(played) // 2)


def steps_of(learner):
    """Return the number of optimizer steps taken."""
    return max(int(state["step"]) for state in learner.optimizer.state.values())
