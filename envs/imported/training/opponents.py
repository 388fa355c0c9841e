"""Players of imported games, created from a name, a file or a Python object.

`open_seat_player` takes `random`, a checkpoint (path, run or released name), `stochastic:FILE`, whose actions are
sampled, `module:Name`, a registered name, or an object. A player acts on observation rows [B, D] of the deciding seats.
A row is `[features F][legal alternatives K, if masked][role, if there are several]`; K counts the alternatives of all
choices, and an action has A numbers. Memory [B, M] belongs to a seat of a match and is zero where an episode begins; M
is 0 for most players.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor

from sparring.agents.distributed.processes import ShardedGenerator, draw
from sparring.agents.opponents import players
from sparring.agents.opponents.onnx_actor import ActionForm, OnnxActor
from sparring.agents.opponents.onnx_file import OnnxForm, read_onnx
from sparring.agents.opponents.players import OpponentError
from sparring.agents.opponents.snapshots import Frozen, frozen_players
from sparring.agents.play.seat_matches import NetworkSeats as NetworkSeats
from sparring.agents.play.seat_matches import SeatPlayer
from sparring.agents.policies.actor_critic import alternatives
from sparring.agents.policies.checkpoint import check_values, load_checkpoint
from sparring.agents.policies.networks import PolicyNetwork
from sparring.agents.policies.policy import PolicyError
from sparring.configs.core.errors import InputError, UnknownNameError, suggestion
from sparring.configs.games import is_imported
from sparring.configs.opponents import is_code, named_source, registered, registered_name, source_name
from sparring.envs.game import load
from sparring.envs.spaces import to_scale

if TYPE_CHECKING:
    from sparring.envs.imported.batch import MatchBatch

RANDOM = "random"
"""Player that samples uniformly among the legal actions."""
STATE_PLAYERS, SAVED = "openspiel:", (".json", ".zip")
"""Prefix and suffixes of state players: OpenSpiel's own, responses saved by `sparring exploit`, and SB3 zips."""
STATE_SEATS = "sparring.envs.imported.evaluation.players.state_seats:open_state_seats"
SEAT_PLAYERS = f"{RANDOM}, a run or a checkpoint, {players.SAMPLED_PREFIX}FILE, or module:Name"
WANTED = "a model that eval/export.py wrote of a policy without memory: input float32 [1, D], output float32 [1, A]"
MOST_NUMBERS = {"obs_dim": 1_000_000, "continuous": 10_000}
"""Maximum sizes of an ONNX model: its arrays are allocated before it runs, and its file may be untrusted."""
COMPARED = (
    *("id", "version", "obs_dim", "continuous", "binary", "categorical"),
    *("masked", "roles", "picture", "kwargs"),
)
"""Entries of a contract that a policy shares with the matches it plays."""


def is_state_player(text: str) -> bool:
    """Return whether `text` names a player of OpenSpiel states."""
    return text not in registered() and (text.startswith(STATE_PLAYERS) or text.endswith(SAVED))


def legal_actions(obs: Tensor, contract: Mapping[str, Any]) -> Tensor | None:
    """Return which alternatives are legal in rows [B, D], bool [B, K]; None in a game without masks."""
    if not contract["masked"]:
        return None
    features, count = row_sizes(contract)
    return obs[:, features : features + count] > 0.5


def row_sizes(contract: Mapping[str, Any]) -> tuple[int, int]:
    """Return F and K, the number of features and of alternatives in a row of an observation."""
    count = sum(alternatives(contract["categorical"])) if contract["masked"] else 0
    return contract["obs_dim"] - count - (len(set(contract["roles"])) > 1), count  # several roles are the last column


