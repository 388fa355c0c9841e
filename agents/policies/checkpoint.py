"""Policy checkpoints: files that are written atomically, verified when read, and contain no code.

A file holds everything needed to play: weights, network shape, the contract with the environment (observation and
action sizes, rules, version) and a training summary. `torch.load(weights_only=True)` reads it. `manifest.json` in the
same folder records sizes and SHA-256 hashes; a listed file must match its entry. Every file is also checked by its
internal CRCs, because neither torch nor a disk detects a flipped bit in a weight.

Policies of an environment version that is no longer registered are refused unless explicitly admitted. A classic policy
of `sparring/Dogfight-v0` observes the same 46 or 59 floats as one of v1, so `admitted` gives it the current contract.
Under challenge rules, v0 had other values in the first frames of a match and in [15], [18], [53] and [54] of a frame. A
policy trained on them is always refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, get_type_hints

import torch
from typing_extensions import TypedDict

from sparring.agents.policies.actor_critic import SEAT_KEYS
from sparring.agents.policies.networks import PolicyNetwork, build_network, check_shape, check_weights
from sparring.agents.policies.seat_network import contract_keys
from sparring.configs import games as versions
from sparring.configs.core.archive import TensorFileError
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import user_path
from sparring.configs.core.manifest import ManifestError, TrainingStateError, read_listed, write_listed
from sparring.configs.core.tensor_file import Tensors, check_finite, pack, unpack
from sparring.configs.core.typed import (
    Count,
    Flag,
    Number,
    Plain,
    Positive,
    Text,
    naming,
    read,
    within,
)
from sparring.configs.kinds import run_kind
from sparring.configs.serialization import check_option
from sparring.envs.game import Game, check_plays, game_of, games

CONTRACT_KEYS = ("id", "version", "obs_dim", "continuous", "binary")
"""Keys of every contract; `Game.contract_keys` lists a game's own."""


class StoredPolicy(TypedDict):
    """Content of a file."""

    shape: Plain
    contract: Plain
    training: Plain
    weights: Tensors


class StoredContract(TypedDict):
    """Keys of every contract; a game's own keys are options of its environment."""

    id: Text
    version: Positive
    obs_dim: Count
    continuous: Count
    binary: Count
    categorical: NotRequired[Count | list[Count]]
    mirror: NotRequired[Flag]
    masked: NotRequired[Flag]
    roles: NotRequired[list[Count]]
    picture: NotRequired[list[Count]]
    kwargs: NotRequired[dict[str, str | Number | Flag | None]]


class StoredTraining(TypedDict, total=False):
    """Keys of a training summary that are read; each trainer writes some."""

    run: Text
    seed: Count
    update: Count
    env_steps: Count
    phase: Text
    randomization: Text
    interrupted: Flag
    config: dict[str, Any]
    win_rates: dict[str, Number]
    elo: Number
    recent_return: Number | None


class CheckpointError(InputError):
    """Checkpoint that cannot be used; the message is one line with the file and the problem."""


@dataclass(frozen=True)
class Checkpoint:
    """Loaded policy: the network in evaluation mode, its contract with the environment, a training summary."""

    network: PolicyNetwork
    contract: dict[str, Any]
    training: dict[str, Any]
    path: Path


def save_checkpoint(
    path: Path, network: PolicyNetwork, *, contract: Mapping[str, Any], training: Mapping[str, Any]
) -> None:
    """Write `network`, contract and training summary to `path`, and its SHA-256 to the folder's manifest.

    `training` is any plain data; equal arguments give equal bytes. A crash leaves the old file or the new one. Raises
    `CheckpointError` for what `load_checkpoint` would refuse, such as a weight that is not finite, and if the manifest
    is damaged; then nothing is written.
    """
    _check_contract(path, contract, network.shape)
    with naming(path, CheckpointError, "it is not saved"):
        check_finite({"contract": contract, "training": training, "weights": network.state_dict()})
    header = {"format": versions.POLICY_FORMAT, "format_version": versions.POLICY_FORMAT_VERSION}
    belongings = {"shape": network.shape, "contract": contract, "training": training}
    try:
        write_listed(path, pack(header | belongings | {"weights": network.state_dict()}))
    except ManifestError as error:
        raise CheckpointError(str(error)) from error


def load_checkpoint(path: str | Path, device: str | torch.device = "cpu") -> Checkpoint:
    """Read, verify and rebuild the policy in the file `path` on `device`.

    A policy of an old version of its environment is read as well; `admitted` decides if it can play. Raises
    `CheckpointError` if the file is missing, damaged, not a checkpoint of this project, or of a newer format. So does a
    mismatch of weights, shape and contract. Raises `ConfigError` for an invalid path.
    """
    path = user_path("path", path)
    check_plays(path)
    content = _read(path, device)
    version = content.get("format_version")
    if content.get("format") != versions.POLICY_FORMAT or type(version) is not int or version < 1:
        raise CheckpointError(f"{path}: {_other_content(content)}")
    if version > versions.POLICY_FORMAT_VERSION:
        raise CheckpointError(
            f"{path}: has format {version}, this Sparring reads up to {versions.POLICY_FORMAT_VERSION}; update it"
        )
    with naming(path, CheckpointError, "save it again or train a new policy"):
        stored = read(StoredPolicy, content)
        if version == 1:
            stored["contract"]["mirror"] = False
        with within("shape"):
            check_shape(stored["shape"])
        check_values(stored["contract"])
        read(StoredTraining, stored["training"], "training")
        _check_contract(path, stored["contract"], stored["shape"])
        with within("weights"):
            check_weights(stored["shape"], stored["weights"])
    network = build_network(stored["shape"])
    network.load_state_dict(stored["weights"])
    return Checkpoint(network.to(device).eval(), stored["contract"], stored["training"], path)


