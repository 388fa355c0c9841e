"""The learner's options take effect: reference, KL weight, learning rate and clipping."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from sparring.agents.language.decoding.constraint import Constraint
from sparring.agents.language.grpo.learner import Sample
from sparring.agents.language.grpo.objective.loss import Totals
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from sparring.envs.text import Prompt
from tests.agents.language.grpo.rollouts.small_games import toy_learner
from tests.agents.language.toys import llama, random_choices, word_tokenizer

WHOLE = ("grpo.target_kl=0", "grpo.minibatch_samples=1000")
"""One minibatch: everything is measured before the step of the optimizer."""
NO_TOKENS = Totals(0, 0, 0, 1)


@cache
def samples(advantage=1.0):
    """Eight decisions of the untrained toy with something to choose, better and worse in turns.

    They are of older weights than the learner's, so that they may be learned from whatever it has become.
    """
    asked = [pair for pair in random_choices() if pair[1].lines > 1]
    requests = [Prompt(*asked[place], seed=place) for place in np.linspace(0, len(asked) - 1, 8).astype(int).tolist()]
    found = TransformersBackend(
        llama(word_tokenizer()),
        word_tokenizer(),
        constraint=Constraint(word_tokenizer(), DIPLOMACY_TEXT),
        temperature=0.8,
    ).decide(requests)
    return [
        Sample(replace(decision, policy_version=-1), advantage * (-1.0) ** number)
        for number, decision in enumerate(found)
    ]


def better():
    """Return the same decisions, all with advantage 1."""
    return [replace(one, advantage=1.0) for one in samples()]


def weights(learner):
    return {name: parameter.detach().clone() for name, parameter in learner.parameters.items()}


def moved(learner, seed=1):
    """Move the learner without a step, so that its KL to the base model is far from 0."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in learner.parameters.values():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return learner


def furthest(before, after):
    return max(float((after[name] - value).abs().max()) for name, value in before.items())


@pytest.mark.parametrize("tau", [0.0, 0.75, 1.0])
def test_reference_follows_policy_after_each_step(tau):
    """ema = tau before + (1 - tau) after: with 0 the next KL is 0, with 1 the reference stays."""
    learner = toy_learner(*WHOLE, "grpo.use_ema_reference=true", f"grpo.ema_tau={tau}")
    before = weights(learner)
    learner.learn(samples())
    after, mean = weights(learner), learner.state_dict()["reference"]["ema"]
    by_hand = {name: tau * value + (1 - tau) * after[name] for name, value in before.items()}
    assert furthest(before, after) > 0.009
    assert furthest(by_hand, mean) < 1e-7
    kl = learner.learn(samples())["kl/mean"]
    assert kl < 1e-10 if tau == 0 else kl > 1e-5


@pytest.mark.parametrize(("warmup", "skipped", "beta"), [(0, 0, 0.5), (4, 0, 0.0), (4, 1, 0.125), (4, 3, 0.375)])
def test_loss_includes_kl_times_warmed_up_beta(warmup, skipped, beta):
    """The reported KL is the mean over all tokens; steps without samples count for warmup."""
    found = []
    for full in (0.5, 0.0):
        options = ("grpo.aggregation=dapo", f"grpo.kl_beta={full}", f"grpo.kl_beta_warmup_steps={warmup}")
        learner = moved(toy_learner(*WHOLE, *options))
        for _ in range(skipped):
            learner.learn([])
        found.append(learner.learn(samples()))
    penalized, free = found
    assert penalized["kl/mean"] == free["kl/mean"] > 1e-3
    assert penalized["benchmark/loss"] - free["benchmark/loss"] == pytest.approx(beta * free["kl/mean"], abs=1e-6)


@pytest.mark.parametrize("beta", [1.0, 0.0])
def test_beta_pulls_policy_back_to_base_model(beta):
    """Where no decision is better than another, the KL is the only gradient."""
    learner = moved(toy_learner(*WHOLE, f"grpo.kl_beta={beta}"))
    kls = [learner.learn(samples(0.0))["kl/mean"] for _ in range(4)]
    assert kls[-1] < 0.8 * kls[0] if beta else kls[-1] == pytest.approx(kls[0], rel=1e-6)