class RandomSeats:
    """Uniform over the legal alternatives of every choice and both sides of every switch; numbers uniform in [-1, 1].

    Numbers outside the bounds of the game's own space are clipped by the batch. `noise` draws from the generator, or
    with several processes the part of its numbers for this one's rows.
    """

    name, memory_size = RANDOM, 0
    noise: torch.Generator | ShardedGenerator

    def __init__(self, contract: Mapping[str, Any], *, seed: int = 0) -> None:
        self._contract = dict(contract)
        self.generator = self.noise = torch.Generator()
        self.reseed(seed)

    def reseed(self, seed: int) -> None:
        """Restart the sequence of actions."""
        self.generator.manual_seed(seed)

    def act(self, obs: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions [B, A] for rows [B, D], and `memory` as it is."""
        count, contract = len(obs), self._contract
        parts = [
            self._draw(count, contract["continuous"]) * 2 - 1,
            (self._draw(count, contract["binary"]) < 0.5).float(),
        ]
        sizes, legal = alternatives(contract["categorical"]), legal_actions(obs.cpu(), contract)
        drawn = self._draw(count, sum(sizes)) + 1.0  # above 0, to keep an illegal alternative from being the largest
        drawn = drawn if legal is None else drawn * legal
        parts += [choice.argmax(-1, keepdim=True).float() for choice in drawn.split(sizes, dim=-1)] if sizes else []
        return torch.cat(parts, dim=-1).to(obs.device), memory

    def _draw(self, count: int, size: int) -> Tensor:
        return draw(torch.rand, torch.Size((count, size)), self.noise, self.generator.device)


class PythonSeats:
    """Python object that answers `act(obs, mask) -> actions` for a batch of rows in NumPy.

    `obs` are float32 [B, F], followed by a column with the role if there are several; `mask` is bool [B, K], or None in
    a game that forbids nothing. It returns [B, A] numbers, or [B] if A is 1. Raises `OpponentError` for anything else
    and for an illegal alternative.
    """

    memory_size = 0

    def __init__(self, source: Any, contract: Mapping[str, Any], *, name: str) -> None:
        self.name, self._contract = name, dict(contract)
        self._ask: Callable[..., Any] = players.act_function(source, name)
        self._sizes = alternatives(contract["categorical"])
        self._own = contract["continuous"] + contract["binary"]
        self._size = self._own + len(self._sizes)
        try:
            inspect.signature(self._ask).bind(None, None)
        except TypeError as error:
            raise OpponentError(f"opponent {name}: give act two parameters, act(obs, mask); {error}") from error
        except ValueError:  # a builtin without a signature
            pass

    def reseed(self, seed: int) -> None:
        """Call `reseed(seed)` of an object that has it."""
        players.reseed_source(self._ask, seed)

    def act(self, obs: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the object's actions [B, A] for rows [B, D], and `memory` as it is."""
        legal = legal_actions(obs, self._contract)
        features, count = row_sizes(self._contract)
        rows = torch.cat([obs[:, :features], obs[:, features + count :]], dim=1).cpu().numpy()
        returned = self._ask(rows, None if legal is None else legal.cpu().numpy())
        return self._checked(returned, legal, len(obs)).to(obs.device), memory

    def _checked(self, returned: Any, legal: Tensor | None, count: int) -> Tensor:
        size = self._size
        try:
            actions = torch.as_tensor(np.array(returned), dtype=torch.float32)
        except (TypeError, ValueError, RuntimeError) as error:
            raise self._wrong(f"a {type(returned).__name__}, not an array of numbers", count) from error
        actions = actions.unsqueeze(1) if actions.dim() == 1 and size == 1 else actions
        if actions.shape != (count, size):
            raise self._wrong(f"shape {tuple(actions.shape)}", count)
        if not actions.isfinite().all():
            raise self._wrong("a number that is not finite", count)
        start = 0
        for column, alternative_count in enumerate(self._sizes, start=self._own):
            self._check_choice(actions[:, column], legal, start, alternative_count)
            start += alternative_count
        return actions

    def _check_choice(self, chosen: Tensor, legal: Tensor | None, start: int, count: int) -> None:
        wrong = (chosen != chosen.round()) | (chosen < 0) | (chosen >= count)
        if legal is not None and not wrong.any():
            forbidden = ~legal.cpu()[torch.arange(len(chosen)), start + chosen.long()]
            if row := forbidden.nonzero().flatten().tolist():
                action = int(chosen[row[0]])
                allowed = legal[row[0], start : start + count].nonzero().flatten().tolist()
                raise OpponentError(
                    f"opponent {self.name}: chose {action} in row {row[0]}, which mask forbids; legal are {allowed}"
                )
        if wrong.any():
            value = float(chosen[wrong][0])
            raise OpponentError(f"opponent {self.name}: chose {value:g}; must be a whole number in [0, {count - 1}]")

    def _wrong(self, returned: str, count: int) -> OpponentError:
        call = f"opponent {self.name}: act(obs, mask) of {count} rows returned {returned}"
        return OpponentError(f"{call}; expected are {count} rows of {self._size} finite numbers")


class MatchSeats:
    """Python object that answers `choose(match, seat) -> action` of the game's own action space.

    It is called match by match with the match itself, and so needs matches in this process.
    """

    memory_size = 0

    def __init__(self, source: Any, *, name: str) -> None:
        self.name, self._source = name, players.made(source, name)

    def reseed(self, seed: int) -> None:
        """Call `reseed(seed)` of an object that has it."""
        players.reseed_source(self._source, seed)

    def act(self, obs: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Raise an error: observation rows do not contain the match."""
        raise OpponentError(
            f"opponent {self.name}: needs the match itself; set env.workers=0, or give it act(obs, mask)"
        )

    def choose_rows(self, batch: MatchBatch, rows: Tensor) -> Tensor:
        """Return actions [R, A] for `rows` [R] of the N * S seats of a batch in this process."""
        if not hasattr(batch, "match"):
            raise OpponentError(
                f"opponent {self.name}: needs the match itself, which is in a worker; set env.workers=0"
            )
        places = [divmod(row, batch.deciding.shape[1]) for row in rows.tolist()]
        actions = torch.zeros(len(places), batch.action_size)
        for row, (match, seat) in enumerate(places):
            chosen = torch.from_numpy(self.action(batch.match(match), seat))
            actions[row, : len(chosen)] = chosen
        return actions

    def action(self, match: Any, seat: int) -> np.ndarray:
        """Return the action of the object as a network's, float64 [A]."""
        action, space = self._source.choose(match, seat), match.action_spaces[seat]
        if not space.contains(action) and not (np.ndim(action) == 0 and space.contains(np.int64(action))):
            raise OpponentError(f"opponent {self.name}: choose(match, {seat}) returned {action!r}, none of {space}")
        numbers = np.asarray(action, dtype=np.float64)
        if not isinstance(space, Box):
            return np.ravel(numbers - getattr(space, "start", 0))
        with np.errstate(invalid="ignore", divide="ignore"):  # of bounds that are not scaled
            scaled = (numbers - space.low) / (space.high.astype(np.float64) - space.low) * 2.0 - 1.0
        return np.where(to_scale(space).reshape(numbers.shape), scaled, numbers).ravel()


def open_seat_player(
    x: Any,
    contract: Mapping[str, Any],
    device: str | torch.device = "cpu",
    *,
    deterministic: bool = True,
    seed: int = 0,
) -> SeatPlayer:
    """Return the player that `x` stands for in matches of `contract`; the module docstring lists the forms of `x`.

    A policy from a file is `deterministic` unless it is named with `stochastic:`. Raises `InputError` for an unknown
    name, a damaged file, a policy of another game or of other options, and an object that cannot act.
    """
    if isinstance(x, str) and x == RANDOM:
        return RandomSeats(contract, seed=seed)
    if isinstance(x, str) and is_state_player(x):
        seats: SeatPlayer = load(STATE_SEATS)(x, contract, seed, deterministic=deterministic)
        return seats
    if isinstance(x, str) and not is_code(x):
        sampled = x.startswith(players.SAMPLED_PREFIX)
        x, deterministic = _find_file(x.removeprefix(players.SAMPLED_PREFIX)), deterministic and not sampled
    if isinstance(x, Path):
        return load_seat_policy(x, contract, device, deterministic=deterministic, seed=seed)
    source = named_source(x) if isinstance(x, str) else x
    if not isinstance(source, type) and all(hasattr(source, part) for part in ("name", "memory_size", "act", "reseed")):
        player = cast(SeatPlayer, source)
        player.reseed(seed)  # a registered player is the same object in all runs of the process
        return player
    name = registered_name(source) or (x if isinstance(x, str) else source_name(x))
    if hasattr(source, "choose"):
        return MatchSeats(source, name=name)
    return PythonSeats(source, contract, name=name)


def load_seat_policy(
    path: Path,
    contract: Mapping[str, Any] | None = None,
    device: str | torch.device = "cpu",
    *,
    deterministic: bool = True,
    seed: int = 0,
) -> NetworkSeats:
    """Load the policy in the file `path` for matches of `contract`, or of its own contract if None.

    An ONNX model is deterministic. Raises `CheckpointError` or `OnnxError` for a file that cannot be used, and
    `PolicyError` for a policy of other matches.
    """
    name = players.display_name(path)
    if path.suffix == players.ONNX:
        file = read_onnx(path, OnnxForm(_stated, WANTED))
        check_contract(name, file.contract, file.contract if contract is None else contract)
        ends = np.full(file.contract["continuous"], 1.0, np.float32)
        form = ActionForm(-ends, ends, file.contract["binary"], "actions")
        actor = OnnxActor(file, form, device=device, threads=torch.get_num_threads())
        return NetworkSeats(cast(PolicyNetwork, actor), file.contract, name=name, path=path)
    checkpoint = load_checkpoint(path, device)
    check_contract(name, checkpoint.contract, checkpoint.contract if contract is None else contract)
    return NetworkSeats(
        checkpoint.network,
        checkpoint.contract,
        name=name,
        deterministic=deterministic,
        seed=seed,
        path=path,
        training=checkpoint.training,
    )


def _stated(obs_dim: int, stated: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the contract of a model that this project exported, None for another model."""
    if not is_imported(stated) or stated.get("obs_dim") != obs_dim or not {*COMPARED} <= {*stated}:
        return None
    check_values(stated)
    for key, most in MOST_NUMBERS.items():
        if stated[key] > most:
            raise InputError(f"{key}={stated[key]}: expected is at most {most}")
    return dict(stated)


def frozen_seats(folder: Path, device: str | torch.device, *, deterministic: bool = True) -> list[Frozen[NetworkSeats]]:
    """Return the policies of a run's folder by age; see `frozen_players`."""

    def build(network: PolicyNetwork, contract: Mapping[str, Any], name: str, path: Path) -> NetworkSeats:
        return NetworkSeats(network, contract, name=name, deterministic=deterministic, path=path)

    opened = partial(load_seat_policy, device=device, deterministic=deterministic)
    return frozen_players(folder, device, opened, build)


def check_contract(name: str, contract: Mapping[str, Any], needed: Mapping[str, Any]) -> None:
    """Raise `PolicyError`, with the difference, unless a policy of `contract` plays matches of `needed`."""
    if not is_imported(needed) or not is_imported(contract):
        wanted = needed.get("id") if is_imported(needed) else "a game of PettingZoo or OpenSpiel"
        raise PolicyError(f"{name}: plays {contract.get('id')}, not {wanted}; name another policy")
    for key in COMPARED:
        if _plain(contract.get(key)) != _plain(needed.get(key)):
            fix = f"name a policy of {needed['id']}" if key == "id" else "play with the options it was trained with"
            raise PolicyError(f"{name}: was trained with {key}={contract.get(key)}, not {needed.get(key)}; {fix}")


def _plain(value: Any) -> Any:
    """Return data as it is after a round trip to storage: lists for tuples."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _find_file(text: str) -> Path:
    try:
        return players.find_checkpoint(text)
    except UnknownNameError as error:
        if Path(text).suffix or "/" in text:
            raise
        near = suggestion(text, [RANDOM])
        raise UnknownNameError(f"unknown player {text!r}: write {SEAT_PLAYERS}{near}; {error}") from error