def _read(path: Path, device: str | torch.device) -> dict[str, Any]:
    try:
        data = read_listed(path, follow=True)
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: no such checkpoint") from error
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror})") from error
    except (ManifestError, TrainingStateError) as error:
        raise CheckpointError(str(error)) from error
    try:
        return unpack(data, device)
    except TensorFileError as error:
        raise CheckpointError(f"{path}: {error}") from error


def _other_content(content: Mapping[str, Any]) -> str:
    """Describe a tensor file without a policy, and what to do with it."""
    if content.get("format") == versions.ADAPTER:
        arenas = " or ".join(game.name for game in games() if game.language_models)
        return f"is an adapter of a language model, not a policy's network; evaluate it with eval/run.py --env {arenas}"
    if "logger" in content and "weights" not in content:
        return "is a training state, not a policy; pass the run's name or final.pt, or use train.py resume=RUN"
    if content.keys() == {"shape", "weights"}:
        return "is a snapshot of a run's pool, which only that run can use; pass the run's name or final.pt"
    return "is not a Sparring checkpoint"


def check_values(contract: Mapping[str, Any]) -> None:
    """Raise `ContentError` for a value that no environment of the contract's game has; the file may be a stranger's."""
    stored = read(StoredContract, contract, "contract")
    env = get_type_hints(run_kind({"trainer": "ppo", "env": {"id": versions.current_id(stored["id"])}}))["env"]
    for name in (contract.keys() & env.__dataclass_fields__.keys()) - {"id", "kwargs", "roles"}:
        with within("contract"):
            check_option(env, name, contract[name])


def _check_contract(path: Path, contract: Mapping[str, Any], shape: Mapping[str, Any]) -> None:
    game = game_of_policy(contract)
    missing = [key for key in (*CONTRACT_KEYS, *(game.contract_keys if game else ())) if key not in contract]
    if missing:
        raise CheckpointError(f"{path}: its contract lacks {', '.join(missing)}")
    if not isinstance(contract.get("mirror", False), bool):
        raise CheckpointError(f"{path}: mirror is {contract['mirror']} in the contract, not true or false")
    for key in ("obs_dim", "continuous", "binary", "categorical"):
        if contract.get(key, 0) != shape.get(key, 0):
            stored, network = contract.get(key), shape.get(key)
            raise CheckpointError(f"{path}: {key} is {stored} in the contract, {network} in the network")
    seats = contract_keys(contract) if "masked" in contract or "masked" in shape else {}
    for key in SEAT_KEYS:
        if key == "picture" and key not in shape:
            continue  # network.encoder=none treats it as numbers
        if seats.get(key) != shape.get(key):
            raise CheckpointError(f"{path}: {key} is {seats.get(key)} in the contract, {shape.get(key)} in the network")


SAME_OBSERVATIONS = ("classic",)
"""Rules under which both versions give a policy the same observations."""


class OldVersionError(InputError):
    """Policy of an environment version that is no longer registered; the message is one line with the remedy."""


def game_of_policy(contract: Mapping[str, Any]) -> Game | None:
    """Return the game of a policy's contract, in any version; None for an unknown game."""
    return game_of(versions.current_id(str(contract.get("id"))))


def is_old(contract: Mapping[str, Any]) -> bool:
    """Return whether a policy's contract is with an environment version that is no longer registered."""
    return versions.is_retired(str(contract.get("id")))


def old_version_message(path: Path | str, contract: Mapping[str, Any] | None = None) -> str:
    """Return why the policy in `path` is refused and the remedy; `contract` decides whether it can play at all."""
    old = versions.RETIRED[versions.DOGFIGHT_V0]
    line = f"{path}: was trained under {versions.DOGFIGHT_V0}, whose {old.reason}"
    if contract is not None and not _can_play(contract):
        return f"{line}: it learned from other numbers than {old.successor} shows and cannot play; train a new policy"
    return f"{line}; train a new policy under {old.successor}, or let this one play with {versions.LET_IT_PLAY}"


def admitted(contract: Mapping[str, Any], path: Path | str) -> dict[str, Any]:
    """Return the contract under which the policy in `path` plays now: its own, with an old id and version replaced.

    Raises `OldVersionError` for an old policy whose observations differ from the current environment's.
    """
    if not is_old(contract):
        return dict(contract)
    if not _can_play(contract):
        raise OldVersionError(old_version_message(path, contract))
    game = game_of_policy(contract)
    assert game is not None
    return {**contract, "id": game.id, "version": game.version}


def in_todays_version(contract: Mapping[str, Any], label: str) -> tuple[dict[str, Any], str]:
    """Return a contract in the game's version of today, if that has the policies of its own, and a line about it."""
    game = game_of_policy(contract)
    version: Any = contract.get("version")
    if game is None or is_old(contract) or version not in range(game.version - len(game.changes), game.version):
        return dict(contract), ""
    changed = "; ".join(game.changes[version - game.version :])
    note = f"{label} was trained in version {version} of {game.id}; version {game.version} changed {changed}"
    return {**contract, "version": game.version}, note


def _can_play(contract: Mapping[str, Any]) -> bool:
    return contract.get("rules") in SAME_OBSERVATIONS
