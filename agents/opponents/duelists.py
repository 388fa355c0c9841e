"""Turn whatever names a player of a two-sided kernel game into a `Duelist`; the game describes itself in a `DuelGame`.

These names are accepted: a bot or held-out opponent, a checkpoint (path, run or released name), an ONNX file, or a
Stable-Baselines3 zip. So are `module:Name`, a registered name, a Python object with `act`, and a `Policy`. Policies of
other programs do not state their rules; the game selects the matches with as many observed numbers. A policy of an old
environment version, whose bots differed, plays in the current version only on request.

A Python object answers `act(obs [N, D]) -> actions [N, A]` for a whole batch. It is a function, an object with a method
`act`, or a class of such objects, which is instantiated without arguments. It gets NumPy arrays, or tensors on the
batch's device if it is a `torch.nn.Module` or annotates the parameter of `act` as a tensor. Its observations are a copy
of its seat's observations under the match's rules.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from gymnasium.spaces import Box, Space
from torch import Tensor

from sparring.agents.opponents import players
from sparring.agents.opponents.onnx_actor import ActionForm, OnnxActor
from sparring.agents.opponents.onnx_file import OnnxError, OnnxFile, OnnxForm, read_onnx
from sparring.agents.opponents.players import OpponentError, act_function, reseed_source
from sparring.agents.opponents.snapshots import Frozen, frozen_players
from sparring.agents.policies import checkpoint as checkpoints
from sparring.agents.policies.loaded_policy import LoadedPolicy, PolicySpaces
from sparring.agents.policies.networks import PolicyNetwork
from sparring.agents.policies.policy import Policy, action_columns
from sparring.agents.policies.sb3_files import SB3Error, SB3Policy, find_statistics, read_statistics, read_zip
from sparring.configs.core.errors import InputError
from sparring.configs.core.typed import naming
from sparring.configs.games import current_id
from sparring.configs.opponents import is_code, named_source, registered, registered_name, source_name
from sparring.envs.game import Game

SB3 = ".zip"
"""File suffix of a Stable-Baselines3 model."""
Contract = dict[str, Any]


EVERYTHING = 1 << 30
"""Observation size of an object that takes any."""


class PythonActor:
    """Subset of `PolicyNetwork` used by `Policy`, which asks `source` for actions of `size` numbers."""

    obs_dim, memory_size = EVERYTHING, 0

    def __init__(self, source: Any, *, name: str, device: str | torch.device = "cpu") -> None:
        self.name, self.size = name, 0
        self.log_std = torch.zeros(0, device=device)  # Policy reads its device from here.
        self.ask = act_function(source, name)
        self._tensors = takes_tensors(source, self.ask)

    def act(self, obs: Tensor, *, deterministic: bool = True, generator: object = None) -> tuple[Tensor, Tensor]:
        """Return actions [B, A] for observations [B, D], and zeros [B]; raises `OpponentError` for another shape."""
        returned = self.ask(obs if self._tensors else obs.cpu().numpy())
        try:
            actions = torch.as_tensor(returned, dtype=torch.float32, device=obs.device)
        except (TypeError, ValueError, RuntimeError) as error:
            raise self._wrong(f"a {type(returned).__name__}, not an array of numbers", obs) from error
        if actions.shape != (len(obs), self.size):
            raise self._wrong(f"shape {tuple(actions.shape)}", obs)
        return actions.detach(), torch.zeros(len(obs), device=obs.device)

    def _wrong(self, returned: str, obs: Tensor) -> OpponentError:
        call = f"opponent {self.name}: act(obs of shape {tuple(obs.shape)}) returned {returned}"
        expected = f"({len(obs)}, {self.size}), a row of {self.size} numbers for every observation"
        return OpponentError(f"{call}; expected shape {expected}")


class PythonPolicy(Policy):
    """Policy of a Python object, which plays matches of every contract."""

    def __init__(self, source: Any, *, name: str, device: str | torch.device = "cpu") -> None:
        self.actor = PythonActor(source, name=name, device=device)
        super().__init__(cast(PolicyNetwork, self.actor), {"observe_physics": True}, name=name)

    def reseed(self, seed: int) -> None:
        """Restart the random numbers of the object."""
        reseed_source(self.actor.ask, seed)

    def check(self, contract: Mapping[str, Any]) -> None:
        """Accept all matches, and learn the size of their actions."""
        self.actor.size = action_columns(contract)


def takes_tensors(source: Any, ask: Callable[[Any], Any]) -> bool:
    """Return True if observations are given as torch tensors."""
    if isinstance(source, torch.nn.Module) or (inspect.isclass(source) and issubclass(source, torch.nn.Module)):
        return True
    try:
        parameters = list(inspect.signature(ask).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    return bool(parameters) and "Tensor" in str(parameters[0].annotation)


@dataclass(frozen=True)
class Duelist:
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


@dataclass(frozen=True)
class DuelGame:
    """What a game states about its players and the policies of other programs."""

    game: Game
    contract: Callable[[int, Mapping[str, Any]], Contract | None]
    """`(D, stated)`: contract of a policy that observes D numbers, and whose file states this much; None if no matches
    show D numbers."""
    spaces: Callable[[Mapping[str, Any]], tuple[Box, Space[Any]]]
    """Observation and action space of the matches of a contract."""
    steering: int
    """Columns that steer, the first of an action that is a Box; the others are switches."""
    actions: str
    """An action in words."""
    wanted: str
    """Input and output of an ONNX model in words."""
    onnx_notes: Callable[[OnnxFile, str], tuple[str, ...]] = lambda file, name: ()
    """`(file, name)`: notes on an ONNX model."""
    scripts: Mapping[str, Any] = field(default_factory=dict)
    """Held-out opponents: what acts, by name."""

    def open(
        self,
        x: Any,
        device: str | torch.device = "cpu",
        *,
        deterministic: bool = True,
        old_version: bool = False,
        vecnormalize: Path | None = None,
    ) -> Duelist:
        """Return the player that `x` means; raises `InputError` for an unknown name, and for one that cannot act.

        Policies are deterministic unless asked otherwise; Python objects decide by themselves. `vecnormalize` is as for
        `load`.
        """
        if vecnormalize is not None and not (isinstance(x, Path) and x.suffix == SB3):
            raise InputError(f"vecnormalize={vecnormalize}: requires a Stable-Baselines3 zip, not {x}")
        if isinstance(x, Policy):
            return Duelist(x.name, x)
        if isinstance(x, str):
            if is_code(x):
                return _python(named_source(x), device, name=x)
            if x.startswith(players.SAMPLED_PREFIX):
                path = players.find_checkpoint(x.removeprefix(players.SAMPLED_PREFIX), self.game)
                sampled = self.load(path, device, deterministic=False, old_version=old_version)
                return replace(sampled, name=f"{players.SAMPLED_PREFIX}{sampled.name}")
            x = players.find_player(x, self.game, bare=(*self.game.bots, *registered()))
        if isinstance(x, str):
            script = self.scripts.get(x)
            return Duelist(x, x if script is None else PythonPolicy(script, name=x, device=device))
        if isinstance(x, Path):
            how = {"deterministic": deterministic, "old_version": old_version}
            return self.load(x, device, **how, vecnormalize=vecnormalize)
        return _python(x, device)

    def load(
        self,
        path: Path,
        device: str | torch.device,
        *,
        deterministic: bool = True,
        old_version: bool = True,
        vecnormalize: Path | None = None,
    ) -> Duelist:
        """Load the policy in the file `path`: a checkpoint of this project, an ONNX agent, or a zip of SB3.

        `vecnormalize` are the statistics of a zip; by default those beside it (`find_statistics`), where its training
        had any. Raises `InputError` if it is unusable, or, unless `old_version`, of an old version of the environment.
        """
        name = players.display_name(path)
        if path.suffix == players.ONNX:
            return self._load_onnx(path, device, deterministic=deterministic, old_version=old_version)
        if path.suffix == SB3:
            return self._load_zip(path, device, deterministic=deterministic, vecnormalize=vecnormalize)
        checkpoint = checkpoints.load_checkpoint(path, device)
        contract, notes = self._todays(path, checkpoint.contract, old_version=old_version)
        policy = Policy(checkpoint.network, contract, name=name, deterministic=deterministic)
        return Duelist(name, policy, path, checkpoint.training, notes)

    def frozen(
        self, folder: Path, device: str | torch.device, *, deterministic: bool = True, old_version: bool = True
    ) -> list[Frozen[Duelist]]:
        """Return the policies of a run's folder by age; see `frozen_players`.

        Unless `old_version`, raises `OldVersionError` for a run of an old version of the environment.
        """

        def build(network: PolicyNetwork, contract: Mapping[str, Any], name: str, path: Path) -> Duelist:
            return Duelist(name, Policy(network, contract, name=name, deterministic=deterministic), path)

        opened = partial(self.load, device=device, deterministic=deterministic, old_version=old_version)
        return frozen_players(folder, device, opened, build)

    def loaded(self, path: Path, device: str | torch.device, *, vecnormalize: Path | None = None) -> LoadedPolicy:
        """Load the policy in the file `path` for `sparring.load`; raises `InputError` like `load`."""
        player = self.open(path, device, vecnormalize=vecnormalize)
        policy = player.opponent(stacklevel=4)
        assert isinstance(policy, Policy)
        observation, action = self.spaces(policy.contract)
        acted: Callable[..., Any] = partial(np.asarray, dtype=np.int64)
        if isinstance(action, Box):
            acted = partial(np.clip, a_min=action.low, a_max=action.high)
        spaces = PolicySpaces(observation, action, acted)
        return LoadedPolicy(player.name, path, policy, spaces, player.training, vecnormalize)

    def read_onnx(self, path: Path) -> OnnxFile:
        """Read an ONNX agent of this game. Raises `OnnxError` if it is not one."""
        return read_onnx(path, OnnxForm(self.contract, self.wanted))

    def onnx_actor(self, file: OnnxFile, device: str | torch.device = "cpu") -> OnnxActor:
        """Return what acts by the model of a file. Raises `OnnxError` if it cannot."""
        return OnnxActor(file, self.action_form(file.contract), device=device, threads=torch.get_num_threads())

    def action_form(self, contract: Contract) -> ActionForm:
        """Return what the columns of an action in matches of a contract are."""
        space = self.spaces(contract)[1]
        if not isinstance(space, Box):  # choices alone
            return ActionForm(np.zeros(0), np.zeros(0), 0, self.actions)
        steering = slice(self.steering)
        return ActionForm(
            space.low[steering], space.high[steering], action_columns(contract) - self.steering, self.actions
        )

    def _load_onnx(self, path: Path, device: str | torch.device, *, deterministic: bool, old_version: bool) -> Duelist:
        name, file = players.display_name(path), self.read_onnx(path)
        contract, notes = self._todays(path, file.contract, old_version=old_version)
        with naming(path, OnnxError, "export it again"):
            checkpoints.check_values(contract)
        actor = self.onnx_actor(file, device)
        policy = Policy(cast(PolicyNetwork, actor), contract, name=name)
        sampled = () if deterministic else (f"{name} is an ONNX agent, whose actions are not sampled",)
        return Duelist(name, policy, path, notes=(*notes, *self.onnx_notes(file, name), *sampled))

    def _load_zip(
        self, path: Path, device: str | torch.device, *, deterministic: bool, vecnormalize: Path | None
    ) -> Duelist:
        model = read_zip(path)
        contract = self.contract(model.network.obs_dim, {})
        if contract is None:
            raise checkpoints.CheckpointError(
                f"{path}: observes {model.network.obs_dim} floats, which does not match any rules of {self.game.title}"
            )
        contract |= {"continuous": model.network.continuous, "binary": model.network.binary}
        spaces = self.spaces(contract)
        return zip_player(path, model, contract, spaces, device, deterministic=deterministic, vecnormalize=vecnormalize)

    def _todays(self, path: Path, contract: Contract, *, old_version: bool) -> tuple[Contract, tuple[str, ...]]:
        """Return the contract of a policy in the current version, and a note if it differs from its own."""
        if current_id(str(contract["id"])) != self.game.id:
            raise checkpoints.CheckpointError(players.other_game(path, contract["id"], self.game))
        if not checkpoints.is_old(contract):
            contract, note = checkpoints.in_todays_version(contract, players.display_name(path))
            return contract, (note,) if note else ()
        if not old_version:
            raise checkpoints.OldVersionError(checkpoints.old_version_message(path, contract))
        note = f"{players.display_name(path)} was trained in {contract['id']}, whose bots differed"
        return checkpoints.admitted(contract, path), (note,)


def zip_player(
    path: Path,
    model: SB3Policy,
    contract: Contract,
    spaces: tuple[Box, Space[Any]],
    device: str | torch.device,
    *,
    deterministic: bool = True,
    vecnormalize: Path | None = None,
) -> Duelist:
    """Return the policy of a zip in matches of a contract, which have these flat spaces of observations and actions.

    Raises `SB3Error` for one that was trained in other spaces.
    """
    name, network, (observation, action) = players.display_name(path), model.network.to(device).eval(), spaces
    try:
        warned = _observed(name, model, observation)
        decode = model.actions_in(action) if isinstance(action, Box) else None
    except SB3Error as error:
        raise SB3Error(f"{path}: {error}") from error
    how: dict[str, Any] = {"name": name, "deterministic": deterministic, "decode": decode and decode.to(device)}
    notes = []
    if isinstance(action, Box) and decode and not model.action.same_as(action):
        notes.append(f"{name} acts in {model.action}, which is scaled to the bounds of the game")
    file = vecnormalize or (None if model.normalized is False else find_statistics(path))
    if file is not None:
        if statistics := read_statistics(file, network.obs_dim):
            notes.append(f"{name} observes through the statistics of {file.name}")
            how["encode"] = statistics.to(device)
    elif model.normalized is not False:
        warned.append(_missing_statistics(name, path.stem, certain=bool(model.normalized)))
    policy = Policy(network, contract, **how)
    return Duelist(name, policy, path, notes=(*notes, *warned), warning="; ".join(warned))


def _python(source: Any, device: str | torch.device, name: str = "") -> Duelist:
    name = registered_name(source) or name or source_name(source)
    return Duelist(name, PythonPolicy(source, name=name, device=device))


def _observed(name: str, model: SB3Policy, space: Box) -> list[str]:
    """Return a warning of observations without bounds; raise `SB3Error` for other bounds than the game's."""
    if model.observation.same_as(space, within=1e-3):
        return []
    if not model.observation.free:
        raise SB3Error(
            f"observation_space={model.observation}: expected the bounds of the game's own observations; train it "
            "without a wrapper that changes them, such as RescaleObservation"
        )
    return [
        f"{name} has an unbounded observation space, as under Gymnasium's NormalizeObservation. A zip does not contain "
        "its statistics, so the policy may play far below its strength: train it under VecNormalize instead"
    ]


def _missing_statistics(name: str, stem: str, *, certain: bool) -> str:
    origin = "was trained under VecNormalize" if certain else "does not show whether it was trained under VecNormalize"
    fix = f"save them as {stem}_vecnormalize.pkl beside it, or name them with --vecnormalize (vecnormalize= in Python)"
    return f"{name} {origin} and observes without its statistics, so it may play far below its strength; {fix}"
