"""The interface of a policy's network, and its families: networks built from their shape, stored ones checked before.

A family is found by the shape: `actor_critic.py`, its networks with masks, roles, pictures and memory
(`seat_network.py`), or the family that a game's record names. The sizes in a file only say what the weights should be:
`check_weights` compares them with the stored tensors. A few bytes therefore cannot allocate a huge network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn, NotRequired

import torch
from pydantic import Field, Strict
from torch import Tensor, nn
from typing_extensions import TypedDict

from sparring.agents.distributed.processes import ShardedGenerator
from sparring.agents.policies.memory import NONE, Sequences
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.tensor_file import Tensors, check_tensor
from sparring.configs.core.typed import Flag, Text, naming, read, require, within
from sparring.configs.schema import NetworkConfig
from sparring.configs.serialization import check_option
from sparring.curriculum.pool import Pool, PoolError
from sparring.envs.game import game_of, games, load

Size = Annotated[int, Strict(), Field(ge=0, le=10**9)]


class PolicyNetwork(nn.Module, ABC):
    """Policy pi(a | s) and value V(s), with an optional memory of M columns that is zeros where an episode begins.

    B stands for any batch, D for `obs_dim`, A for `action_size`. Observations are rows [B, D]; a network with memory
    takes `Sequences` in place of them, but for `step`.
    """

    obs_dim: int
    continuous: int
    binary: int
    categorical: tuple[int, ...]
    features: int
    """F: columns of a row that are features; a mask and a role may follow."""
    config: NetworkConfig
    actor: Any
    critic: Any
    """Modules without shared weights, trained side by side."""
    log_std: nn.Parameter
    """Log standard deviations of continuous actions; its device is the network's."""
    masked, roles, samples = False, 1, True
    """Whether rows have a mask of legal alternatives, the number of roles, and whether actions can be drawn."""
    routed = False
    """Whether actor and critic are `RoleTrunks`."""

    @property
    def action_size(self) -> int:
        """A: the length of one action."""
        return self.continuous + self.binary + len(self.categorical)

    @property
    def inputs(self) -> int:
        """Columns of the rows that it takes: D, and one for each style."""
        return self.obs_dim

    @property
    def memory_size(self) -> int:
        """M: columns of memory, 0 without."""
        return 0

    @property
    @abstractmethod
    def shape(self) -> dict[str, Any]:
        """Plain dict from which `build_network` makes a network that accepts this one's weights."""

    @abstractmethod
    def act(
        self,
        obs: Tensor,
        *,
        deterministic: bool = False,
        generator: torch.Generator | ShardedGenerator | None = None,
        noise: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return actions [B, A] and log-probabilities [B] for observations [B, D], without memory.

        `generator` is on the same device. `noise` is what `draw_noise` drew.
        """

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
        """Return what `act` does, and the memory [B, M] after it, from the memory [B, M] before.

        Without `critic` its half of the memory stays as it is, which is enough to play.
        """
        return *self.act(obs, deterministic=deterministic, generator=generator), memory

    def draw_noise(self, count: int, generator: torch.Generator | ShardedGenerator | None) -> Tensor:
        """Draw gSDE's noise for that many environments. Raises `TypeError` for a network without it."""
        self._lacks("noise that depends on the state")

    @abstractmethod
    def evaluate(self, obs: Tensor | Sequences, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return log pi(a | s) and the entropy of pi(. | s), float32 [B], of actions [B, A]."""

    @abstractmethod
    def value(self, obs: Tensor | Sequences) -> Tensor:
        """Return V(s), float32 [B]."""

    def values(self, sequences: Sequences, final_obs: Tensor, final_rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values of all decisions of sequences [C * B], and of observations after some of them [n].

        `final_obs` [n, D] are those at which an episode was truncated, `final_rows` int64 [n] the decisions before,
        rows of the flattened [C * B]; the memory continues from there. Raises `TypeError` for a network without memory.
        """
        self._lacks("memory")

    def plausible(self, obs: Tensor) -> Tensor:
        """Return rows of any numbers [B, D] as observations that a game may show."""
        return obs

    def reset_log_std(self, log_std: float) -> None:
        """Set every log standard deviation, if there are any, to restart exploration."""

    def clamp_log_std(self) -> None:
        """Project the log standard deviations, if there are any, back into their bounds."""

    def _lacks(self, ability: str) -> NoReturn:
        raise TypeError(f"{type(self).__name__} has no {ability}")


@dataclass(frozen=True)
class NetworkFamily:
    """Networks of one class, found by the `name` in their shape."""

    name: str
    network: Callable[..., PolicyNetwork]
    """The network of a checked shape, with initial weights drawn from `seed`."""
    shape: Callable[[Mapping[str, Any], NetworkConfig], dict[str, Any]]
    """The shape for a contract; raises `ConfigError` for options that do not suit the game."""
    sizes: Callable[[Mapping[str, Any]], Iterator[tuple[str, tuple[int, ...]]]]
    """Name and shape of every weight of a network of a shape, in closed form."""
    keys: tuple[str, ...] = ()
    """Those of `SOME_HAVE` that its shapes may have."""
    check: Callable[[Mapping[str, Any]], None] = lambda _: None
    """Raises `ContentError` for a stored shape whose sizes do not fit together."""


PLAIN, SEATS = "sparring.agents.policies.actor_critic:PLAIN", "sparring.agents.policies.seat_network:SEATS"
SOME_HAVE = ("categorical", "in_turn", "all_phases", "masked", "roles", "picture", "encoder", "memory", "styles")
"""Keys of shapes that only networks of some families have."""


def family_of(shape: Mapping[str, Any]) -> NetworkFamily:
    """Return the family of a shape; raises `ContentError` for the name of none."""
    if "family" not in shape:
        plain: NetworkFamily = load(SEATS if "masked" in shape else PLAIN)
        return plain
    families: dict[str, NetworkFamily] = {f.name: f for f in (load(g.network) for g in games() if g.network)}
    name = shape["family"]
    require(name in families, f"family={name!r}: must be {' or '.join(map(repr, families))}")
    return families[name]


class StoredShape(TypedDict):
    """Sizes in a stored shape, beside the options of `NetworkConfig`."""

    obs_dim: Size
    continuous: Size
    binary: Size
    categorical: NotRequired[Size | list[Size]]
    family: NotRequired[Text]
    masked: NotRequired[Flag]
    roles: NotRequired[Size]
    picture: NotRequired[list[Size]]


def shape_for(contract: Mapping[str, Any], config: NetworkConfig) -> dict[str, Any]:
    """Return the network shape for `contract`: of the game's own family, of seats, or of plain networks.

    A contract with the key `masked` is one of seats, whose networks may have a memory. Raises `ConfigError` for gSDE
    without continuous actions, and for other options that do not suit the game.
    """
    if config.all_phases and not contract.get("all_phases"):
        raise ConfigError(f"network.all_phases=true: is for Diplomacy, not {contract['id']}; leave it out")
    seats = "masked" in contract or config.memory != NONE
    game = game_of(contract["id"])
    if config.styles and (seats or game is None or game.network):
        raise ConfigError(f"network.styles={config.styles}: is for the dogfight and air combat, without memory; use 0")
    if config.gsde and not seats and not contract["continuous"]:
        raise ConfigError(f"network.gsde=true: {contract['id']} has no continuous actions; leave it out")
    path = game.network if game else ""
    family: NetworkFamily = load(SEATS if seats else path or PLAIN)
    return family.shape(contract, config)


def build_network(shape: Mapping[str, Any], *, seed: int = 0) -> PolicyNetwork:
    """Build the network that `shape` describes, with initial weights drawn from `seed`.

    A stored shape has passed `check_shape`, and its weights `check_weights`.
    """
    return family_of(shape).network(dict(shape), seed=seed)


def check_shape(shape: Mapping[str, Any]) -> None:
    """Raise `ContentError` for a stored shape with keys, types or values that no network has."""
    options = NetworkConfig.__dataclass_fields__
    read(StoredShape, shape)
    for name in shape:
        require(name in options or name in StoredShape.__annotations__, f"{name}: is unknown to this version")
    for name in options:
        if name in shape:
            check_option(NetworkConfig, name, shape[name])
        present = name in shape or name in ("activation", *LATER)  # early ones had one activation
        require(present, f"{name} is missing")
    low, high = shape["log_std_min"], shape["log_std_max"]
    require(low <= high, f"log_std_min={low}: must be at most log_std_max={high}")
    family = family_of(shape)
    family.check(shape)
    for name in SOME_HAVE:
        require(name not in shape or name in family.keys, f"{name}: not a key of this network family")


LATER = {"gsde": False, "encoder": "auto", "memory": "none", "in_turn": False, "all_phases": False, "styles": 0}
"""Options that earlier shapes lack, with the values that mean the same."""


def check_weights(shape: Mapping[str, Any], weights: Any) -> None:
    """Raise `ContentError` unless the weights exactly match a checked `shape` and are float32 and finite.

    Stops at the first weight that is not stored, so huge sizes in a file cost nothing.
    """
    stored, count = read(Tensors, weights), 0
    for name, size in family_of(shape).sizes(shape):
        require(name in stored, f"{name} is missing, which a network of this shape has")
        # Its storage has been checked, so that one of the same shape cannot be larger than the file.
        require(tuple(stored[name].shape) == size, f"{name}: has shape {tuple(stored[name].shape)}; must be {size}")
        check_tensor(stored[name], torch.empty(size, dtype=torch.float32, device="meta"), name)
        count += 1
    require(count == len(stored), f"holds {len(stored)} tensors; a network of this shape has {count}")


def load_snapshot(pool: Pool, name: str, device: str | torch.device) -> dict[str, Tensor]:
    """Return the weights of a snapshot in `pool`, checked against its shape; raises `PoolError`."""
    weights, path = pool.load(name, device), pool.path(name)
    with naming(path, PoolError, "restore it or remove the pool"), within("weights"):
        check_weights(pool.shape, weights)
    return weights
