"""Diplomacy policy with one order per unit, and a value: small, factored over units, and always legal.

An encoder passes messages between neighbouring provinces for `blocks` rounds. Each unit then scores its K = 37 choices
(`envs/diplomacy/orders/order_choices.py`) by dot products with their target provinces. Illegal choices have probability
zero, computed from the observation alone. Units choose independently, so log-probabilities and entropies are sums over
units. With `in_turn`, they choose one after the other by province, each seeing the choices before it (`Turns`):

    log pi(a | s) = sum over units u of log pi(a_u | s, a_1 ... a_(u - 1))

The entropy is then the sum of conditional entropies at the given actions, an unbiased estimate of the joint entropy.

With `all_phases` it decides retreats and adjustments too (`envs/diplomacy/orders/phase_choices.py`): a retreat is
scored like a move, a build or disband by a separate head. The number due limits all adjustments of a power together:

    pi(a | s) = product over u of p(a_u | s) / sum of such products over all legal a     p: units on their own

It is factored by unit as above, with sums over the units that follow (`remaining_sums`).
B is a batch of observations, D = P x C their size (`envs/diplomacy/observation.py`, flat; C = 62, with `all_phases`
74), U = 17 the most units of a power, P = 75 provinces, H `hidden`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sparring.agents.distributed.processes import ShardedGenerator, draw
from sparring.agents.policies.actor_critic import linear, shape_options
from sparring.agents.policies.networks import NetworkFamily, PolicyNetwork
from sparring.configs.core.typed import require
from sparring.configs.schema import NetworkConfig
from sparring.envs.diplomacy.board.codes import SLOTS
from sparring.envs.diplomacy.board.tensors import board_tensors
from sparring.envs.diplomacy.observation import ALL_PHASES_SHAPE, SHAPE
from sparring.envs.diplomacy.orders.order_choices import CHOICES, SIDES, rows_of, units_of
from sparring.envs.diplomacy.orders.phase_choices import ADJUSTMENTS, deciding_rows, due_of, legal_choices

FAMILY = "orders"
EVENTS = 5
"""Events in a province: a unit enters, leaves or stays; a staying or entering unit is supported."""
ENTERS, LEAVES, STAYS, STAY_HELPED, ENTRY_HELPED = range(EVENTS)
NEVER = -1e9
"""Log-probability of an illegal choice; its exponential is 0."""


class Encoder(nn.Module):
    """Province features [B, P, H] from observations [B, P, C], after `rounds` of messages between neighbours.

    The observation identifies a province only by its row, so each row has a learned embedding (`place`).
    """

    near: Tensor

    def __init__(self, shape: tuple[int, int], hidden: int, rounds: int, generator: torch.Generator) -> None:
        super().__init__()
        self.register_buffer("near", board_tensors(generator.device).near, persistent=False)
        provinces, columns = shape
        self.place = nn.Parameter(torch.randn(provinces, hidden, generator=generator) * 0.1)
        self.input = linear(columns, hidden, generator)
        self.own = nn.ModuleList(linear(hidden, hidden, generator, gain=1.0) for _ in range(rounds))
        self.others = nn.ModuleList(linear(hidden, hidden, generator, gain=1.0) for _ in range(rounds))

    def forward(self, obs: Tensor) -> Tensor:
        """Map [B, P, C] to [B, P, H]."""
        h = F.relu(self.input(obs) + self.place)
        for to_self, to_others in zip(self.own, self.others, strict=True):
            h = h + F.relu(to_self(h) + to_others(self.near @ h))
        return h


class Actor(nn.Module):
    """Scores of every order of every unit, [B, U, K]."""

    def __init__(self, shape: tuple[int, int], hidden: int, rounds: int, generator: torch.Generator) -> None:
        super().__init__()
        self.encoder = Encoder(shape, hidden, rounds, generator)
        self.hold = linear(hidden, 1, generator, gain=0.01)
        self.ask = linear(hidden, 3 * hidden, generator, gain=0.1)

    def forward(self, h: Tensor, places: Tensor, targets: Tensor, context: TurnContext | None = None) -> Tensor:
        """Score choices from provinces `h` [B, P, H], for units in `places` [B, U] with `targets` [B, U, 24].

        The targets are of moves, then of supports. `context` has the units' knowledge of each other's orders.
        """
        hidden = h.shape[-1]
        features = h.gather(1, places.unsqueeze(-1).expand(-1, -1, hidden))
        if context is not None:
            features = context.informed(features)
        questions = self.ask(features).unflatten(-1, (3, hidden))
        answers = questions.flatten(1, 2) @ h.transpose(1, 2) / math.sqrt(hidden)
        moving, helping = targets.split(SIDES, dim=2)
        chosen = torch.stack([moving, helping, helping], dim=2)
        scores = answers.unflatten(1, questions.shape[1:3]).gather(3, chosen)
        if context is not None:
            scores = scores + context.scores(questions)
        return torch.cat([self.hold(features), scores.flatten(2)], dim=-1)


class Turns(nn.Module):
    """Embedding of the orders of previous units: counts of `EVENTS` by province, [B, U, P, E]."""

    near: Tensor

    def __init__(self, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.register_buffer("near", board_tensors(generator.device).near, persistent=False)
        self.around = linear(hidden + 2 * EVENTS, hidden, generator, gain=1.0)
        self.there = linear(hidden, EVENTS, generator, gain=0.1)

    def context(self, counts: Tensor, places: Tensor, targets: Tensor) -> TurnContext:
        """Return the events in the units' provinces `places` [B, U], their neighbours and their targets."""
        inside = counts.gather(2, places[..., None, None].expand(-1, -1, 1, EVENTS)).squeeze(2)
        beside = torch.einsum("bup,bupe->bue", self.near[places], counts)
        targeted = counts.gather(2, targets.unsqueeze(-1).expand(-1, -1, -1, EVENTS))
        return TurnContext(self, torch.cat([inside, beside], dim=-1), targeted)


