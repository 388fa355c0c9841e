"""Divergence of the policy from its reference, the reference itself, and the weight of the penalty.

    KL_t = sum over allowed a of pi(a) (log pi(a) - log ref(a))

The sum has about ten terms, so it needs no estimate from the drawn id, and its gradient is exact. Both policies must
be normalized over the same allowed ids at the same temperature. Ids that are not allowed are absent rather than at
-inf, so 0 * inf does not occur.

Single-draw estimators are reported; k1 and k2 can replace the sum (`kl_form`), to repeat runs that used them. With l =
log pi and q = log ref of a draw from pi (http://joschu.net/blog/kl-approx.html); the tests enumerate the expectations:

    name  estimate                      its value        its gradient, in a loss
    k1    l - q                         unbiased         zero: useless; `kl_form` signed
    k2    (l - q)^2 / 2                 biased           grad KL(pi || ref); twice it is `kl_form` squared
    k3    e^(q - l) - (q - l) - 1       unbiased         grad KL(ref || pi), the other way round
    k3 x  k3 times pi / pi_old          unbiased         grad KL(pi || ref)  (DeepSeek-V3.2, equation 7)

`Reference` is the base model or an exponential moving average (EMA) of the learner. Only adapters are trained, so the
base model is the same network with the adapters off, and the mean

    ema <- tau ema + (1 - tau) theta         after every update, starting at the first theta

is another set of adapter weights. Either is in place for one scoring pass; then the learner's weights are restored
bit for bit. The base model never changes, so its log-probabilities may be cached. The EMA's are out of date one update
later, and cached ones would silently be another reference: `cached` refuses them.

`Beta` is warmed up from 0, then adapted to the measured KL if a target is set. At step s = 0, 1, ... after
`kl_beta_start_step` steps with beta 0, it is min(1, s / W) of its full value with W = `kl_beta_warmup_steps`: 0 in the
first of these steps, full from step W on; with W = 0 at once. With `kl_target` > 0 the full value follows the KL,
smoothed over about H = `HORIZON` steps:

    ema <- ema + (KL - ema) 2 / (H + 1)                beginning with the first KL
    beta <- min(1.5 beta, 0.5) where ema > 1.5 target,  max(beta / 1.5, 0.001) where ema < 0.5 target

Adaptation starts at the end of the warm-up, so step W may have an adapted beta. Earlier the KL is small because
training has just started, not because of beta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from sparring.agents.language.grpo.objective.loss import LogProbs, ProvenanceError, Source, sum_per_part
from sparring.configs.core.tensor_file import check_tensors
from sparring.configs.language import GRPOConfig

FACTOR, HORIZON = 1.5, 10
ABOVE, BELOW = 1.5, 0.5
LEAST, MOST = 0.001, 0.5


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


@contextmanager
def in_place_of(parameters: Mapping[str, Parameter], weights: Mapping[str, Tensor]) -> Iterator[None]:
    """Replace the parameters' data by `weights`, by name, and restore it on exit, also after an exception.

    Tensors of the same dtype are swapped, not copied. Do not run a backward pass inside.
    """
    saved = {name: parameter.data for name, parameter in parameters.items()}
    try:
        for name, parameter in parameters.items():
            parameter.data = weights[name].to(parameter.dtype)
        yield
    finally:
        for name, parameter in parameters.items():
            parameter.data = saved[name]


class Reference:
    """Reference policy of a model with named trained `parameters`.

    `base` identifies the base model (its folder or a hash), and `without_adapters` returns a context in which the
    adapters are off. `use_ema_reference` selects the EMA, with decay `ema_tau`: 1 keeps the first weights, 0 is the
    policy itself.
    """

    def __init__(
        self,
        parameters: Mapping[str, Parameter],
        config: GRPOConfig,
        *,
        base: str,
        without_adapters: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._parameters, self._base, self._without_adapters = dict(parameters), base, without_adapters
        self.uses_ema, self._tau = config.use_ema_reference, config.ema_tau
        self.ema = {name: _copy(parameter) for name, parameter in parameters.items()} if self.uses_ema else {}
        self._updates = 0
        self._cached = False

    @property
    def weights(self) -> str:
        """Name of the current reference weights, as in `LogProbs.weights`."""
        return f"ema@{self._updates}" if self.uses_ema else f"base:{self._base}"

    def score(self, scorer: Callable[[], Tensor]) -> LogProbs:
        """Return the result of `scorer`, a pass of the model, under the reference's weights."""
        in_place = in_place_of(self._parameters, self.ema) if self.uses_ema else self._without_adapters()
        with torch.no_grad(), in_place:
            return LogProbs(scorer().detach(), Source.REFERENCE, self.weights)

    def cached(self, logprobs: LogProbs) -> LogProbs:
        """Return log-probabilities of an earlier `score`; raise `ProvenanceError` for the EMA and for other sources."""
        if self.uses_ema:
            raise ProvenanceError(f"kept log-probabilities of {logprobs.weights}: the mean has moved, so score again")
        logprobs.demand(Source.REFERENCE, weights=self.weights)
        self._cached = True
        return logprobs

    @torch.no_grad()
    def update(self) -> None:
        """Update the EMA after a policy update."""
        self._updates += 1
        for name, mean in self.ema.items():
            mean.lerp_(self._parameters[name].to(mean.dtype), 1.0 - self._tau)  # tau ema + (1 - tau) theta

    def metrics(self) -> dict[str, float]:
        """Return whether cached log-probabilities were used since the last call, as a metric."""
        used, self._cached = self._cached, False
        return {"benchmark/used_cached_ref_logprobs": float(used)}

    def state_dict(self) -> dict[str, object]:
        """Return the EMA by parameter name (empty for the base model) and the number of updates."""
        return {"ema": dict(self.ema), "updates": self._updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict` of the same adapters; raises `ContentError` for others."""
        for name, tensor in check_tensors(state["ema"], self.ema, "ema").items():
            self.ema[name].copy_(tensor)
        self._updates = state["updates"]


def _copy(parameter: Parameter) -> Tensor:
    """Copy in at least float32: in a shorter dtype, the EMA's small changes would round to zero."""
    return parameter.detach().clone().to(torch.promote_types(parameter.dtype, torch.float32))


class Beta:
    """Schedule of beta: `value` is the weight of the next step, `observe` takes the KL that resulted."""

    def __init__(self, config: GRPOConfig) -> None:
        self._config = config
        self._step = 0
        self._full = config.kl_beta
        self._ema: float | None = None
        self._adjusted = 0

    @property
    def progress(self) -> float:
        """Completed fraction of the warm-up, 0 to 1."""
        step, warmup = self._step - self._config.kl_beta_start_step, self._config.kl_beta_warmup_steps
        if step < 0:
            return 0.0
        return min(1.0, step / warmup) if warmup else 1.0  # min(1, s / W)

    @property
    def value(self) -> float:
        """Beta of the next step."""
        return self.progress * self._full

    def metrics(self) -> dict[str, float]:
        """Return metrics; `kl/beta_adjusted` is 1 or -1 if the last KL moved beta up or down, else 0."""
        metrics = {"beta": self.value, "warmup_progress": self.progress, "beta_adjusted": float(self._adjusted)}
        if self._ema is not None:
            metrics["ema"] = self._ema
        return {f"kl/{name}": number for name, number in metrics.items()}

    def observe(self, kl: float | None) -> None:
        """End a step whose mean KL was `kl` nats; None for a step without training, which counts as well.

        Raises `ValueError` for a KL that is not finite, which would never leave the mean.
        """
        self._step += 1
        warm = self.progress == 1.0
        self._adjusted = 0
        if kl is None:
            return
        if not math.isfinite(kl):
            raise ValueError(f"the mean KL of step {self._step - 1} is {kl}: give None for a skipped step")
        self._ema = kl if self._ema is None else self._ema + (kl - self._ema) * 2.0 / (HORIZON + 1)
        if self._config.kl_target > 0 and warm:
            self._adjust(self._ema / self._config.kl_target)

    def _adjust(self, excess: float) -> None:
        """Adjust beta, given the KL in units of its target."""
        before = self._full
        if excess > ABOVE:
            self._full = min(before * FACTOR, MOST)
        elif excess < BELOW:
            self._full = max(before / FACTOR, LEAST)
        self._adjusted = (self._full > before) - (self._full < before)

    def state_dict(self) -> dict[str, Any]:
        """Return everything that `value` depends on, apart from the configuration."""
        return {"step": self._step, "full": self._full, "ema": self._ema, "adjusted": self._adjusted}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict`."""
        self._step, self._full = state["step"], state["full"]
        self._ema, self._adjusted = state["ema"], state["adjusted"]
