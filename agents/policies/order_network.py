"""Diplomacy policy with one order per unit, and a value: small, factored over units, and always legal.

An encoder passes messages between neighbouring provinces for `blocks` rounds. Each unit then scores its K = 37 choices
(`envs/diplomacy/orders/order_choices.py`) by dot products with their target provinces. Illegal choices have probability
zero, computed from the observation alone. Units choose independently, so log-probabilities and entropies are sums over
units. B is a batch of observations, D = P x 62 their size (`envs/diplomacy/observation.py`, flat), U = 17 the most
units of a power, P = 75 provinces, H `hidden`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sparring.agents.distributed.processes import ShardedGenerator, draw
from sparring.agents.policies.actor_critic import linear, shape_options
from sparring.configs.schema import NetworkConfig
from sparring.envs.diplomacy.board.codes import SLOTS
from sparring.envs.diplomacy.board.tensors import board_tensors
from sparring.envs.diplomacy.observation import SHAPE
from sparring.envs.diplomacy.orders.order_choices import CHOICES, SIDES, rows_of, units_of

FAMILY = "orders"
OBS_DIM = math.prod(SHAPE)


class Encoder(nn.Module):
    """Province features [B, P, H] from observations [B, P, 62], after `rounds` of messages between neighbours.

    The observation identifies a province only by its row, so each row has a learned embedding (`place`).
    """

    near: Tensor

    def __init__(self, hidden: int, rounds: int, generator: torch.Generator) -> None:
        super().__init__()
        self.register_buffer("near", board_tensors(generator.device).near, persistent=False)
        provinces, columns = SHAPE
        self.place = nn.Parameter(torch.randn(provinces, hidden, generator=generator) * 0.1)
        self.input = linear(columns, hidden, generator)
        self.own = nn.ModuleList(linear(hidden, hidden, generator, gain=1.0) for _ in range(rounds))
        self.others = nn.ModuleList(linear(hidden, hidden, generator, gain=1.0) for _ in range(rounds))

    def forward(self, seen: Tensor) -> Tensor:
        """Map [B, P, 62] to [B, P, H]."""
        h = F.relu(self.input(seen) + self.place)
        for own, others in zip(self.own, self.others, strict=True):
            h = h + F.relu(own(h) + others(self.near @ h))
        return h


class Actor(nn.Module):
    """Scores of every order of every unit, [B, U, K]."""

    def __init__(self, hidden: int, rounds: int, generator: torch.Generator) -> None:
        super().__init__()
        self.encoder = Encoder(hidden, rounds, generator)
        self.hold = linear(hidden, 1, generator, gain=0.01)
        self.ask = linear(hidden, 3 * hidden, generator, gain=0.1)

    def forward(self, seen: Tensor, places: Tensor, targets: Tensor) -> Tensor:
        """Score choices from units' provinces `places` [B, U] and `targets` [B, U, 24] of moves, then supports."""
        h = self.encoder(seen)
        hidden = h.shape[-1]
        own = h.gather(1, places.unsqueeze(-1).expand(-1, -1, hidden))
        questions = self.ask(own).unflatten(-1, (3, hidden))
        answers = questions.flatten(1, 2) @ h.transpose(1, 2) / math.sqrt(hidden)
        moving, helping = targets.split(SIDES, dim=2)
        chosen = torch.stack([moving, helping, helping], dim=2)
        scores = answers.unflatten(1, questions.shape[1:3]).gather(3, chosen)
        return torch.cat([self.hold(own), scores.flatten(2)], dim=-1)


class Critic(nn.Module):
    """V(s) from the mean over the provinces."""

    def __init__(self, hidden: int, rounds: int, generator: torch.Generator) -> None:
        super().__init__()
        self.encoder = Encoder(hidden, rounds, generator)
        self.head = linear(hidden, 1, generator, gain=1.0)

    def forward(self, seen: Tensor) -> Tensor:
        """Map [B, P, 62] to [B, 1]."""
        return self.head(self.encoder(seen).mean(1))


