"""The one place where a name, a file or a Python object becomes a player of the dogfight.

`open_player` takes what every interface takes. That is the name of a bot or a held-out opponent, a checkpoint (path,
run or released name), an ONNX file, a Stable-Baselines3 zip, `module:Name`, a registered name, or an object with `act`.
A policy of an old environment version, whose bots differed, plays in the current version only on request. Its entrant
then has a note about it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from sparring.agents.opponents import players
from sparring.agents.opponents.python_policy import PythonPolicy
from sparring.agents.opponents.snapshots import Frozen, frozen_players
from sparring.agents.policies import checkpoint as checkpoints
from sparring.agents.policies.loaded_policy import LoadedPolicy, PolicySpaces
from sparring.agents.policies.networks import PolicyNetwork
from sparring.agents.policies.policy import Policy
from sparring.agents.policies.sb3_files import SB3Error, SB3Policy, find_statistics, read_statistics, read_zip
from sparring.configs.core.errors import InputError
from sparring.configs.opponents import is_code, named_source, registered, registered_name, source_name
from sparring.envs.dogfight import GAME
from sparring.envs.dogfight.batch import observation_size
from sparring.envs.dogfight.interfaces.spaces import action_space, observation_space
from sparring.envs.dogfight.rules import ACTION_REPEAT, ENV_ID, RULES, VERSION
from sparring.envs.dogfight.training.opponents.held_out import HELD_OUT_SOURCES
from sparring.envs.dogfight.training.opponents.onnx_actor import OnnxActor, contract_of, notes_on
from sparring.envs.dogfight.training.opponents.onnx_file import read_onnx
from sparring.envs.dogfight.training.opponents.planner import PlannerPlayer

SB3 = ".zip"
"""File suffix of a Stable-Baselines3 model."""


@dataclass(frozen=True)
class Entrant:
    """A bot, or a policy with its file and training metadata."""

    name: str
    contestant: str | Policy
    path: Path | None = None
    training: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """Notes to show with the player's results, one sentence each without the full stop."""
    warning: str = ""
    """That note which also matters where no results are shown."""

    def opponent(self, stacklevel: int = 2) -> str | Policy:
        """Return the bot's name or the policy; what is doubtful about it is a warning."""
        if self.warning:
            warnings.warn(self.warning, stacklevel=stacklevel)
        return self.contestant


def open_player(
    x: Any,
    device: str | torch.device = "cpu",
    *,
    deterministic: bool = True,
    old_version: bool = False,
    vecnormalize: Path | None = None,
    planner: bool = False,
) -> Entrant:
    """Return the player that `x` means; raises `InputError` for an unknown name, and for one that cannot act.

    Policies are deterministic unless asked otherwise; Python objects decide by themselves. `vecnormalize` is as for
    `load_policy`. With `planner`, `planner:k=K` may play too, which needs matches of its own (`planner.py`).
    """
    if vecnormalize is not None and not (isinstance(x, Path) and x.suffix == SB3):
        raise InputError(f"vecnormalize={vecnormalize}: goes with a zip of Stable-Baselines3, not with {x}")
    if isinstance(x, Policy):
        return Entrant(x.name, x)
    if isinstance(x, str):
        if planner and (samples := players.planner_samples(x)):
            return Entrant(x, PlannerPlayer(samples, name=x, device=device))
        if is_code(x):
            return _python(named_source(x), device, name=x)
        if x.startswith(players.SAMPLED_PREFIX):
            path = players.find_checkpoint(x.removeprefix(players.SAMPLED_PREFIX), GAME)
            return load_policy(path, device, deterministic=False, old_version=old_version)
        x = players.find_player(x, GAME, bare=(*GAME.bots, *registered()))
    if isinstance(x, str):
        return Entrant(x, PythonPolicy(HELD_OUT_SOURCES[x], name=x, device=device) if x in HELD_OUT_SOURCES else x)
    if isinstance(x, Path):
        how = {"deterministic": deterministic, "old_version": old_version}
        return load_policy(x, device, **how, vecnormalize=vecnormalize)
    return _python(x, device)


def frozen_policies(
    folder: Path, device: str | torch.device, *, deterministic: bool = True, old_version: bool = True
) -> list[Frozen[Entrant]]:
    """Return the policies of a run's folder by age; see `frozen_players`.

    Unless `old_version`, raises `OldVersionError` for a run of an old version of the environment.
    """

    def build(network: PolicyNetwork, contract: Mapping[str, Any], name: str, path: Path) -> Entrant:
        return Entrant(name, Policy(network, contract, name=name, deterministic=deterministic), path)

    opened = partial(load_policy, device=device, deterministic=deterministic, old_version=old_version)
    return frozen_players(folder, device, opened, build)


def load_observing_policy(path: Path, device: str | torch.device, *, vecnormalize: Path | None = None) -> LoadedPolicy:
    """Load the policy in the file `path` for `sparring.load`; raises `InputError` like `load_policy`."""
    entrant, space = open_player(path, device, vecnormalize=vecnormalize), action_space()
    policy = entrant.opponent(stacklevel=4)
    assert isinstance(policy, Policy)
    rules, observe_physics = policy.contract["rules"], policy.contract["observe_physics"]
    clip = partial(np.clip, a_min=space.low, a_max=space.high)
    spaces = PolicySpaces(observation_space(rules, observe_physics), space, clip)
    return LoadedPolicy(entrant.name, path, policy, spaces, entrant.training, vecnormalize)


