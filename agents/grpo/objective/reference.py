"""The policy that the KL penalty holds the learner near: the base model, or a slow mean of the learner itself.

Only adapters are trained, so the base model is the same network with them switched off, and the mean

    ema <- tau ema + (1 - tau) theta         after every update, beginning at the first theta

is another set of adapter weights for it. Either is put in place for the time of one scoring pass and taken out again,
bit for bit. The base model never changes, so its log-probabilities may be kept; those of the mean are out of date one
update later, and keeping them quietly turned it into something else before: they are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor
from torch.nn import Parameter

from sparring.agents.grpo.objective.logprob_source import LogProbs, ProvenanceError, Source
from sparring.configs.language import GRPOConfig


@contextmanager
def in_place_of(parameters: Mapping[str, Parameter], weights: Mapping[str, Tensor]) -> Iterator[None]:
    """Give the parameters other `weights` by name, and afterwards their own again, whatever happened in between.

    Nothing is copied where the types agree: the tensors change places. Do no backward pass within.
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
    """The reference of a model whose trained `parameters` have names.

    `base` names the model without them (its folder, or a hash), and `without_adapters` makes a context in which it is
    that model. `use_ema_reference` chooses the mean, `ema_tau` how slow it is: 1 stays at the first weights forever, 0
    is the policy itself.
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
        """What its log-probabilities are called now."""
        return f"ema@{self._updates}" if self.uses_ema else f"base:{self._base}"

    def score(self, scorer: Callable[[], Tensor]) -> LogProbs:
        """What `scorer`, a pass of the model, returns under the reference's weights."""
        in_place = in_place_of(self._parameters, self.ema) if self.uses_ema else self._without_adapters()
        with torch.no_grad(), in_place:
            return LogProbs(scorer().detach(), Source.REFERENCE, self.weights)

    def cached(self, logprobs: LogProbs) -> LogProbs:
        """Accept log-probabilities that `score` gave earlier; `ProvenanceError` for the mean's, and for others'."""
        if self.uses_ema:
            raise ProvenanceError(f"kept log-probabilities of {logprobs.weights}: the mean has moved, so score again")
        logprobs.demand(Source.REFERENCE, weights=self.weights)
        self._cached = True
        return logprobs

    @torch.no_grad()
    def update(self) -> None:
        """Follow the policy after an update of it."""
        self._updates += 1
        for name, mean in self.ema.items():
            mean.lerp_(self._parameters[name].to(mean.dtype), 1.0 - self._tau)  # tau ema + (1 - tau) theta

    def metrics(self) -> dict[str, float]:
        """Whether kept log-probabilities were used since the last call."""
        used, self._cached = self._cached, False
        return {"benchmark/used_cached_ref_logprobs": float(used)}

    def state_dict(self) -> dict[str, object]:
        """The mean by parameter name (empty for the base model), and how often it followed."""
        return {"ema": dict(self.ema), "updates": self._updates}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on from a `state_dict` of the same adapters; raises `ValueError` for others."""
        mean, updates = state["ema"], state["updates"]
        if not isinstance(mean, Mapping) or not isinstance(updates, int) or _shapes(mean) != _shapes(self.ema):
            raise ValueError("the reference's state is of other adapters: continue with those it was saved with")
        for name, tensor in mean.items():
            self.ema[name].copy_(tensor)
        self._updates = updates


def _copy(parameter: Parameter) -> Tensor:
    """At least float32: in a shorter type, hundredths of small changes would round to nothing."""
    return parameter.detach().clone().to(torch.promote_types(parameter.dtype, torch.float32))


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}