class OrderNetwork(nn.Module):
    """Order policy with the interface of `ActorCritic`; an action is one choice index per unit, as a float."""

    goals: Tensor
    reach: Tensor
    continuous = binary = categorical = 0
    action_size = SLOTS

    def __init__(self, config: NetworkConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.obs_dim, self.config = OBS_DIM, config
        generator = torch.Generator().manual_seed(seed)
        self.actor = Actor(config.hidden, config.blocks, generator)
        self.critic = Critic(config.hidden, config.blocks, generator)
        self.log_std = nn.Parameter(torch.zeros(0))
        board = board_tensors(generator.device)
        self.register_buffer("goals", board.goals, persistent=False)
        self.register_buffer("reach", board.reach, persistent=False)

    @property
    def shape(self) -> dict[str, Any]:
        """Plain dict from which `build_network` makes a network that accepts this one's weights."""
        return order_network_shape(self.config)

    @torch.no_grad()
    def act(
        self, obs: Tensor, *, deterministic: bool = False, generator: torch.Generator | ShardedGenerator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return choices [B, U] and their joint log-probability [B] for observations [B, D]."""
        log_probs, present = self._answer(obs)
        if deterministic:
            chosen = log_probs.argmax(-1)
        else:
            uniform = draw(torch.rand, log_probs.shape, generator, log_probs.device)
            chosen = (log_probs - (-uniform.clamp_min(1e-20).log()).clamp_min(1e-20).log()).argmax(-1)
        return chosen.float(), _total(log_probs, chosen, present)

    def value(self, obs: Tensor) -> Tensor:
        """Return V(s), float32 [B], for observations [B, D]."""
        return self.critic(obs.unflatten(1, SHAPE)).float().squeeze(-1)

    def evaluate(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log-probability of choices [B, U] and the entropy, [B] each."""
        log_probs, present = self._answer(obs)
        entropy = -(log_probs.exp() * log_probs).sum(-1)
        return _total(log_probs, actions.long(), present), (entropy * present).sum(-1)

    def reset_log_std(self, log_std: float) -> None:
        """There is none."""

    def clamp_log_std(self) -> None:
        """There is none."""

    def _answer(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-probabilities [B, U, K] of every choice, and the mask of present units [B, U]."""
        seen = obs.unflatten(1, SHAPE)
        rows = rows_of(seen)
        places, present = units_of(rows)
        own = rows.gather(1, places).clamp_min(0)
        goals, reach = self.goals[own], self.reach[own]
        scores = self.actor(seen, places, torch.cat([goals, reach], dim=-1).clamp_min(0)).float()
        legal = self._legal(rows, goals, reach, present)
        return scores.masked_fill(~legal, -1e9).log_softmax(-1), present

    def _legal(self, rows: Tensor, goals: Tensor, reach: Tensor, present: Tensor) -> Tensor:
        """Return the mask of legal choices, bool [B, U, K]; holding is always legal."""
        ours = (rows >= 0).float()
        near = torch.zeros_like(ours)
        flat, counted = reach.flatten(1), (reach >= 0).flatten(1) & present.repeat_interleave(SIDES, dim=1)
        near.scatter_add_(1, flat.clamp_min(0), counted.float())  # units of ours that could move there
        there = reach >= 0
        held = there & (ours.gather(1, flat.clamp_min(0)) > 0).view_as(reach)
        joined = there & (near.gather(1, flat.clamp_min(0)) > 1).view_as(reach)
        hold = torch.ones_like(present).unsqueeze(-1)
        return torch.cat([hold, goals >= 0, held, joined], dim=-1)


def order_network_shape(config: NetworkConfig) -> dict[str, Any]:
    """Return the `OrderNetwork.shape` of these options."""
    return {"family": FAMILY, "obs_dim": OBS_DIM, "continuous": 0, "binary": 0} | shape_options(config)


def order_weight_sizes(hidden: int, rounds: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of every weight of an `OrderNetwork`, without building it."""
    provinces, columns = SHAPE
    layers = {"encoder.input": (columns, hidden)}
    yield "log_std", (0,)
    for half, heads in (("actor", {"hold": 1, "ask": 3 * hidden}), ("critic", {"head": 1})):
        yield f"{half}.encoder.place", (provinces, hidden)
        rows = (
            (f"encoder.{part}.{number}", (hidden, hidden)) for number in range(rounds) for part in ("own", "others")
        )
        for name, (inputs, outputs) in chain(layers.items(), rows, ((head, (hidden, n)) for head, n in heads.items())):
            yield f"{half}.{name}.weight", (outputs, inputs)
            yield f"{half}.{name}.bias", (outputs,)


def _total(log_probs: Tensor, chosen: Tensor, present: Tensor) -> Tensor:
    """Sum the log-probabilities of the chosen orders over the present units."""
    return (log_probs.gather(-1, chosen.unsqueeze(-1)).squeeze(-1) * present).sum(-1)


assert CHOICES == 1 + 3 * SIDES