@dataclass(frozen=True)
class TurnContext:
    """Events in the units' provinces and around them [B, U, 2 E], and in their targets [B, U, 24, E]."""

    turns: Turns
    around: Tensor
    targets: Tensor

    def informed(self, features: Tensor) -> Tensor:
        """Return the features [B, U, H] of the units' provinces with the events added."""
        return features + F.relu(self.turns.around(torch.cat([features, self.around], dim=-1)))

    def scores(self, questions: Tensor) -> Tensor:
        """Return what the events in the targets add to the scores [B, U, 3, 12] of `questions` [B, U, 3, H]."""
        moving, helping = self.targets.split(SIDES, dim=2)
        events = torch.stack([moving, helping, helping], dim=2)
        return torch.einsum("buke,bukse->buks", self.turns.there(questions), events)


def events_of(choices: Tensor, places: Tensor, targets: Tensor, present: Tensor) -> Tensor:
    """Return the events of each unit's choice [B, U] by province, float [B, U, P, E], zero where none is `present`."""
    kind, side = (choices - 1).div(SIDES, rounding_mode="floor"), (choices - 1) % SIDES
    goal = targets.gather(2, (side + SIDES * (kind > 0)).unsqueeze(-1)).squeeze(-1)
    moves, acts = kind == 0, choices > 0
    entries = goal * EVENTS + torch.where(moves, ENTERS, torch.where(kind == 1, STAY_HELPED, ENTRY_HELPED))
    origins = places * EVENTS + torch.where(moves, LEAVES, STAYS)
    events = torch.zeros(*choices.shape, SHAPE[0] * EVENTS, device=choices.device)
    events.scatter_add_(2, entries.unsqueeze(-1), (acts & present).unsqueeze(-1).float())
    events.scatter_add_(2, origins.unsqueeze(-1), present.unsqueeze(-1).float())
    return events.unflatten(2, (SHAPE[0], EVENTS))


class Critic(nn.Module):
    """V(s) from the mean over the provinces."""

    def __init__(self, shape: tuple[int, int], hidden: int, rounds: int, generator: torch.Generator) -> None:
        super().__init__()
        self.encoder = Encoder(shape, hidden, rounds, generator)
        self.head = linear(hidden, 1, generator, gain=1.0)

    def forward(self, obs: Tensor) -> Tensor:
        """Map [B, P, C] to [B, 1]."""
        return self.head(self.encoder(obs).mean(1))


class Units(NamedTuple):
    """Provinces of units [B, U], their targets [B, U, 24], legal choices [B, U, K], and which are in use [B, U].

    `due` int64 [B, U] are the adjustments due of the whole power, -1 outside winter, `exact` [B, U] whether all are.
    """

    places: Tensor
    targets: Tensor
    legal: Tensor
    present: Tensor
    due: Tensor
    exact: Tensor


