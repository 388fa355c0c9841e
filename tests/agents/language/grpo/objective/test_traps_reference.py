"""Traps 11 and 12: the reference is used, restored bit for bit, and never replaced by another model.

The model is one linear layer with an adapter of low rank, small enough to see what is going on.
"""

import copy
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from sparring.agents.language.grpo.objective.kl import Reference, in_place_of, kl_to_reference
from sparring.agents.language.grpo.objective.loss import LogProbs, ProvenanceError, Source, policy_loss
from sparring.configs.core.tensor_file import pack, unpack
from sparring.configs.core.typed import ContentError
from sparring.configs.language import GRPOConfig
from tests.agents.language.grpo.objective.made_up import tokens_of, totals_of

INPUT = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
ROW = torch.repeat_interleave(torch.arange(4), 5)


class Adapted(nn.Module):
    """log-softmax of (W + B A) x, with W frozen."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.base = nn.Parameter(torch.randn(5, 8, generator=generator), requires_grad=False)
        self.a = nn.Parameter(torch.randn(2, 8, generator=generator).to(dtype))
        self.b = nn.Parameter(torch.zeros(5, 2, dtype=dtype))
        self.on = True

    @contextmanager
    def without_adapters(self):
        self.on = False
        yield
        self.on = True

    def forward(self):
        adapter = (self.b @ self.a).float() if self.on else 0.0
        return (INPUT @ (self.base + adapter).T).log_softmax(1).flatten()

    def adapters(self):
        return {name: parameter for name, parameter in self.named_parameters() if parameter.requires_grad}

    @torch.no_grad()
    def learn(self, seed=0):
        """Move the adapter a little."""
        generator = torch.Generator().manual_seed(seed)
        for parameter in self.adapters().values():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator).to(parameter.dtype))


def reference_of(model, **options):
    config = GRPOConfig(**options)
    return Reference(model.adapters(), config, base="tiny", without_adapters=model.without_adapters)


def kl_of(model, reference):
    policy = LogProbs(model(), Source.POLICY, "policy@1")
    return kl_to_reference(policy, reference.score(model), ROW, 4, weights=reference.weights)


def bits(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def same_bits(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_trap_11_base_model_has_adapters_disabled():
    model = Adapted()
    start = model().detach()
    reference = reference_of(model)
    assert kl_of(model, reference).abs().max() < 1e-6
    model.learn()
    reference.update()
    assert torch.equal(reference.score(model).values, start)
    assert kl_of(model, reference).min() > 1e-3


def test_trap_11_changed_ema_changes_kl():
    """The mistake was a mean that was updated but never used."""
    model = Adapted()
    model.learn()
    reference = reference_of(model, use_ema_reference=True)
    assert kl_of(model, reference).max() == 0.0
    reference.ema["b"][0] += 0.5  # of one row: the same for all logits would change nothing
    assert kl_of(model, reference).max() > 0.01


def test_trap_11_ema_with_tau_one_keeps_first_policy():
    model = Adapted()
    model.learn(seed=1)
    first = model().detach()
    reference = reference_of(model, use_ema_reference=True, ema_tau=1.0)
    for seed in (2, 3):
        model.learn(seed)
        reference.update()
    assert torch.equal(reference.score(model).values, first)
    assert kl_of(model, reference).max() > 0.01


def test_trap_11_ema_with_tau_zero_equals_policy():
    model = Adapted()
    reference = reference_of(model, use_ema_reference=True, ema_tau=0.0)
    for seed in (2, 3):
        model.learn(seed)
        reference.update()
        assert kl_of(model, reference).abs().max() == 0.0


def test_trap_11_ema_by_hand():
    """tau 0.75, theta 0 then 4 then 8: 0, 0.75 * 0 + 0.25 * 4 = 1, 0.75 * 1 + 0.25 * 8 = 2.75."""
    theta = nn.Parameter(torch.zeros(1))
    config = GRPOConfig(use_ema_reference=True, ema_tau=0.75)
    reference = Reference({"theta": theta}, config, base="tiny", without_adapters=Adapted().without_adapters)
    means = []
    for value in (4.0, 8.0):
        theta.data.fill_(value)
        reference.update()
        means.append(reference.ema["theta"].item())
    assert means == [1.0, 2.75]


@pytest.mark.parametrize("ema", [False, True])
def test_trap_11_reference_pass_restores_policy_bit_for_bit(ema):
    model = Adapted()
    reference = reference_of(model, use_ema_reference=ema)
    model.learn()
    before, storage = bits(model), {name: p.data_ptr() for name, p in model.named_parameters()}
    loss = model().sum()
    reference.score(model)
    assert same_bits(bits(model), before)
    assert {name: p.data_ptr() for name, p in model.named_parameters()} == storage
    loss.backward()  # a graph built before the pass still knows the policy's own weights
    gradient = model.b.grad.clone()
    model.zero_grad()
    model().sum().backward()
    assert torch.equal(model.b.grad, gradient)


def test_trap_11_failed_reference_pass_restores_policy():
    model = Adapted()
    reference = reference_of(model, use_ema_reference=True)
    model.learn()
    before = bits(model)

    def fail():
        raise MemoryError

    with pytest.raises(MemoryError):
        reference.score(fail)
    assert same_bits(bits(model), before)


def test_trap_11_missing_reference_weights_restore_policy():
    model = Adapted()
    before = bits(model)
    with pytest.raises(KeyError), in_place_of(model.adapters(), {"a": torch.zeros(2, 8)}):
        pass
    assert same_bits(bits(model), before)


def test_trap_11_optimizer_step_moves_policy_not_ema():
    model = Adapted()
    model.learn()
    reference = reference_of(model, use_ema_reference=True)
    optimizer = torch.optim.AdamW(model.adapters().values(), lr=0.1)
    mean, before = copy.deepcopy(reference.ema), bits(model)
    kl_of(model, reference)
    (model() * torch.arange(20)).sum().backward()
    optimizer.step()
    assert same_bits(reference.ema, mean)
    assert not torch.equal(model.b, before["b"])
    assert kl_of(model, reference).max() > 0


def test_trap_11_half_precision_ema_still_moves():
    """In bfloat16, 1 + 0.01 * (1.02 - 1) is 1 again; the mean is kept in float32."""
    theta = nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    config = GRPOConfig(use_ema_reference=True, ema_tau=0.99)
    reference = Reference({"theta": theta}, config, base="tiny", without_adapters=Adapted().without_adapters)
    theta.data.fill_(1.02)
    for _ in range(100):
        reference.update()
    assert reference.ema["theta"].dtype == torch.float32
    assert reference.ema["theta"].item() > 1.01
    with in_place_of({"theta": theta}, reference.ema):
        assert theta.dtype == torch.bfloat16


def test_trap_11_resumed_run_has_same_ema_bit_for_bit():
    model = Adapted()
    whole = reference_of(model, use_ema_reference=True, ema_tau=0.9)
    model.learn(1)
    whole.update()
    saved = unpack(pack(whole.state_dict()))
    second = reference_of(model, use_ema_reference=True, ema_tau=0.9)
    second.load_state_dict(saved)
    model.learn(2)
    whole.update()
    second.update()
    assert same_bits(second.ema, whole.ema)
    assert second.weights == whole.weights == "ema@2"


def test_trap_11_state_of_other_adapters_is_rejected():
    model = Adapted()
    with_mean, without = reference_of(model, use_ema_reference=True), reference_of(model)
    with pytest.raises(ContentError, match="ema"):
        with_mean.load_state_dict(without.state_dict())
    with pytest.raises(ContentError, match="ema"):
        without.load_state_dict(with_mean.state_dict())


def test_trap_11_stored_log_probs_are_rejected_with_ema():
    model = Adapted()
    reference = reference_of(model, use_ema_reference=True)
    kept = reference.score(model)
    with pytest.raises(ProvenanceError, match="the mean has moved, so score again"):
        reference.cached(kept)
    assert reference.metrics() == {"benchmark/used_cached_ref_logprobs": 0.0}


def test_trap_12_stored_base_log_probs_are_used_and_reported():
    model = Adapted()
    reference = reference_of(model)
    kept = reference.score(model)
    model.learn()
    reference.update()
    assert torch.equal(reference.cached(kept).values, reference.score(model).values)
    assert reference.metrics() == {"benchmark/used_cached_ref_logprobs": 1.0}
    assert reference.metrics() == {"benchmark/used_cached_ref_logprobs": 0.0}


@pytest.mark.parametrize("source", [Source.SAMPLER, Source.TRAINER, Source.POLICY])
def test_trap_12_rollout_log_probs_are_not_reference_log_probs(source):
    """The mistake: log-probabilities stored with the decisions were used as the reference's."""
    model = Adapted()
    reference = reference_of(model)
    rollout = LogProbs(model().detach(), source, "policy@1")
    with pytest.raises(ProvenanceError, match="needs the reference's"):
        reference.cached(rollout)
    policy = LogProbs(model(), Source.POLICY, "policy@1")
    with pytest.raises(ProvenanceError, match="needs the reference's"):
        kl_to_reference(policy, rollout, ROW, 4, weights=reference.weights)


