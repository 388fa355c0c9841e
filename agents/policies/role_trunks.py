"""Actor or critic of every role of a game: trunks of one shape, rows routed to the one of their role.

A trunk has convolutions if there is a picture, the layers of `ActorCritic`, a memory if configured, and a linear head.
F is the number of features, H `hidden`, S the columns of a trunk's state, 0 without memory. With one role, rows are not
routed and `role` is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import torch
from torch import Tensor, nn

from sparring.agents.policies.actor_critic import mlp, mlp_weight_sizes
from sparring.agents.policies.encoders import Picture, PictureEncoder, encoded_size, encoder_weight_sizes
from sparring.agents.policies.memory import NONE, Memory, memory_weight_sizes
from sparring.configs.schema import NetworkConfig


class Trunk(nn.Module):
    """One role's network from features to the head's `outputs`."""

    def __init__(
        self,
        features: int,
        outputs: int,
        config: NetworkConfig,
        picture: Picture | None,
        *,
        head_gain: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        inputs = features
        if picture:
            self.encoder = PictureEncoder(picture, config.encoder, config.activation, generator)
            inputs = encoded_size(features, picture, config.encoder)
        *body, head = mlp(inputs, outputs, config, head_gain=head_gain, generator=generator)
        self.body, self.head = nn.Sequential(*body), head
        self._pictures = picture is not None
        if config.memory != NONE:
            self.memory = Memory(config.memory, config.hidden, generator)

    def rows(self, features: Tensor) -> Tensor:
        """Return what the memory, or without one the head, reads: [n, H] of features [n, F]."""
        return self.body(self.encoder(features) if self._pictures else features)

    def forward(self, features: Tensor) -> Tensor:
        """Map features [n, F] to [n, outputs], without memory."""
        return self.head(self.rows(features))

    def step(self, features: Tensor, state: Tensor) -> Tensor:
        """Return the states [n, S] after features [n, F]."""
        return self.memory.step(self.rows(features), state)

    def along(self, features: Tensor, state: Tensor, fresh: Tensor) -> Tensor:
        """Return the states [C, B, S] after each of the features [C, B, F], from states [B, S]."""
        rows = self.rows(features.flatten(0, 1))
        return self.memory.along(rows.unflatten(0, features.shape[:2]), state, fresh)


class RoleTrunks(nn.ModuleList):
    """The trunks of R roles; rows go to the trunk of their role, int64 [n] or, in sequences, [C, B]."""

    def forward(self, features: Tensor, role: Tensor | None) -> Tensor:
        """Map features [n, F] to [n, outputs], without memory."""
        return self[0](features) if role is None else self._routed(role, Trunk.forward, features)

    def step(self, features: Tensor, role: Tensor | None, state: Tensor) -> Tensor:
        """Return the states [n, S] after features [n, F] from states [n, S]."""
        if role is None:
            return self._trunk(0).step(features, state)
        return self._routed(role, Trunk.step, features, state)

    def heads(self, hidden: Tensor, role: Tensor | None) -> Tensor:
        """Map outputs of the memory [n, H] to [n, outputs]."""
        if role is None:
            return self._trunk(0).head(hidden)
        return self._routed(role, lambda trunk, rows: trunk.head(rows), hidden)

    def along(self, features: Tensor, role: Tensor | None, state: Tensor, fresh: Tensor) -> Tensor:
        """Return the states [C, B, S] after each of the features [C, B, F], from states [B, S].

        A lane may change its role where an episode begins, because the state is reset with the episode.
        """
        if role is None:
            return self._trunk(0).along(features, state, fresh)
        states = state.new_zeros(*role.shape, state.shape[-1])
        for number in range(len(self)):
            mask = role == number
            lanes = mask.any(0).nonzero().squeeze(-1)
            after = self._trunk(number).along(features[:, lanes], state[lanes], fresh[:, lanes])
            states = states.index_copy(1, lanes, torch.where(mask[:, lanes].unsqueeze(-1), after, states[:, lanes]))
        return states

    def _trunk(self, number: int) -> Trunk:
        return cast(Trunk, self[number])

    def _routed(self, role: Tensor, apply: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        """Apply `apply(trunk, *rows)` to the rows of every role.

        Every weight gets a gradient; in a role without rows it is zero.
        """
        places = [(role == number).nonzero().squeeze(-1) for number in range(len(self))]
        if sum(map(len, places)) != len(role):
            raise ValueError(f"the role column has other values than the roles 0 to {len(self) - 1}; fix the rows")
        if not torch.is_grad_enabled():
            for number, index in enumerate(places):
                if len(index) == len(role):  # as where one seat decides in all matches
                    return apply(self._trunk(number), *rows)
        parts = [apply(self._trunk(number), *(column[index] for column in rows)) for number, index in enumerate(places)]
        order, joint = torch.cat(places), torch.cat(parts)
        return torch.empty_like(joint).index_copy(0, order, joint)


def trunk_weight_sizes(
    features: int, outputs: int, hidden: int, blocks: int, *, picture: Picture | None, encoder: str, memory: str
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of every weight of a `Trunk`, without building it."""
    inputs = features
    if picture:
        yield from ((f"encoder.{name}", size) for name, size in encoder_weight_sizes(picture, encoder))
        inputs = encoded_size(features, picture, encoder)
    *body, (_, weight), (_, bias) = mlp_weight_sizes(inputs, outputs, hidden, blocks)
    yield from ((f"body.{name}", size) for name, size in body)
    yield from (("head.weight", weight), ("head.bias", bias))
    if memory != NONE:
        yield from ((f"memory.{name}", size) for name, size in memory_weight_sizes(memory, hidden))
