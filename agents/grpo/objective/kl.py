"""Exact divergence of the policy from its reference, KL(pi || ref), over the allowed token ids.

    KL_t = sum over allowed a of pi(a) (log pi(a) - log ref(a))

The sum has about ten terms, so no estimate from the drawn id is needed, and its gradient is exact. Both policies must
be normalized over the same allowed ids at the same temperature; ids that are not allowed are absent instead of at
-inf, so 0 * inf does not occur.

Single-draw estimators are reported; k1 and k2 can replace the sum (`kl_form`), to repeat runs that used them. With l =
log pi and q = log ref of a draw from pi (http://joschu.net/blog/kl-approx.html); the tests enumerate the expectations:

    name  estimate                      its value        its gradient, in a loss
    k1    l - q                         unbiased         zero: useless; `kl_form` signed
    k2    (l - q)^2 / 2                 biased           that of KL(pi || ref); twice it is `kl_form` squared
    k3    e^(q - l) - (q - l) - 1       unbiased         that of KL(ref || pi), the other way round
    k3 x  k3 times pi / pi_old          unbiased         that of KL(pi || ref)  (DeepSeek-V3.2, equation 7)
"""

from __future__ import annotations

from torch import Tensor

from sparring.agents.grpo.objective.logprob_source import LogProbs, Source
from sparring.agents.grpo.objective.segment_ops import sum_per_part


def exact_kl(policy: Tensor, reference: Tensor, row: Tensor, rows: int) -> Tensor:
    """Compute KL(policy || reference) in nats at each of `rows` steps: [rows], with the gradient of `policy`.

    `policy` and `reference` [A] are log-probabilities of all allowed ids; `row` int64 [A] is the step of each.
    """
    return sum_per_part(policy.exp() * (policy - reference), row, rows)  # sum pi (log pi - log ref)


def kl_to_reference(policy: LogProbs, reference: LogProbs, row: Tensor, rows: int, *, weights: str) -> Tensor:
    """Compute `exact_kl` of log-probabilities whose source is the policy and the reference with these `weights`.

    Raises `ProvenanceError` for any other source, such as the sampler in place of the reference.
    """
    return exact_kl(policy.demand(Source.POLICY), reference.demand(Source.REFERENCE, weights=weights), row, rows)


def log_ratio_kl(policy: LogProbs, reference: LogProbs, chosen: Tensor, form: str, *, weights: str) -> Tensor:
    """Compute the drawn token's log-ratio [N], `form` signed or squared; both are poor estimates of the KL."""
    drawn = policy.demand(Source.POLICY)[chosen] - reference.demand(Source.REFERENCE, weights=weights)[chosen]
    return drawn.square() if form == "squared" else drawn  # (l - q)^2 or l - q


def k3(policy: Tensor, reference: Tensor) -> Tensor:
    """Return the k3 estimate [N] of draws with log-probabilities [N]: never negative, unbiased."""
    return (reference - policy).expm1() - (reference - policy)  # e^(q - l) - 1 - (q - l)


def k3_times_ratio(policy: Tensor, reference: Tensor, old: Tensor) -> Tensor:
    """Return k3 of draws from `old` [N], the log-probabilities at sampling: unbiased in value and gradient."""
    return (policy - old.detach()).exp() * k3(policy, reference)
