"""Traps 9 and 28: KL estimators checked by enumeration, and no NaN under a mask.

A policy and its reference over six ids, small enough that every expectation is a sum.
"""

import math

import pytest
import torch

from sparring.agents.language.grpo.objective.kl import exact_kl, k3, k3_times_ratio
from tests.agents.language.grpo.objective.plain_grpo import plain_kl

LOGITS = torch.tensor([0.3, -1.2, 0.8, 0.0, -0.4, 1.5], dtype=torch.float64)
REFERENCE = torch.tensor([0.9, 0.4, 0.1, 0.3, -1.0, -0.5], dtype=torch.float64).log_softmax(0)
ROW = torch.zeros(6, dtype=torch.int64)


def true_gradient(value):
    """Return the value, and autograd's gradient by the logits, of a scalar function of log-probabilities."""
    logits = LOGITS.clone().requires_grad_()
    loss = value(logits.log_softmax(0))
    loss.backward()
    return loss.item(), logits.grad


def expected(estimate):
    """Return the expectation of an estimate and its gradient over draws from the policy, without gradients of draws."""
    logits = LOGITS.clone().requires_grad_()
    logp = logits.log_softmax(0)
    loss = (logp.detach().exp() * estimate(logp)).sum()
    loss.backward()
    return loss.item(), logits.grad


def reverse_kl(logp):
    return (logp.exp() * (logp - REFERENCE)).sum()


def forward_kl(logp):
    return (REFERENCE.exp() * (REFERENCE - logp)).sum()


KL, GRADIENT = true_gradient(reverse_kl)


def close(left, right):
    return torch.allclose(left, right, rtol=0, atol=1e-10)


def cosine(left, right):
    return torch.nn.functional.cosine_similarity(left, right, dim=0).item()


def test_trap_9_exact_kl_matches_plain_python():
    policy, reference = LOGITS.softmax(0).tolist(), REFERENCE.exp().tolist()
    assert pytest.approx(plain_kl(policy, reference), abs=1e-12) == KL
    assert exact_kl(LOGITS.log_softmax(0), REFERENCE, ROW, 1).item() == pytest.approx(KL, abs=1e-12)


def test_trap_9_exact_kl_has_kl_gradient():
    """Reference: the closed form p_a (log p_a - log q_a - KL), without autograd."""
    _, gradient = true_gradient(lambda logp: exact_kl(logp, REFERENCE, ROW, 1).sum())
    logp = LOGITS.log_softmax(0)
    assert close(gradient, logp.exp() * (logp - REFERENCE - KL))
    assert close(gradient, GRADIENT)


NONE = torch.zeros(6, dtype=torch.float64)
ESTIMATES = {
    "k1 in a loss": (lambda logp: logp - REFERENCE, True, NONE),
    "k1 as a reward": (lambda logp: (logp - REFERENCE).detach() * logp, None, GRADIENT),
    "k2": (lambda logp: (logp - REFERENCE).square() / 2, False, GRADIENT),
    "k3": (lambda logp: k3(logp, REFERENCE), True, true_gradient(forward_kl)[1]),
    "k3 times the ratio": (lambda logp: k3_times_ratio(logp, REFERENCE, logp.detach()), True, GRADIENT),
}
"""Whether the expectation is the KL, None where that is not meant, and the gradient of the expectation."""


@pytest.mark.parametrize("name", ESTIMATES)
def test_trap_9_estimators_match_value_gradient_or_both(name):
    """The gradient of k3 is that of the reverse direction."""
    estimate, right, expected_gradient = ESTIMATES[name]
    value, gradient = expected(estimate)
    assert right in (None, value == pytest.approx(KL, abs=1e-10))
    assert right is not False or abs(value - KL) > 0.01
    assert close(gradient, expected_gradient)
    assert GRADIENT.norm() > 0.1
    assert not close(ESTIMATES["k3"][2], GRADIENT)


def test_trap_9_ratio_weighted_k3_is_unbiased_off_policy():
    old = (LOGITS + torch.tensor([0.2, -0.1, 0.0, 0.4, -0.3, 0.1])).log_softmax(0)
    logits = LOGITS.clone().requires_grad_()
    loss = (old.exp() * k3_times_ratio(logits.log_softmax(0), REFERENCE, old)).sum()
    loss.backward()
    assert loss.item() == pytest.approx(KL, abs=1e-10)
    assert close(logits.grad, GRADIENT)


def test_trap_9_reversed_k3_is_wrong_in_value_and_gradient():
    """e^(l - q) - (l - q) - 1, meant for draws from the reference, is not an estimator here."""
    value, gradient = expected(lambda logp: (logp - REFERENCE).expm1() - (logp - REFERENCE))
    assert abs(value - KL) > 0.05
    assert not close(gradient, GRADIENT)
    assert not close(gradient, true_gradient(forward_kl)[1])


def test_trap_9_sampled_estimates_match_enumeration():
    """The same from draws: the mean gradient of k3 points along the forward KL, not along the reverse."""
    draws = torch.multinomial(LOGITS.softmax(0), 200_000, replacement=True, generator=torch.Generator().manual_seed(0))
    logits = LOGITS.clone().requires_grad_()
    k3(logits.log_softmax(0)[draws], REFERENCE[draws]).mean().backward()
    forward = true_gradient(forward_kl)[1]
    assert cosine(logits.grad, forward) > 0.999
    assert (logits.grad - forward).norm() < 0.02 < (logits.grad - GRADIENT).norm()


def ragged(counts, seed=0):
    """Normalized log-probabilities of a policy's and a reference's allowed ids: flat [A] each, and their rows."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randn(2, count, generator=generator).log_softmax(1) for count in counts]
    flat = torch.cat(rows, dim=1)
    return flat[0], flat[1], torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))


def test_trap_28_ragged_rows_have_own_kl_per_step():
    policy, reference, row = ragged([2, 7, 1, 12])
    kl = exact_kl(policy, reference, row, 4)
    for step in range(4):
        lists = [values[row == step].exp().tolist() for values in (policy, reference)]
        assert kl[step].item() == pytest.approx(plain_kl(*lists), abs=1e-6)


def test_trap_28_forced_token_has_zero_kl_and_gradient():
    logits = torch.tensor([3.7], requires_grad=True)
    kl = exact_kl(logits.log_softmax(0), torch.zeros(1), torch.zeros(1, dtype=torch.int64), 1)
    kl.sum().backward()
    assert kl.item() == 0.0
    assert logits.grad.item() == 0.0


def test_trap_28_padded_mask_gives_nan_and_ragged_sum_does_not():
    logits = torch.tensor([1.0, 2.0, -math.inf], requires_grad=True)
    padded = logits.log_softmax(0)
    assert (padded.exp() * (padded - padded.detach())).sum().isnan()
    kl = exact_kl(logits[:2].log_softmax(0), torch.tensor([0.5, 0.5]).log(), torch.zeros(2, dtype=torch.int64), 1)
    kl.sum().backward()
    assert kl.isfinite().all()
    assert logits.grad.isfinite().all()


def test_trap_28_certain_distribution_is_finite():
    """Logits 200 apart: the unlikely id underflows to 0 in float32, and its term must be 0, not NaN."""
    logits = torch.tensor([200.0, 0.0], requires_grad=True)
    kl = exact_kl(logits.log_softmax(0), torch.tensor([0.5, 0.5]).log(), torch.zeros(2, dtype=torch.int64), 1)
    kl.sum().backward()
    assert kl.item() == pytest.approx(math.log(2.0))
    assert logits.grad.isfinite().all()
