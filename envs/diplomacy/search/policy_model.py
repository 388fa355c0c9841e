"""An order network as a model of a power's player: the probabilities of given orders, and orders of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.tensors import State
from sparring.envs.diplomacy.observation import observe
from sparring.envs.diplomacy.orders.order_choices import CHOICES, read_choices, rows_of, units_of, write_orders


class Network(Protocol):
    """The part of `OrderNetwork` that a model uses."""

    config: Any

    def parameters(self) -> Iterator[Tensor]:
        """Yield the weights."""

    def act(self, obs: Tensor, **how: Any) -> tuple[Tensor, Tensor]:
        """Return choices [n, 17] and their joint log-probability [n]."""

    def log_probs(self, obs: Tensor, choices: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-probabilities [n, 17, 37] of every choice after the `choices` before it, and present units."""


@dataclass(frozen=True)
class PolicyModel:
    """The network of a policy; `draws` is whether it samples its orders or gives the likeliest."""

    network: Network
    draws: bool

    @torch.no_grad()
    def shares(self, state: State, orders: Tensor, last_year: int) -> Tensor:
        """Return the probability of the order of each unit after those of its power before it, float [n, 75].

        It is 0 for orders that the network cannot give, and without `draws` 1 for the likeliest order, 0 for others.
        """
        n = len(orders)
        rows, powers = torch.arange(n).repeat_interleave(codes.NUM_POWERS), torch.arange(codes.NUM_POWERS).repeat(n)
        obs = self._observed(state, rows, powers, last_year)
        choices = read_choices(orders[rows], rows_of(obs))
        known = choices.clamp_min(0)
        log_probs, _ = self.network.log_probs(obs.flatten(1).to(self._device), known.to(self._device))
        given = log_probs.cpu().gather(2, known.unsqueeze(2)).squeeze(2).exp()
        if not self.draws:
            given = (log_probs.cpu().argmax(2) == choices).float()
        places, present = units_of(rows_of(obs))
        shares = torch.zeros(len(rows), codes.NUM_PROVINCES)
        shares.scatter_add_(1, places, given * (present & (choices >= 0)))
        return shares.view(n, codes.NUM_POWERS, -1).sum(1)  # a province has a unit of one power

    @torch.no_grad()
    def orders(self, state: State, rows: Tensor, powers: Tensor, uniform: Tensor | None, last_year: int) -> Tensor:
        """Return orders int32 [n, 75] of `powers` [n] in the `rows` [n] of `state`.

        `uniform` float [n, 17 * 37] are the random numbers of a policy that draws.
        """
        obs = self._observed(state, rows, powers, last_year)
        noise = None
        if uniform is not None:
            gumbel = -(-uniform.clamp_min(1e-20).log()).clamp_min(1e-20).log()
            noise = gumbel.view(len(rows), codes.SLOTS, CHOICES).to(self._device)
        choices, _ = self.network.act(obs.flatten(1).to(self._device), deterministic=True, noise=noise)
        orders = torch.zeros(len(rows), codes.NUM_PROVINCES, dtype=torch.int32)
        write_orders(choices.long().cpu(), rows_of(obs), orders)
        return orders

    @property
    def _device(self) -> torch.device:
        return next(self.network.parameters()).device

    def _observed(self, state: State, rows: Tensor, powers: Tensor, last_year: int) -> Tensor:
        some = {name: values[rows] for name, values in state.items()}
        return observe(some, powers, last_year=last_year, retreats=self.network.config.all_phases)