class OrderNetwork(PolicyNetwork):
    """Order policy; an action is one choice index per unit, as a float."""

    goals: Tensor
    reach: Tensor
    continuous = binary = 0
    categorical = ()
    action_size = SLOTS

    def __init__(self, config: NetworkConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config, self._seen = config, observed_shape(all_phases=config.all_phases)
        self.obs_dim = math.prod(self._seen)
        generator = torch.Generator().manual_seed(seed)
        self.actor = Actor(self._seen, config.hidden, config.blocks, generator)
        self.critic = Critic(self._seen, config.hidden, config.blocks, generator)
        self.turns = Turns(config.hidden, generator) if config.in_turn else None
        self.adjust = linear(config.hidden, ADJUSTMENTS, generator, gain=0.01) if config.all_phases else None
        self.log_std = nn.Parameter(torch.zeros(0))
        board = board_tensors(generator.device)
        self.register_buffer("goals", board.goals, persistent=False)
        self.register_buffer("reach", board.reach, persistent=False)

    @classmethod
    def from_shape(cls, shape: Mapping[str, Any], *, seed: int = 0) -> OrderNetwork:
        """Build a network from `shape`, with initial weights drawn from `seed`."""
        options = {key: value for key, value in shape.items() if key in NetworkConfig.__dataclass_fields__}
        network = cls(NetworkConfig(**options), seed=seed)
        if network.obs_dim != shape["obs_dim"]:
            raise ValueError(f"observations of {shape['obs_dim']} numbers, this version has {network.obs_dim}")
        return network

    @property
    def shape(self) -> dict[str, Any]:
        """See `PolicyNetwork`."""
        return order_network_shape(self.config)

    @torch.no_grad()
    def act(
        self,
        obs: Tensor,
        *,
        deterministic: bool = False,
        generator: torch.Generator | ShardedGenerator | None = None,
        noise: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return choices [B, U] and their joint log-probability [B] for observations [B, D]."""
        units = self._units(obs)
        if not deterministic:
            uniform = draw(torch.rand, units.legal.shape, generator, obs.device)
            noise = -(-uniform.clamp_min(1e-20).log()).clamp_min(1e-20).log()
        h = self.actor.encoder(obs.unflatten(1, self._seen))
        if self.turns is None:
            log_probs = self._log_probs(h, units)
            chosen = (log_probs if noise is None else log_probs + noise).argmax(-1)
        else:
            log_probs, chosen = self._in_turn(h, units, noise)
        if self.adjust is not None:
            chosen = chosen_adjustments(log_probs, chosen, units, noise)
            log_probs = after_choices(log_probs, chosen, units)
        return chosen.float(), _total(log_probs, chosen, units.present)

    def value(self, obs: Any) -> Tensor:
        """Return V(s), float32 [B], for observations [B, D]."""
        values: Tensor = self.critic(obs.unflatten(1, self._seen))
        return values.float().squeeze(-1)

    def evaluate(self, obs: Any, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log-probability of choices [B, U] and the entropy, [B] each."""
        log_probs, present = self.log_probs(obs, actions.long())
        entropy = -(log_probs.exp() * log_probs).sum(-1)
        return _total(log_probs, actions.long(), present), (entropy * present).sum(-1)

    def log_probs(self, obs: Tensor, choices: Tensor, *, apart: bool = False) -> tuple[Tensor, Tensor]:
        """Return log-probabilities [B, n, K] of every choice, and the mask of present units [B, n].

        In turn, and in winter but with `apart`, they are those after the `choices` int64 [B, n] of the units before. n
        is at least the most units.
        """
        units, counts = Units(*(values[:, : choices.shape[1]] for values in self._units(obs))), None
        if self.turns is not None:
            events = events_of(choices, units.places, units.targets, units.present & (units.due < 0))
            counts = events.cumsum(1) - events
        log_probs = self._log_probs(self.actor.encoder(obs.unflatten(1, self._seen)), units, counts)
        limited = self.adjust is not None and not apart
        return after_choices(log_probs, choices, units) if limited else log_probs, units.present

    def _units(self, obs: Tensor) -> Units:
        tokens = obs.unflatten(1, self._seen)
        rows = rows_of(tokens) if self.adjust is None else deciding_rows(tokens)
        places, present = units_of(rows)
        unit_rows = rows.gather(1, places).clamp_min(0)
        goals, reach = self.goals[unit_rows], self.reach[unit_rows]
        legal = self._legal(rows, goals, reach, present)
        due, exact = torch.full_like(places, -1), torch.zeros_like(present)
        if self.adjust is not None:
            legal = legal_choices(tokens, places, present, legal)
            due, exact = (values.unsqueeze(1).expand_as(places) for values in due_of(tokens))
        return Units(places, torch.cat([goals, reach], dim=-1).clamp_min(0), legal, present, due, exact)

    def _log_probs(self, h: Tensor, units: Units, counts: Tensor | None = None) -> Tensor:
        """Return log-probabilities [B, U, K]; `counts` [B, U, P, E] are the events of the orders before."""
        context = None
        if counts is not None:
            assert self.turns is not None
            context = self.turns.context(counts, units.places, units.targets)
        scores = self.actor(h, units.places, units.targets, context).float()
        if self.adjust is not None:
            features = h.gather(1, units.places.unsqueeze(-1).expand(-1, -1, h.shape[-1]))
            adjusted = F.pad(self.adjust(features).float(), (1, CHOICES - 1 - ADJUSTMENTS))
            hold = F.pad(scores[..., :1], (0, CHOICES - 1))
            scores = torch.where((units.due >= 0).unsqueeze(-1), hold + adjusted, scores)
        return scores.masked_fill(~units.legal, NEVER).log_softmax(-1)

    def _in_turn(self, h: Tensor, units: Units, noise: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return log-probabilities [B, U, K] and choices [B, U], the likeliest after `noise` [B, U, K] is added.

        Adjustments do not condition on each other.
        """
        counts = torch.zeros(len(h), 1, SHAPE[0], EVENTS, device=h.device)
        log_probs, chosen = [], []
        for number in range(SLOTS):
            unit = Units(*(values[:, number : number + 1] for values in units))
            log_probs.append(self._log_probs(h, unit, counts))
            marks = log_probs[-1] if noise is None else log_probs[-1] + noise[:, number : number + 1]
            chosen.append(marks.argmax(-1))
            counts = counts + events_of(chosen[-1], unit.places, unit.targets, unit.present & (unit.due < 0))
        return torch.cat(log_probs, dim=1), torch.cat(chosen, dim=1)

    def _legal(self, rows: Tensor, goals: Tensor, reach: Tensor, present: Tensor) -> Tensor:
        """Return the mask of legal choices, bool [B, U, K]; holding is always legal."""
        ours = (rows >= 0).float()
        near = torch.zeros_like(ours)
        flat, counted = reach.flatten(1), (reach >= 0).flatten(1) & present.repeat_interleave(SIDES, dim=1)
        near.scatter_add_(1, flat.clamp_min(0), counted.float())  # units of ours that could move there
        reachable = reach >= 0
        supports_hold = reachable & (ours.gather(1, flat.clamp_min(0)) > 0).view_as(reach)
        joined = reachable & (near.gather(1, flat.clamp_min(0)) > 1).view_as(reach)
        hold = torch.ones_like(present).unsqueeze(-1)
        return torch.cat([hold, goals >= 0, supports_hold, joined], dim=-1)


def remaining_sums(log_probs: Tensor, exact: Tensor) -> Tensor:
    """Return the logarithms [B, U + 1, U + 1] of the sums over all legal adjustments of the units from u on.

    Entry (u, r) sums the products of the probabilities exp(`log_probs`) [B, U, K] of units on their own, where r
    choices other than 0 are left to make. They are exactly r if `exact` [B], else at most r.
    """
    count = log_probs.shape[1]
    rest, act = log_probs[..., :1], log_probs[..., 1:].logsumexp(-1, keepdim=True)
    none = torch.zeros_like(exact, dtype=log_probs.dtype).unsqueeze(1)
    sums = [torch.cat([none, none.masked_fill(exact.unsqueeze(1), NEVER).expand(-1, count)], dim=1)]
    for unit in reversed(range(count)):
        one_less = F.pad(sums[-1][:, :-1], (1, 0), value=NEVER)
        sums.append(torch.logaddexp(rest[:, unit] + sums[-1], act[:, unit] + one_less))
    return torch.stack(sums[::-1], dim=1)


def given_sums(log_probs: Tensor, now: Tensor, after: Tensor, remaining: Tensor) -> Tensor:
    """Return log-probabilities [..., K] of a unit's choices where `remaining` int64 [...] adjustments are left to make.

    `now` and `after` [..., U + 1] are the `remaining_sums` from this unit on and from the next one on.
    """
    at = remaining.unsqueeze(-1)
    rest, one_less = after.gather(-1, at), after.gather(-1, (at - 1).clamp_min(0))
    act = one_less.masked_fill(at == 0, NEVER).expand(*remaining.shape, log_probs.shape[-1] - 1)
    return log_probs + torch.cat([rest, act], dim=-1) - now.gather(-1, at)


def after_choices(log_probs: Tensor, choices: Tensor, units: Units) -> Tensor:
    """Return log-probabilities [B, U, K] that in winter are those after the `choices` [B, U] of the units before.

    In both, units choose independently except for the number of adjustments due.
    """
    acts = ((choices > 0) & units.present).long()
    remaining = (units.due - acts.cumsum(1) + acts).clamp(0, choices.shape[1])
    sums = remaining_sums(log_probs, units.exact[:, 0])
    limited = given_sums(log_probs, sums[:, :-1], sums[:, 1:], remaining)
    return torch.where(((units.due >= 0) & units.present).unsqueeze(-1), limited, log_probs)


def chosen_adjustments(log_probs: Tensor, chosen: Tensor, units: Units, noise: Tensor | None) -> Tensor:
    """Return the choices [B, U]: in winter the likeliest set, or one drawn with `noise` [B, U, K]; else `chosen`."""
    winter = ((units.due >= 0) & units.present).any(1)
    if chosen.device.type != "cpu":  # all rows: selecting some would synchronize, which a CUDA graph does not allow
        adjusted = _adjustments(log_probs, units, noise)
        return torch.where(winter.unsqueeze(1), adjusted, chosen)
    rows = winter.nonzero().squeeze(1)
    if not len(rows):
        return chosen
    some = Units(*(values[rows] for values in units))
    return chosen.index_copy(0, rows, _adjustments(log_probs[rows], some, None if noise is None else noise[rows]))


def _adjustments(log_probs: Tensor, units: Units, noise: Tensor | None) -> Tensor:
    """Return the likeliest legal set of adjustments [B, U], or one drawn with `noise` [B, U, K]."""
    due, exact = units.due[:, 0].clamp_min(0), units.exact[:, 0]
    if noise is None:
        gain, best = (log_probs[..., 1:] - log_probs[..., :1]).max(-1)
        rank = gain.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
        acts = units.present & (rank < due.unsqueeze(1)) & (units.exact | (gain > 0))
        return (best + 1) * acts
    sums, remaining, drawn = remaining_sums(log_probs, exact), due, []
    for number, perturbation in enumerate(noise.unbind(1)):
        marks = given_sums(log_probs[:, number], sums[:, number], sums[:, number + 1], remaining) + perturbation
        drawn.append(marks.argmax(-1) * units.present[:, number])
        remaining = remaining - (drawn[-1] > 0).long()
    return torch.stack(drawn, dim=1)


def observed_shape(*, all_phases: bool) -> tuple[int, int]:
    """Return provinces and columns of the observations of a policy."""
    return ALL_PHASES_SHAPE if all_phases else SHAPE


def order_network_shape(config: NetworkConfig) -> dict[str, Any]:
    """Return the `OrderNetwork.shape` of these options."""
    obs_dim = math.prod(observed_shape(all_phases=config.all_phases))
    return {"family": FAMILY, "obs_dim": obs_dim, "continuous": 0, "binary": 0} | shape_options(config)


def order_weight_sizes(
    hidden: int, rounds: int, *, in_turn: bool = False, all_phases: bool = False
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of every weight of an `OrderNetwork`, without building it."""
    provinces, columns = observed_shape(all_phases=all_phases)
    if all_phases:
        yield "adjust.weight", (ADJUSTMENTS, hidden)
        yield "adjust.bias", (ADJUSTMENTS,)
    for name, sizes in (("around", (hidden, hidden + 2 * EVENTS)), ("there", (EVENTS, hidden))) if in_turn else ():
        yield f"turns.{name}.weight", sizes
        yield f"turns.{name}.bias", sizes[:1]
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


def check_order_shape(shape: Mapping[str, Any]) -> None:
    """Raise `ContentError` for a stored shape with sizes that observations and orders do not have."""
    expected = order_network_shape(NetworkConfig(all_phases=shape.get("all_phases", False)))
    for name in ("obs_dim", "continuous", "binary"):
        require(shape[name] == expected[name], f"{name}={shape[name]}: this version has {expected[name]}")


def _weight_sizes(shape: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    options = {name: shape.get(name, False) for name in ("in_turn", "all_phases")}
    return order_weight_sizes(shape["hidden"], shape["blocks"], **options)


ORDERS = NetworkFamily(
    FAMILY,
    OrderNetwork.from_shape,
    lambda _, config: order_network_shape(config),
    _weight_sizes,
    ("in_turn", "all_phases"),
    check_order_shape,
)


def _total(log_probs: Tensor, chosen: Tensor, present: Tensor) -> Tensor:
    """Sum the log-probabilities of the chosen orders over the present units."""
    return (log_probs.gather(-1, chosen.unsqueeze(-1)).squeeze(-1) * present).sum(-1)


assert CHOICES == 1 + 3 * SIDES
