"""Actor and critic of a seat in a game of another package: legal actions, roles, a picture, and memory.

A row of an observation has D columns, first the F features. A masked game adds one column for each of the K
alternatives of all choices, 1.0 where it is legal. With R > 1 roles, the last column is the seat's role. The networks
see only the features. Every role has its own actor and critic of the same shape.

The logits of illegal alternatives are -inf before the softmax, so their probability is exactly 0 and densities are over
the legal ones (Huang and Ontanon 2022, arXiv:2006.14171). Every choice has a legal alternative.

Memory, M columns, is the state of the actor's cell, then of the critic's. `step` carries it from decision to decision.
The other methods take `Sequences`; without memory, plain rows [B, D] too. n is the number of rows that count, B for
plain rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sparring.agents.distributed.processes import ShardedGenerator
from sparring.agents.policies.actor_critic import (
    ActorCritic,
    Density,
    alternatives,
    choice_log_probability,
    choose,
    log_probability,
    network_shape,
    sample,
)
from sparring.agents.policies.encoders import AUTO, BY_SIZE, FLAT, NATURE, NATURE_SIDE, Picture, chosen_encoder
from sparring.agents.policies.memory import NONE, Sequences, state_size
from sparring.agents.policies.networks import NetworkFamily
from sparring.agents.policies.role_trunks import RoleTrunks, Trunk, trunk_weight_sizes
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.typed import require
from sparring.configs.schema import NetworkConfig


class SeatColumns(NamedTuple):
    """Rows of observations, taken apart."""

    features: Tensor
    """[..., F]"""
    illegal: Tensor | None
    """bool [..., K], of a masked game."""
    role: Tensor | None
    """[...], of a game with several roles."""

    def rows(self, index: Tensor) -> SeatColumns:
        """Return the rows of `index` [n] into [B, ...]."""
        return self._changed(lambda column: column.index_select(0, index))

    def flat(self) -> SeatColumns:
        """Return [C, B, ...] as [C * B, ...]."""
        return self._changed(lambda column: column.flatten(0, 1))

    def _changed(self, change: Callable[[Tensor], Tensor]) -> SeatColumns:
        _, illegal, role = (None if column is None else change(column) for column in self)
        return SeatColumns(change(self.features), illegal, role)


class SeatNetwork(ActorCritic):
    """Policy and value of the seats of a game; `ActorCritic` with masks, roles, a picture and memory."""

    routed = True

    actor: RoleTrunks  # type: ignore[assignment]
    critic: RoleTrunks  # type: ignore[assignment]

    def __init__(
        self,
        obs_dim: int,
        continuous: int,
        binary: int,
        config: NetworkConfig,
        *,
        categorical: int | Sequence[int] = 0,
        masked: bool = False,
        roles: int = 1,
        picture: Sequence[int] = (),
        seed: int = 0,
    ) -> None:
        nn.Module.__init__(self)
        self.obs_dim, self.continuous, self.binary = obs_dim, continuous, binary
        self.categorical, self.masked, self.roles = alternatives(categorical), masked, roles
        self.picture = Picture(*picture) if picture else None
        if self.picture:
            config = replace(config, encoder=chosen_encoder(config.encoder, self.picture))
        self.config = config
        self.features = feature_count(obs_dim, self.categorical, masked=masked, roles=roles)
        generator = torch.Generator().manual_seed(seed)
        self.actor = self._trunks(self.action_outputs, 0.01, generator)  # the gain's reason is in ActorCritic
        self.critic = self._trunks(1, 1.0, generator)
        shape = (continuous,) if roles == 1 else (roles, continuous)
        self.log_std = nn.Parameter(torch.full(shape, config.log_std_init))
        self.clamp_log_std()

    @property
    def action_outputs(self) -> int:
        """Columns of the actor's output."""
        return self.continuous + self.binary + sum(self.categorical)

    @property
    def memory_size(self) -> int:
        """See `PolicyNetwork`."""
        return 2 * state_size(self.config.memory, self.config.hidden)

    @property
    def shape(self) -> dict[str, Any]:
        """See `PolicyNetwork`."""
        sizes = (self.obs_dim, self.continuous, self.binary)
        picture = list(self.picture or ())
        return network_shape(*sizes, self.config, categorical=self.categorical) | seat_keys(
            self.masked, self.roles, picture
        )

    @torch.no_grad()
    def step(
        self,
        obs: Tensor,
        memory: Tensor,
        *,
        deterministic: bool = False,
        generator: torch.Generator | ShardedGenerator | None = None,
        critic: bool = True,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `PolicyNetwork`."""
        columns = self._columns(obs)
        if self.memory_size == 0:
            output = self.actor(columns.features, columns.role)
        else:
            actor_memory, critic_memory = memory.chunk(2, dim=-1)
            after = self.actor.step(columns.features, columns.role, actor_memory)
            output = self.actor.heads(after[:, : self.config.hidden], columns.role)
            critic_memory = self.critic.step(columns.features, columns.role, critic_memory) if critic else critic_memory
            memory = torch.cat([after, critic_memory], dim=-1)
        actions, log_prob = self._draw(output, columns, deterministic=deterministic, generator=generator)
        return actions, log_prob, memory

    @torch.no_grad()
    def act(
        self,
        obs: Tensor,
        *,
        deterministic: bool = False,
        generator: torch.Generator | ShardedGenerator | None = None,
        noise: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """See `PolicyNetwork`; gSDE is not available here."""
        self._refuse_memory()
        memory = obs.new_empty(len(obs), 0)
        return self.step(obs, memory, deterministic=deterministic, generator=generator)[:2]

    def value(self, obs: Tensor | Sequences) -> Tensor:
        """See `PolicyNetwork`."""
        return self._value(*self._read(self.critic, obs))

    def values(self, sequences: Sequences, final_obs: Tensor, final_rows: Tensor) -> tuple[Tensor, Tensor]:
        """See `PolicyNetwork`."""
        columns, final = self._columns(sequences.obs), self._columns(final_obs)
        if self.memory_size == 0:
            return self._value(None, columns.flat()), self._value(None, final)
        states = self._states(self.critic, columns, sequences).flatten(0, 1)
        after = self.critic.step(final.features, final.role, states.index_select(0, final_rows))
        return self._value(states, columns.flat()), self._value(after, final)

    def evaluate(self, obs: Tensor | Sequences, actions: Tensor) -> tuple[Tensor, Tensor]:
        """See `PolicyNetwork`."""
        state, columns = self._read(self.actor, obs)
        output = self._output(self.actor, state, columns)
        count = self.continuous + self.binary
        log_prob = spread = output.new_zeros(())
        if count:
            log_prob, spread = Density.apply(output[:, :count], self._log_std(columns), actions[:, :count])  # type: ignore[no-untyped-call]
        for number, (logits, illegal) in enumerate(self._choices(output, columns)):
            chosen = actions[:, count + number : count + number + 1]
            parts = ChoiceDensity.apply(logits, illegal, chosen)  # type: ignore[no-untyped-call]
            log_prob, spread = log_prob + parts[0], spread + parts[1]
        return log_prob, spread

    def plausible(self, obs: Tensor) -> Tensor:
        """Return the rows with all actions legal, and every role in turn."""
        obs[:, self.features :] = 1.0
        if self.roles > 1:
            obs[:, -1] = torch.arange(len(obs), device=obs.device) % self.roles
        return obs

    def log_probabilities(self, obs: Tensor | Sequences) -> list[Tensor]:
        """Return log pi(k | s) of every choice, float32 [n, K_i] with 0 for illegal k."""
        state, columns = self._read(self.actor, obs)
        output = self._output(self.actor, state, columns)
        logs = []
        for logits, illegal in self._choices(output, columns):
            log_p = _masked(logits, illegal).log_softmax(-1)
            logs.append(log_p if illegal is None else log_p.masked_fill(illegal, 0.0))
        return logs

    def _trunks(self, outputs: int, head_gain: float, generator: torch.Generator) -> RoleTrunks:
        trunk = lambda: Trunk(  # noqa: E731
            self.features, outputs, self.config, self.picture, head_gain=head_gain, generator=generator
        )
        return RoleTrunks(trunk() for _ in range(self.roles))

    def _columns(self, obs: Tensor) -> SeatColumns:
        illegal = obs.narrow(-1, self.features, sum(self.categorical)) < 0.5 if self.masked else None
        return SeatColumns(obs.narrow(-1, 0, self.features), illegal, obs[..., -1] if self.roles > 1 else None)

    def _read(self, half: RoleTrunks, obs: Tensor | Sequences) -> tuple[Tensor | None, SeatColumns]:
        """Return the states [n, S] of actor or critic after the rows that count, None without memory, and the rows."""
        if isinstance(obs, Tensor):
            self._refuse_memory()
            return None, self._columns(obs)
        if self.memory_size == 0:
            return None, self._columns(obs.counted())
        columns = self._columns(obs.obs)
        return self._states(half, columns, obs).flatten(0, 1).index_select(0, obs.rows), columns.flat().rows(obs.rows)

    def _states(self, half: RoleTrunks, columns: SeatColumns, sequences: Sequences) -> Tensor:
        memory = sequences.memory.chunk(2, dim=-1)[0 if half is self.actor else 1]
        return half.along(columns.features, columns.role, memory, sequences.fresh)

    def _output(self, half: RoleTrunks, state: Tensor | None, columns: SeatColumns) -> Tensor:
        if state is None:
            output = half(columns.features, columns.role)
        else:
            output = half.heads(state[:, : self.config.hidden], columns.role)
        return output.to(self.log_std.dtype)

    def _value(self, state: Tensor | None, columns: SeatColumns) -> Tensor:
        return self._output(self.critic, state, columns).squeeze(-1)

    def _log_std(self, columns: SeatColumns) -> Tensor:
        return self.log_std if columns.role is None else self.log_std[columns.role.long()]

    def _choices(self, output: Tensor, columns: SeatColumns) -> list[tuple[Tensor, Tensor | None]]:
        """Return the logits [n, K_i] of every choice and a mask of the illegal ones."""
        if not self.categorical:
            return []
        count = self.continuous + self.binary
        logits = output[:, count:] if count else output
        if len(self.categorical) == 1:
            return [(logits, columns.illegal)]
        sizes = list(self.categorical)
        masks = [None] * len(sizes) if columns.illegal is None else columns.illegal.split(sizes, dim=-1)
        return list(zip(logits.split(sizes, dim=-1), masks, strict=True))

    def _draw(
        self,
        output: Tensor,
        columns: SeatColumns,
        *,
        deterministic: bool,
        generator: torch.Generator | ShardedGenerator | None,
    ) -> tuple[Tensor, Tensor]:
        output = output.to(self.log_std.dtype)
        parts, log_prob = [], []
        if count := self.continuous + self.binary:
            rest, log_std = output[:, :count], self._log_std(columns)
            parts.append(sample(rest, log_std, deterministic=deterministic, generator=generator))
            log_prob.append(log_probability(rest, log_std, parts[0]))
        for logits, illegal in self._choices(output, columns):
            choice = _masked(logits, illegal).log_softmax(-1)
            parts.append(choose(choice, deterministic=deterministic, generator=generator))
            log_prob.append(choice_log_probability(choice, parts[-1]))
        actions = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        return actions, sum(log_prob[1:], start=log_prob[0])

    def _refuse_memory(self) -> None:
        if self.memory_size:
            raise ValueError(f"this network has a memory, {self.config.memory}; pass Sequences, or call step")


class ChoiceDensity(torch.autograd.Function):
    """`ChoiceDensity.apply(logits, illegal, chosen)`: log p_a and the entropy H, [n] each.

    With the softmax p of the legal logits l [n, K], in closed form:

        d log p_a / d l = 1_a - p,     d H / d l = -p (log p + H)

    A row is small, so learning is bound by the number of operations; this has half as many as autograd.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, illegal: Tensor | None, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Compute both; `illegal` is bool [n, K] or None, `chosen` [n, 1] an index as a float."""
        log_p = _masked(logits, illegal).log_softmax(-1)
        p, index = log_p.exp(), chosen.long()
        log_prob = log_p.gather(-1, index).squeeze(-1)
        # p log p is 0 where p is 0; -inf there would give NaN, also in the gradient.
        finite = log_p if illegal is None else log_p.masked_fill(illegal, 0.0)
        entropy = -(p * finite).sum(-1, keepdim=True)
        ctx.save_for_backward(p, index, finite + entropy)
        return log_prob, entropy.squeeze(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_log_prob: Tensor, by_entropy: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient of the logits, 0 of illegal ones."""
        p, index, slope = ctx.saved_tensors
        by_log_prob = by_log_prob.unsqueeze(-1)
        by_p = torch.addcmul(by_log_prob, slope, by_entropy.unsqueeze(-1)).neg_()
        return by_p.mul_(p).scatter_add_(-1, index, by_log_prob), None, None


def _masked(logits: Tensor, illegal: Tensor | None) -> Tensor:
    return logits if illegal is None else logits.masked_fill(illegal, -math.inf)


def seat_shape(contract: Mapping[str, Any], config: NetworkConfig) -> dict[str, Any]:
    """Return the `SeatNetwork.shape` for a contract, which may have `masked`, `roles` (of each seat), `picture`.

    Raises `ConfigError` for options of the network that do not suit the game.
    """
    obs_dim, continuous, binary = (contract[key] for key in ("obs_dim", "continuous", "binary"))
    picture = list(contract.get("picture", ()))
    _check_options(contract["id"], config, picture)
    encoder = chosen_encoder(config.encoder, Picture(*picture)) if picture else AUTO
    if encoder == FLAT:
        picture, encoder, contract = [], AUTO, {**contract, "picture": ()}
    config = replace(config, encoder=encoder)
    sizes = network_shape(obs_dim, continuous, binary, config, categorical=contract.get("categorical", 0))
    return sizes | contract_keys(contract)


def contract_keys(contract: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `SEAT_KEYS` of the shape for a contract."""
    roles = max(contract.get("roles", ()), default=0) + 1
    return seat_keys(contract.get("masked", False), roles, contract.get("picture", ()))


def seat_keys(masked: bool, roles: int, picture: Sequence[int]) -> dict[str, Any]:
    """Return a shape's `SEAT_KEYS`."""
    several = {"roles": roles} if roles > 1 else {}
    return {"masked": masked} | several | ({"picture": list(picture)} if picture else {})


def feature_count(obs_dim: int, categorical: Sequence[int], *, masked: bool, roles: int) -> int:
    """Return F, the columns of a row that are features."""
    return obs_dim - sum(categorical) * masked - (roles > 1)


def seat_weight_sizes(shape: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of every weight of a `SeatNetwork` of that `shape`, without building it."""
    roles, choices = shape.get("roles", 1), alternatives(shape.get("categorical", 0))
    features = feature_count(shape["obs_dim"], choices, masked=shape["masked"], roles=roles)
    picture = Picture(*shape["picture"]) if "picture" in shape else None
    options = {"picture": picture, "encoder": shape.get("encoder", AUTO), "memory": shape.get("memory", NONE)}
    yield "log_std", (*([roles] if roles > 1 else []), shape["continuous"])
    for half, last in (("actor", shape["continuous"] + shape["binary"] + sum(choices)), ("critic", 1)):
        for role in range(roles):
            sizes = trunk_weight_sizes(features, last, shape["hidden"], shape["blocks"], **options)
            yield from ((f"{half}.{role}.{name}", size) for name, size in sizes)


def check_seats(shape: Mapping[str, Any]) -> None:
    """Raise `ContentError` for sizes of a `SeatNetwork` that do not fit together."""
    choices, roles, picture = alternatives(shape.get("categorical", 0)), shape.get("roles", 1), shape.get("picture")
    require("roles" not in shape or roles > 1, f"roles={roles}: must be at least 2, or missing for one role")
    require(bool(choices) or not shape["masked"], "masked=True: there is no choice whose alternatives could be masked")
    require(not shape.get("gsde"), "gsde: not available in this network family")
    features = feature_count(shape["obs_dim"], choices, masked=shape["masked"], roles=roles)
    require(features > 0, f"obs_dim={shape['obs_dim']}: leaves {features} features; must be at least 1")
    require(("encoder" in shape) == ("picture" in shape), "encoder and picture: must both be set, or neither")
    if picture is None:
        return
    fits = len(picture) == 5 and picture[4] in (0, 1) and min(picture[1:4]) > 0 and Picture(*picture).stop <= features
    require(fits, f"picture={picture}: must be the start, height, width, channels and order of some of the features")
    encoder, side = shape["encoder"], min(picture[1:3])
    require(encoder not in (BY_SIZE, AUTO, FLAT), f"encoder={encoder}: must be the selected encoder")
    require(encoder != NATURE or side >= NATURE_SIDE, f"picture={picture}: is too small for encoder={NATURE}")


SEATS = NetworkFamily(
    "seats",
    SeatNetwork.from_shape,
    seat_shape,
    seat_weight_sizes,
    ("categorical", "masked", "roles", "picture", "encoder", "memory"),
    check_seats,
)


def _check_options(env_id: str, config: NetworkConfig, picture: Sequence[int]) -> None:
    if config.gsde:
        networks = f"a network with memory ({config.memory})" if config.memory != NONE else f"the networks of {env_id}"
        raise ConfigError(f"network.gsde=true: is not available for {networks}; leave it out")
    if config.encoder in (BY_SIZE, AUTO):
        return
    if not picture:
        raise ConfigError(f"network.encoder={config.encoder}: {env_id} does not provide a picture; leave it out")
    _, height, width, *_ = picture
    if config.encoder == NATURE and min(height, width) < NATURE_SIDE:
        raise ConfigError(
            f"network.encoder={NATURE}: requires pictures of at least {NATURE_SIDE} x {NATURE_SIDE}, {env_id} has "
            f"{height} x {width}; choose small or impala"
        )
