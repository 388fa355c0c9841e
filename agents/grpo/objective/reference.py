"""Reference policy of the KL penalty: the base model, or an exponential moving average (EMA) of the learner.

Only adapters are trained, so the base model is the same network with the adapters off, and the mean

    ema <- tau ema + (1 - tau) theta         after every update, starting at the first theta

is another set of adapter weights. Either is in place for one scoring pass; then the learner's weights are restored
bit for bit. The base model never changes, so its log-probabilities may be cached. Those of the EMA are out of date one
update later, and cached ones would silently be another reference: `cached` refuses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor
from torch.nn import Parameter
from typing_extensions import TypedDict

from sparring.agents.grpo.objective.logprob_source import LogProbs, ProvenanceError, Source
from sparring.configs.core.tensor_checks import Tensors, check_tensors
from sparring.configs.core.typed import Count, read
from sparring.configs.language import GRPOConfig


class ReferenceState(TypedDict):
    """`Reference.state_dict`; `ema` is empty for the base model."""

    ema: Tensors
    updates: Count


@contextmanager
def in_place_of(parameters: Mapping[str, Parameter], weights: Mapping[str, Tensor]) -> Iterator[None]:
    """Replace the parameters' data by `weights`, by name, and restore it on exit, also after an exception.

    Tensors of the same dtype are swapped, not copied. Do not run a backward pass inside.
    """
    own = {name: parameter.data for name, parameter in parameters.items()}
    try:
        for name, parameter in parameters.items():
            parameter.data = weights[name].to(parameter.dtype)
        yield
    finally:
        for name, parameter in parameters.items():
            parameter.data = own[name]


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

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continue from a `state_dict` of the same adapters; raises `ContentError` for others."""
        found = read(ReferenceState, state)
        for name, tensor in check_tensors(found["ema"], self.ema, "ema").items():
            self.ema[name].copy_(tensor)
        self._updates = found["updates"]


def _copy(parameter: Parameter) -> Tensor:
    """Copy in at least float32: in a shorter dtype, the EMA's small changes would round to zero."""
    return parameter.detach().clone().to(torch.promote_types(parameter.dtype, torch.float32))