@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_step_size_follows_learning_rate_and_scale(scale):
    """Adam's first step moves every weight with a gradient by the rate; the scale may fall and rise again."""
    learner = toy_learner(*WHOLE)
    for rate in (scale, 1.0):
        learner.optimizer.state.clear()  # so that every step is a first one
        before = weights(learner)
        learner.learn(samples(), rate_scale=rate)
        assert furthest(before, weights(learner)) == pytest.approx(1e-2 * rate, rel=1e-3)


@pytest.mark.parametrize("most", [1e-3, 1e4])
def test_gradient_is_clipped_to_max_norm(most):
    """Adam's first moment is a tenth of the gradient; the reported norm is the one before clipping."""
    learner = toy_learner(*WHOLE, f"grpo.max_grad_norm={most}")
    norm = learner.learn(samples())["benchmark/grad_norm"]
    given = 10 * torch.cat([state["exp_avg"].flatten() for state in learner.optimizer.state.values()]).norm()
    assert 1e-2 < norm < 1e3
    assert float(given) == pytest.approx(min(norm, most), rel=1e-3)


@pytest.mark.parametrize(
    ("epochs", "minibatch", "steps"), [(1, 1000, 1), (2, 1000, 2), (1, 4, 2), (2, 4, 4), (1, 3, 3)]
)
def test_epochs_and_minibatches_set_optimizer_steps(epochs, minibatch, steps):
    """Eight samples: this many optimizer steps, and one learner step."""
    learner = toy_learner("grpo.target_kl=0", f"grpo.epochs={epochs}", f"grpo.minibatch_samples={minibatch}")
    learner.learn(samples())
    assert {int(state["step"]) for state in learner.optimizer.state.values()} == {steps}
    assert learner.version == 1


@pytest.mark.parametrize(("gap", "weight"), [(0.0, 1.0), (0.5, 1.6487213), (3.0, 4.0), (-3.0, 0.25)])
def test_importance_weights_scale_gradient(gap, weight):
    """The sampler is `gap` nats below the trainer: w = exp(gap) within [1/4, 4], at a trainer ratio of 1."""
    options = ("grpo.kl_beta=0", "grpo.scale_advantages=false", "grpo.max_grad_norm=1e4", "grpo.aggregation=dapo")
    plain = toy_learner(*WHOLE, *options).learn(better())
    shifted = [
        replace(one, decision=replace(one.decision, logprobs=one.decision.logprobs - np.float32(gap)))
        for one in better()
    ]
    corrected = ("grpo.use_importance_correction=true", "grpo.importance_cap=4")
    found = toy_learner(*WHOLE, *options, *corrected).learn(shifted)
    assert plain["benchmark/loss"] == pytest.approx(-1.0, abs=1e-4)
    assert found["benchmark/loss"] == pytest.approx(-weight, rel=1e-3)
    assert found["benchmark/grad_norm"] == pytest.approx(weight * plain["benchmark/grad_norm"], rel=1e-3)


def test_masked_tokens_do_not_affect_step():
    """Every second token differs by more than log 4: the step does not depend on how far it is."""
    options = ("grpo.importance_mask=true", "grpo.use_importance_correction=true", "grpo.importance_cap=4")
    steps = []
    for far in (2.0, 3.0):
        given = []
        for one in samples():
            logprobs = one.decision.logprobs - np.float32(far) * (np.arange(len(one.decision.logprobs)) % 2)
            given.append(replace(one, decision=replace(one.decision, logprobs=logprobs.astype(np.float32))))
        learner = toy_learner(*WHOLE, *options)
        before, metrics = weights(learner), learner.learn(given)
        assert 0.2 < metrics["ppo/is_masked_fraction"] < 0.8
        assert furthest(before, weights(learner)) > 1e-3
        steps.append({name: state["exp_avg"] for name, state in enumerate(learner.optimizer.state.values())})
    assert furthest(*steps) == 0.0


def test_every_epoch_has_own_order():
    learner, orders = toy_learner("grpo.target_kl=0", "grpo.epochs=2", "grpo.minibatch_samples=1000"), []
    numbers = {id(one): number for number, one in enumerate(samples())}
    learner._minibatch = lambda chosen, tally: (orders.append([numbers[id(one)] for one in chosen]), ([], NO_TOKENS))[1]
    for _ in range(2):
        learner.learn(samples())
    assert len({tuple(order) for order in orders}) == 4
    assert all(sorted(order) == list(range(8)) for order in orders)