def load_policy(
    path: Path,
    device: str | torch.device,
    *,
    deterministic: bool = True,
    old_version: bool = True,
    vecnormalize: Path | None = None,
) -> Entrant:
    """Load the policy in the file `path`: a checkpoint of this project, an ONNX agent, or a Stable-Baselines3 zip.

    `vecnormalize` are the statistics of a zip; by default those beside it (`find_statistics`), where its training had
    any.
    Raises `InputError` if it is unusable, or, unless `old_version`, of an old version of the environment.
    """
    name = players.display_name(path)
    if path.suffix == players.ONNX:
        return _load_onnx(path, device, deterministic=deterministic, old_version=old_version)
    if path.suffix == SB3:
        return _load_zip(path, device, deterministic=deterministic, vecnormalize=vecnormalize)
    checkpoint = checkpoints.load_checkpoint(path, device)
    contract, notes = _todays(path, checkpoint.contract, old_version=old_version)
    policy = Policy(checkpoint.network, contract, name=name, deterministic=deterministic)
    return Entrant(name, policy, path, checkpoint.training, notes)


def _python(source: Any, device: str | torch.device, name: str = "") -> Entrant:
    name = registered_name(source) or name or source_name(source)
    return Entrant(name, PythonPolicy(source, name=name, device=device))


def _load_zip(path: Path, device: str | torch.device, *, deterministic: bool, vecnormalize: Path | None) -> Entrant:
    name, model = players.display_name(path), read_zip(path)
    network = model.network.to(device).eval()
    contract = _usual_contract(path, network.obs_dim, network.continuous, network.binary)
    try:
        warnings_given = _observed(name, model, contract)
        decode = model.actions_in(action_space())
    except SB3Error as error:
        raise SB3Error(f"{path}: {error}") from error
    how: dict[str, Any] = {"name": name, "deterministic": deterministic, "decode": decode and decode.to(device)}
    notes = []
    if decode and not model.action.same_as(action_space()):
        notes.append(f"{name} acts in {model.action}, which is scaled to the bounds of the game")
    file = vecnormalize or (None if model.normalized is False else find_statistics(path))
    if file is not None:
        if statistics := read_statistics(file, network.obs_dim):
            notes.append(f"{name} observes through the statistics of {file.name}")
            how["encode"] = statistics.to(device)
    elif model.normalized is not False:
        warnings_given.append(_missing_statistics(name, path.stem, certain=bool(model.normalized)))
    notes += warnings_given
    policy = Policy(network, contract, **how)
    return Entrant(name, policy, path, notes=tuple(notes), warning="; ".join(warnings_given))


def _observed(name: str, model: SB3Policy, contract: Mapping[str, Any]) -> list[str]:
    """Return a warning of observations without bounds; raise `SB3Error` for other bounds than the game's."""
    space = observation_space(contract["rules"], contract["observe_physics"])
    if model.observation.same_as(space, within=1e-3):
        return []
    if not model.observation.free:
        raise SB3Error(
            f"observation_space={model.observation}: expected the bounds of the game's own observations; train it "
            "without a wrapper that changes them, such as RescaleObservation"
        )
    return [
        f"{name} has an observation space without bounds, as under Gymnasium's NormalizeObservation, whose statistics "
        "no zip holds; trained under that, it may play far worse than it can: train it under VecNormalize instead"
    ]


def _missing_statistics(name: str, stem: str, *, certain: bool) -> str:
    origin = "was trained under VecNormalize" if certain else "does not show whether it was trained under VecNormalize"
    fix = f"save them as {stem}_vecnormalize.pkl beside it, or name them with --vecnormalize (vecnormalize= in Python)"
    return f"{name} {origin} and observes without its statistics, so that it may play far worse than it can; {fix}"


def _load_onnx(path: Path, device: str | torch.device, *, deterministic: bool, old_version: bool) -> Entrant:
    name, file = players.display_name(path), read_onnx(path)
    contract, notes = _todays(path, contract_of(file), old_version=old_version)
    actor = OnnxActor(file, device=device, threads=torch.get_num_threads())
    policy = Policy(cast(PolicyNetwork, actor), contract, name=name)
    return Entrant(name, policy, path, notes=notes + notes_on(file, name, deterministic=deterministic))


def _todays(path: Path, contract: dict[str, Any], *, old_version: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the contract of a policy in the current version, and a note if it differs from its own."""
    if checkpoints.is_old(contract):
        if not old_version:
            raise checkpoints.OldVersionError(checkpoints.old_version_message(path, contract))
        note = f"{players.display_name(path)} was trained in {contract['id']}, whose bots differed"
        return checkpoints.admitted(contract, path), (note,)
    if contract["id"] != ENV_ID:
        raise checkpoints.CheckpointError(players.other_game(path, contract["id"], GAME))
    return contract, ()


def _usual_contract(path: Path, obs_dim: int, continuous: int, binary: int) -> dict[str, Any]:
    """Return the assumed contract of a policy without one: the default rules for its observation size."""
    for rules in RULES:
        for observe_physics in (True, False):
            if observation_size(rules, observe_physics) == obs_dim:
                game = {"id": ENV_ID, "version": VERSION, "rules": rules, "action_repeat": ACTION_REPEAT}
                observed = {"obs_dim": obs_dim, "observe_physics": observe_physics}
                return game | observed | {"continuous": continuous, "binary": binary, "mirror": False}
    raise checkpoints.CheckpointError(f"{path}: observes {obs_dim} floats, which no rules of the dogfight show")
