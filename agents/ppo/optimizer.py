"""Adam with torch's fused kernels, and the average of the weights that it changes."""

from __future__ import annotations

import copy
from inspect import unwrap

import torch
from torch import Tensor

from sparring.agents.policies.networks import PolicyNetwork


class EagerAdam(torch.optim.Adam):
    """Adam whose methods are not excluded from torch's compiler, which nothing here uses.

    For that torch imports its compiler, which takes 0.8 s at the start of every process.
    """

    found_inf: Tensor | None = None
    """1 where the next step changes nothing, as torch's gradient scaler sets it."""
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))
    zero_grad = unwrap(torch.optim.Optimizer.zero_grad)
    add_param_group = unwrap(torch.optim.Optimizer.add_param_group)
    state_dict = unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = unwrap(torch.optim.Optimizer.load_state_dict)


def adam(network: PolicyNetwork, learning_rate: float) -> EagerAdam:
    """Create the optimizer of all weights of `network`, fused where torch supports it."""
    fused = network.log_std.device.type in ("cpu", "cuda")
    # eps 1e-5, torch's is 1e-8: bounds the step lr / eps of weights whose gradient is almost 0, as in OpenAI Baselines.
    return EagerAdam(network.parameters(), lr=learning_rate, eps=1e-5, fused=fused)


class Average:
    """Running mean of a network's weights over its updates, with the part `decay` of it kept by each.

    The first updates have equal weight, so the random initial weights do not persist. `network` is a copy with the
    averaged weights; its buffers are copied from the last update.
    """

    def __init__(self, network: PolicyNetwork, decay: float) -> None:
        self.network, self.decay = copy.deepcopy(network), decay
        self.updates = torch.zeros((), dtype=torch.int64)

    @torch.no_grad()
    def follow(self, network: PolicyNetwork) -> None:
        """Take in the weights after an update."""
        self.updates += 1
        part = max(1.0 - self.decay, 1.0 / int(self.updates))
        torch._foreach_lerp_(list(self.network.parameters()), list(network.parameters()), part)
        for averaged, buffer in zip(self.network.buffers(), network.buffers(), strict=True):
            averaged.copy_(buffer)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the averaged weights and the number of updates."""
        return {**self.network.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a `state_dict`."""
        weights = dict(state)
        self.updates = weights.pop("updates").cpu().clone()
        self.network.load_state_dict(weights)
