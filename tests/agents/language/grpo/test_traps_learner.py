"""Traps 9, 13, 22 and 24 in the learner: KL, micro-batches, ratio to the sampling weights, arithmetic."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sparring.agents.language.decoding.constraint import Constraint
from sparring.agents.language.grpo.learner import Sample
from sparring.agents.language.grpo.objective.loss import DisagreementError
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.configs.language import AGGREGATIONS
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from sparring.envs.text import Prompt
from tests.agents.language.grpo.rollouts.small_games import toy_learner
from tests.agents.language.toys import llama, random_choices, word_tokenizer

TEMPERATURE = 0.8


def decided(model, count=24):
    """Return decisions of different lengths, one of them without a choice."""
    asked = random_choices()
    requests = [
        Prompt(*asked[place], seed=place) for place in np.linspace(0, len(asked) - 1, count).astype(int).tolist()
    ]
    return TransformersBackend(
        model, word_tokenizer(), constraint=Constraint(word_tokenizer(), DIPLOMACY_TEXT), temperature=TEMPERATURE
    ).decide(requests)


def learner(*options):
    return toy_learner("grpo.target_kl=0", f"model.temperature={TEMPERATURE}", *options)


def samples_of(decisions):
    return [Sample(decision, (-1.0) ** number * (1 + number % 3)) for number, decision in enumerate(decisions)]


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_trap_13_gradient_does_not_depend_on_micro_batch_size(aggregation):
    """One at a time, four, or all ten; Adam would hide a wrong scale, so loss and norm are compared."""
    found, given = [], samples_of(decided(llama(word_tokenizer()), count=10))
    for size in (1, 4, 64):
        trained = learner(f"model.batch_size={size}", f"grpo.aggregation={aggregation}", "grpo.kl_beta=0.1")
        trained.learn(samples_of(decided(trained.model, count=10)))  # so that ratios and KL are no longer 1 and 0
        metrics = trained.learn(given)
        found.append([metrics[key] for key in ("benchmark/loss", "benchmark/grad_norm", "kl/mean", "ppo/ratio_mean")])
    assert found[0] == pytest.approx(found[2], rel=1e-3)
    assert found[1] == pytest.approx(found[2], rel=1e-3)
    assert found[2][2] > 1e-5


def plain_logprobs(model, decision):
    """Return log-probabilities of the decision tokens from full logits of one text, -inf where not allowed."""
    text = torch.tensor(np.concatenate([decision.prompt_ids, decision.token_ids])[None], dtype=torch.long)
    with torch.no_grad():
        logits = model(text).logits[0].double() / TEMPERATURE
    cuts, found = np.split(decision.allowed_ids, np.cumsum(decision.allowed_counts)[:-1]), []
    for step, allowed in enumerate(cuts):
        if len(allowed) > 1:
            masked = torch.full((logits.shape[1],), -torch.inf, dtype=torch.double)
            masked[allowed] = logits[len(decision.prompt_ids) + step - 1][allowed]
            found.append(float(torch.log_softmax(masked, 0)[decision.token_ids[step]]))
    return np.array(found)


def test_trap_22_old_sample_ratio_uses_weights_that_played():
    """Played by version 0, learned by version 2: the ratio is pi now over pi then, not 1."""
    trained = learner()
    old = decided(trained.model)
    for _ in range(2):
        trained.learn(samples_of(old))
    gaps = [
        plain_logprobs(trained.model, decision) - decision.logprobs[decision.allowed_counts > 1]
        for decision in old
        if decision.prompt_ids.size
    ]
    ratios = np.exp(np.concatenate(gaps))
    metrics = trained.learn(samples_of(old))
    assert (trained.version, old[0].policy_version) == (3, 0)
    assert metrics["ppo/ratio_mean"] == pytest.approx(float(ratios.mean()), rel=1e-4)
    assert metrics["ppo/ratio_std"] == pytest.approx(float(ratios.std()), rel=1e-3)
    assert metrics["ppo/ratio_std"] > 0.01


def shifted(decisions, by):
    return [replace(decision, logprobs=decision.logprobs + np.float32(by)) for decision in decisions]


def test_trap_24_sampler_disagreement_is_found_for_old_weights():
    """The check uses the old weights and restores the policy; a difference above 0.01 is rejected."""
    trained = learner()
    trained.learn(samples_of(decided(trained.model)))
    decisions, played_with = decided(trained.model), copies(trained)
    trained.learn(samples_of(decisions))
    now = copies(trained)
    found = trained.agreement(decisions, played_with)
    assert 0 <= found["ppo/logp_gap_mean"] <= found["ppo/logp_gap_max"] < 1e-4
    moved = trained.agreement(shifted(decisions, -0.001), played_with)
    assert moved["ppo/logp_gap_mean"] == pytest.approx(0.001, rel=0.05)
    refused = pytest.raises(DisagreementError, match=r"in the trainer and .* at most 0\.01 apart")
    with refused:
        trained.agreement(shifted(decisions, -0.02), played_with)
    with refused:
        trained.agreement(decisions, {name: torch.zeros_like(value) for name, value in played_with.items()})
    assert all(torch.equal(value, now[name]) for name, value in copies(trained).items())


def test_trap_24_importance_correction_reports_without_stopping():
    trained = learner()
    decisions = shifted(decided(trained.model), -0.02)
    corrected = learner("grpo.use_importance_correction=true")
    assert corrected.agreement(decisions, copies(trained))["ppo/logp_gap_max"] > 0.01


def copies(trained):
    """Return copies of the adapter's current weights."""
    return {name: parameter.detach().clone() for name, parameter in trained.parameters.items()}


def test_trap_9_sampled_kl_is_k3_to_base_model():
    """It is reported beside the exact KL, around which it varies; the draws are from the measured weights."""
    trained = learner("grpo.kl_beta=0", "grpo.learning_rate=2e-3", "grpo.minibatch_samples=1000")
    first = trained.learn(samples_of(decided(trained.model)))
    decisions = decided(trained.model, count=48)
    asked = [decision for decision in decisions if decision.prompt_ids.size]
    policy = np.concatenate([plain_logprobs(trained.model, decision) for decision in asked])
    with trained.model.disable_adapter():
        base = np.concatenate([plain_logprobs(trained.model, decision) for decision in asked])
    metrics = trained.learn(samples_of(decisions))
    assert first["kl/mean"] == first["kl/k3_mean"] == pytest.approx(0, abs=1e-6)
    assert metrics["kl/k3_mean"] == pytest.approx(float(np.mean(np.expm1(base - policy) - (base - policy))), rel=1e-3)
    assert 0.3 < metrics["kl/k3_mean"] / metrics["kl/mean"] < 3