def test_trap_12_reference_of_other_model_is_rejected():
    model = Adapted()
    reference = reference_of(model)
    other = LogProbs(model().detach(), Source.REFERENCE, "base:smollm2")
    with pytest.raises(ProvenanceError, match=r"'base:smollm2'.*'base:tiny'"):
        reference.cached(other)


def test_trap_12_ema_of_other_update_is_rejected():
    model = Adapted()
    reference = reference_of(model, use_ema_reference=True)
    stale = reference.score(model)
    reference.update()
    policy = LogProbs(model(), Source.POLICY, "policy@1")
    with pytest.raises(ProvenanceError, match=r"'ema@0'.*'ema@1'"):
        kl_to_reference(policy, stale, ROW, 4, weights=reference.weights)


@pytest.mark.parametrize("source", [Source.REFERENCE, Source.POLICY])
def test_trap_12_ratio_uses_policy_that_played(source):
    tokens = tokens_of([-1.0], [-1.0], [0], [1.0], old_source=source)
    with pytest.raises(ProvenanceError, match="needs the trainer or sampler's"):
        policy_loss(tokens, totals_of(tokens), GRPOConfig(), beta=0.0)


def test_trap_12_only_policy_is_trained():
    tokens = tokens_of([-1.0], [-1.0], [0], [1.0])
    swapped = type(tokens)(tokens.old, tokens.old, tokens.sample, tokens.advantage, tokens.entropy, tokens.kl)
    with pytest.raises(ProvenanceError, match="needs the policy's"):
        policy_loss(swapped, totals_of(tokens), GRPOConfig(), beta=0.0)
