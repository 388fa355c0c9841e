"""Batched forward of many frozen actors: opponent k acts on row k of the observations.

The weights of the K slots are stacked, so a linear layer of all slots is one batched product, x_k W_k^T + b_k, without
a Python loop over opponents. Changing the snapshot of a slot copies weights and rebuilds nothing. The layers are those
of `ActorCritic.actor`, applied in order. The actors of recurrent networks also take and return a state per observation,
S columns, or none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sparring.agents.distributed.processes import ShardedGenerator
from sparring.agents.policies.actor_critic import Residual, choose, log_spread, sample
from sparring.agents.policies.memory import cell
from sparring.agents.policies.networks import build_network


class StackedActors:
    """`slots` frozen actors of one shape (`ActorCritic.shape`) on one device.

    K is `slots`, M the observations per slot. A slot is all zeros until it is loaded: mean 0, standard deviation 1.
    """

    def __init__(self, slots: int, network_shape: dict[str, Any], device: torch.device | str) -> None:
        self.slots = slots
        self.template: Any = build_network(network_shape)
        self.memory_size = self.template.memory_size // 2  # S: the critic's half is not needed
        self.names = [name for name, _ in self.template.named_parameters() if not name.startswith("critic.")]
        state = self.template.state_dict()
        self.weights = {name: torch.zeros(slots, *_stored(state[name]).shape, device=device) for name in self.names}

    def load(self, slot: int, state_dict: Mapping[str, Tensor]) -> None:
        """Copy an `ActorCritic`'s weights into a slot; its critic is ignored.

        Raises `ValueError` for a slot outside 0..K-1, a missing weight, or one of another shape.
        """
        if not 0 <= slot < self.slots:
            raise ValueError(f"slot={slot} is outside 0..{self.slots - 1}; make more slots or choose one of these")
        for name in self.names:
            expected = tuple(self.template.get_parameter(name).shape)
            shape = tuple(state_dict[name].shape) if name in state_dict else "nothing"
            if shape != expected:
                raise ValueError(
                    f"{name}: expected shape {expected}, found {shape}; load a snapshot of this network shape"
                )
        for name in self.names:
            self.weights[name][slot].copy_(_stored(state_dict[name]))

    @torch.no_grad()
    def step(
        self,
        obs: Tensor,
        state: Tensor,
        *,
        generator: torch.Generator | ShardedGenerator | None = None,
        deterministic: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Return actions [K, M, A] and states [K, M, S] after obs [K, M, D] and states [K, M, S], S > 0."""
        (trunk,) = self.template.actor
        x, weights, hidden = self._forward(trunk.body, "actor.0.body", obs), self.weights, trunk.memory.hidden
        with torch.autocast(obs.device.type, enabled=False):  # as in `Memory`
            parts = state.split(hidden, dim=-1)
            inputs, recurrent = (
                torch.baddbmm(weights[f"actor.0.memory.bias_{half}"], of, weights[f"actor.0.memory.weight_{half}"])
                for half, of in (("ih", x.float()), ("hh", parts[0]))
            )
            after = torch.cat(cell(inputs, recurrent, parts), dim=-1)
        output = self._forward(trunk.head, "actor.0.head", after[..., :hidden])
        how: dict[str, Any] = {"deterministic": deterministic, "generator": generator}
        return self._sample(output.float(), weights["log_std"], **how), after

    @torch.no_grad()
    def act(
        self, obs: Tensor, *, generator: torch.Generator | ShardedGenerator | None = None, deterministic: bool = False
    ) -> Tensor:
        """Return actions [K, M, A] for observations [K, M, D]; slot k acts on row k."""
        actor, log_std = self.template.actor, self.weights["log_std"]
        if not self.template.config.gsde:
            output = self._forward(actor, "actor", obs)
        else:
            features = self._forward(actor[:-1], "actor", obs)
            output = self._forward(actor[-1], f"actor.{len(actor) - 1}", features)
            log_std = log_spread(features, log_std.transpose(-1, -2))  # stored like a weight
        return self._sample(output.float(), log_std, deterministic=deterministic, generator=generator)

    def _sample(self, output: Tensor, log_std: Tensor, **how: Any) -> Tensor:
        """Return actions [K, M, A] from the actors' outputs; choices come last, as in `ActorCritic`."""
        count = self.template.continuous + self.template.binary
        actions = sample(output[..., :count], log_std, **how)
        if not self.template.categorical:
            return actions
        choices = output[..., count:].split(self.template.categorical, dim=-1)
        return torch.cat([actions, *(choose(logits, **how) for logits in choices)], dim=-1)

    def _forward(self, module: nn.Module, name: str, x: Tensor) -> Tensor:
        """Run all slots' copies of `module` on x [K, M, inputs]; `name` is its path in the state dict."""
        if isinstance(module, nn.Sequential):
            for index, layer in enumerate(module):
                x = self._forward(layer, f"{name}.{index}", x)
            return x
        if isinstance(module, Residual):
            return x + self._forward(module.branch, f"{name}.branch", x)
        if isinstance(module, nn.ReLU):
            return x.relu_()
        if isinstance(module, nn.Tanh):
            return x.tanh_()
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        if isinstance(module, nn.LayerNorm):
            return torch.addcmul(bias, F.layer_norm(x, module.normalized_shape, eps=module.eps), weight)
        return torch.baddbmm(bias, x, weight)


def _stored(weight: Tensor) -> Tensor:
    """Convert a weight to slot layout: matrices [inputs, outputs], vectors [1, outputs] to broadcast over M."""
    return weight.T if weight.dim() == 2 else weight.unsqueeze(0)
