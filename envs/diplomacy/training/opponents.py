"""Create a Diplomacy player from a name, a file, an address or a Python object.

A bot plays inside the simulator. A policy orders the moves of all games in one forward pass. A search
(`search:seconds=1`) orders the moves that `envs/diplomacy/search` finds. A bot decides the retreats and adjustments of
both; policies trained with `network.all_phases=true` decide these too. A Python object, `act(view) -> orders`, is
called per game in every phase in which its power has orders to give. A language model answers all prompts of a phase at
once. With an adapter, its base model and other adapters on it can play too, as in GRPO self-play. They share one model
in memory, so they must use the same prompts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
import torch
from gymnasium.spaces import Box

from sparring.agents.language.opponents import (
    INSTEAD,
    POLICY,
    LoadedModel,
    Settings,
    config_of,
    config_of_player,
    has_config,
    is_adapter,
    load_language_model,
    open_served,
    overridden,
)
from sparring.agents.opponents import players
from sparring.agents.opponents.onnx_actor import ActionForm, OnnxActor
from sparring.agents.opponents.onnx_file import OnnxForm, read_onnx
from sparring.agents.policies.checkpoint import Checkpoint, load_checkpoint
from sparring.agents.policies.loaded_policy import LoadedPolicy, PolicySpaces
from sparring.agents.policies.networks import PolicyNetwork
from sparring.agents.policies.policy import Policy
from sparring.configs.core.errors import InputError
from sparring.configs.language import LanguageModelConfig
from sparring.configs.opponents import is_code, named_source, registered, registered_name, source_name
from sparring.configs.schema import NetworkConfig
from sparring.curriculum.league.league import BASE_MODEL
from sparring.envs.diplomacy import GAME
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.interfaces.opponents import order_view
from sparring.envs.diplomacy.interfaces.slots import choice_space
from sparring.envs.diplomacy.observation import ALL_PHASES_SHAPE, SHAPE, observe
from sparring.envs.diplomacy.orders.order_choices import CHOICES, rows_of, write_orders
from sparring.envs.diplomacy.orders.phase_choices import deciding_rows, may_decide, write_decisions
from sparring.envs.diplomacy.prompts.prompts import PromptRules
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from sparring.envs.diplomacy.search.player import SearchOrders
from sparring.envs.diplomacy.search.policy_model import PolicyModel
from sparring.envs.diplomacy.search.settings import (
    ATTACK_POSITIONS,
    BUILT,
    EXPLOIT,
    SearchSettings,
    read_settings,
    read_target,
)

if TYPE_CHECKING:
    from sparring.agents.language.backend import Backend
    from sparring.agents.language.models.adapters import AdapterFile, Adapters


SIZES = {math.prod(SHAPE): False, math.prod(ALL_PHASES_SHAPE): True}
"""Observation sizes, each with whether its policies decide in all phases."""
WANTED = "a model of Diplomacy that eval/export.py wrote: input float32 [1, D] or [N, D], output float32 [N, 17]"


@dataclass(frozen=True)
class LanguageOptions:
    """Options for language models."""

    temperature: float = 0.0
    settings: Settings = field(default_factory=dict)
    """Options of a model without an adapter, or on a server."""
    rivals: Mapping[str, Path] = field(default_factory=dict)
    """Other adapters on the same model, by opponents' names."""
    past_orders: int = 0
    instructions: str = ""
    """Parts of `PromptRules` that training does not have."""

    def rules(self, model: LanguageModelConfig) -> PromptRules:
        """Return the rules of a model's prompts; raises `InputError` for instructions of a prompt without any."""
        if self.instructions and model.compact:
            raise InputError("--prompt: model.compact=true has no instructions; give --set model.compact=false")
        return replace(PromptRules.of(model), past_orders=self.past_orders, instructions=self.instructions)


@dataclass(frozen=True)
class LanguagePlayer:
    """Language model that can play: backends by player's name, and prompt rules."""

    models: Mapping[str, Backend]
    rules: PromptRules
    about: dict[str, Any]
    """Its description in results: model, and training of the adapter."""
    at_a_time: int
    """Number of games, with one prompt each, that keep it busy."""


class PolicyOrders:
    """A policy that orders moves, greedily or sampled with a `generator`.

    `bot` decides its retreats and adjustments, as in training; it is empty for one that was trained to decide them.
    """

    def __init__(
        self, network: PolicyNetwork, *, bot: str = "dumbbot", generator: torch.Generator | None = None
    ) -> None:
        self.network, self.generator = network, generator
        self.all_phases = network.config.all_phases
        self.bot = "" if self.all_phases else bot

    def write(self, batch: DiplomacyBatch, seats: torch.Tensor) -> None:
        """Write the orders of the powers `seats` bool [G, 7], which must be all that a policy plays."""
        moving = ((batch.phase == codes.SPRING) | (batch.phase == codes.FALL)).unsqueeze(1)
        deciding = seats & (may_decide(batch.state) if self.all_phases else moving)
        game, power = deciding.nonzero().unbind(1)
        if not len(game):
            return
        state, last_year = {name: rows[game] for name, rows in batch.state.items()}, batch.last_year
        obs = observe(state, power, last_year=last_year, retreats=self.all_phases)
        sure = self.generator is None
        choices, _ = self.network.act(obs.flatten(1), deterministic=sure, generator=self.generator)
        rows = deciding_rows(obs) if self.all_phases else rows_of(obs)
        orders = torch.zeros_like(rows, dtype=batch.orders.dtype)
        if self.all_phases:
            write_decisions(choices.long(), obs, orders)
        else:
            write_orders(choices.long(), rows, orders)
        unit, province = (rows >= 0).nonzero().unbind(1)
        batch.orders[game[unit], province] = orders[unit, province]

    def reseed(self, seed: int) -> None:
        """Restart the sequence of drawn orders."""
        if self.generator is not None:
            self.generator.manual_seed(seed)


class OnnxOrders(OnnxActor):
    """An exported policy instead of its network; it does not sample its orders."""

    def __init__(self, path: Path, device: str | torch.device) -> None:
        form = OnnxForm(_stated, WANTED, unread=("probabilities",))
        choices = ActionForm(np.zeros(0), np.zeros(0), 0, "choices of orders")
        super().__init__(read_onnx(path, form), choices, device=device, threads=torch.get_num_threads())
        self.config = NetworkConfig(all_phases=SIZES[self.obs_dim])

    def act(self, obs: torch.Tensor, **how: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Return choices [B, 17] and zeros [B]; raises `InputError` for a number that is not a choice."""
        choices, zeros = super().act(obs)
        wrong = (choices != choices.round()) | (choices < 0) | (choices >= CHOICES)
        if bool(wrong.any()):
            number = float(choices[wrong][0])
            raise InputError(f"{self.path}: chose {number:g}; expected a whole number in [0, {CHOICES - 1}]")
        return choices, zeros


def _stated(obs_dim: int, stated: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the contract of an exported policy, with the choices that it answers; None for another model."""
    if stated.get("id") != GAME.id or obs_dim not in SIZES:
        return None
    return {**stated, "obs_dim": obs_dim, "continuous": 0, "binary": 0, "categorical": [CHOICES] * codes.SLOTS}


class PythonOrders:
    """A Python object that orders."""

    bot = ""

    def __init__(self, source: Any, name: str) -> None:
        self.name, self._ask = name, players.act_function(source, name)

    def write(self, batch: DiplomacyBatch, seats: torch.Tensor) -> None:
        """Write the orders of the powers `seats` bool [G, 7]. Raises `InputError` for an order that is not legal."""
        for power, game in torch.nonzero(seats.T).tolist():
            view = order_view(batch, game, power)
            if view.slots:
                for province, order in view.orders(self._ask(view), self.name).items():
                    batch.orders[game, province] = order

    def reseed(self, seed: int) -> None:
        """Call `reseed(seed)` of an object that has it."""
        players.reseed_source(self._ask, seed)


OrderPlayer = str | PolicyOrders | PythonOrders | SearchOrders
"""A bot by its name, or an object."""
DiplomacyPlayer = OrderPlayer | LanguagePlayer


@overload
def open_player(
    x: Any,
    device: str | torch.device = ...,
    *,
    language: None = ...,
    deterministic: bool = ...,
    noise: torch.Generator | None = ...,
) -> OrderPlayer: ...
@overload
def open_player(
    x: Any, device: str | torch.device = ..., *, language: LanguageOptions, deterministic: bool = ...
) -> DiplomacyPlayer: ...
def open_player(
    x: Any,
    device: str | torch.device = "cpu",
    *,
    language: LanguageOptions | None = None,
    deterministic: bool = True,
    noise: torch.Generator | None = None,
) -> DiplomacyPlayer:
    """Return the player for `x`, a bot by its name; raises `InputError` for an unknown or unusable one.

    Networks are put on `device`. Language models play only with `language`. A policy is `deterministic` unless it is
    named with `stochastic:`; else it draws its orders from `noise`, by default a generator of its own.
    """
    if isinstance(x, str) and x.startswith(players.SAMPLED_PREFIX):
        x, deterministic = players.find_checkpoint(x.removeprefix(players.SAMPLED_PREFIX), GAME), False
    if isinstance(x, str):
        if GAME.builds(x):
            search = _attack(x, device) if x.startswith(EXPLOIT) else _searcher(read_settings(x), device)
            if noise is not None:
                search.reseed(int(torch.randint(2**31 - 1, (), generator=noise, device=noise.device)))
            return search
        if is_code(x):
            return _python(named_source(x), x)
        x = players.find_player(x, GAME, bare=(*GAME.bots, *registered()), models=language is not None)
    if not isinstance(x, str | Path):
        return _python(x, "")
    if x in GAME.bots:
        return str(x)
    player = _open_model(x, str(device), language) if language else PolicyOrders(_network(Path(x), device))
    if isinstance(player, PolicyOrders) and not deterministic:
        if isinstance(player.network, OnnxActor):
            raise InputError(f"{x}: is an ONNX model, which does not sample its orders; give the .pt file")
        player.generator = noise or torch.Generator(device)
    return player


def _searcher(settings: SearchSettings, device: str | torch.device) -> SearchOrders:
    """Return a search with the players that its settings name; those that are not bots order for it."""

    def opened(key: str, name: str) -> PolicyOrders | PythonOrders | None:
        try:
            player = open_player(name, device)
        except InputError as error:
            raise InputError(f"search:{key}={name}: {error}") from error
        if isinstance(player, SearchOrders):
            raise InputError(f"search:{key}={name}: is a search itself; name a bot or a policy, or exploit:{name}")
        return None if isinstance(player, str) else player

    proposing = opened("proposals", settings.proposals)
    if getattr(proposing, "generator", None) is not None:
        raise InputError(f"search:proposals={settings.proposals}: takes likeliest orders; name the policy itself")
    models = {name: opened("opponents", name) for name in settings.models if name not in BUILT}
    return SearchOrders(settings, proposing, {name: model_of(each) for name, each in models.items() if each})


def _attack(text: str, device: str | torch.device) -> SearchOrders:
    return attack_on([open_player(read_target(text), device)])


def attack_on(players: Sequence[OrderPlayer]) -> SearchOrders:
    """Return a search that models the other powers as one of these players."""
    names = [player if isinstance(player, str) else f"member {number}" for number, player in enumerate(players)]
    models = {name: model_of(player) for name, player in zip(names, players, strict=True) if name not in codes.BOTS}
    return SearchOrders(SearchSettings(opponents="+".join(names), positions=ATTACK_POSITIONS), models=models)


def model_of(player: Any) -> Any:
    """Return a player in the form that a search models: the order network of a policy, other players unchanged."""
    if isinstance(player, PolicyOrders) and not isinstance(player.network, OnnxActor):
        return PolicyModel(cast(Any, player.network), draws=player.generator is not None)
    return player


def _python(source: Any, name: str) -> PythonOrders:
    return PythonOrders(source, registered_name(source) or name or source_name(source))


def read_policy(path: Path, device: str | torch.device, instead: str = "") -> Checkpoint:
    """Read a policy; raises `InputError` for one of another game."""
    checkpoint = load_checkpoint(path, device)
    if (env_id := checkpoint.contract["id"]) != GAME.id:
        raise InputError(f"{path}: plays {env_id}, not {GAME.id}; give a policy of {GAME.id}{instead}")
    return checkpoint


def _network(path: Path, device: str | torch.device, instead: str = "") -> PolicyNetwork:
    """Return the network of a policy's file, of an ONNX model what acts in its place."""
    if path.suffix == players.ONNX:
        return cast(PolicyNetwork, OnnxOrders(path, device))
    return read_policy(path, device, instead).network


def load_observing_policy(path: Path, device: str) -> LoadedPolicy:
    """Load the policy in the file `path` for `sparring.load`, with choices of `MovementBatch` as its actions.

    One that decides in all phases observes `MovementBatch(all_phases=True)`.
    """
    if is_adapter(path):
        raise InputError(f"{path}: is a language model's adapter, which plays in text; use sparring.evaluate")
    checkpoint, name = load_checkpoint(path, device), players.display_name(path)
    policy = Policy(checkpoint.network, checkpoint.contract, name=name)
    shape = ALL_PHASES_SHAPE if checkpoint.network.config.all_phases else SHAPE
    spaces = PolicySpaces(Box(0.0, 1.0, shape), choice_space(), lambda actions: actions.astype(np.int64))
    return LoadedPolicy(name, path, policy, spaces, checkpoint.training)


def _open_model(player: str | Path, device: str, options: LanguageOptions) -> LanguagePlayer | PolicyOrders:
    """Load a language model or a policy, an adapter also against its rivals."""
    settings = options.settings
    if isinstance(player, str) and players.is_server(player):
        return _served_model(player, options)
    if isinstance(player, str) or player.is_dir():
        config = overridden(config_of_player(player), {"id": codes.ENV_ID}, settings)
        model = load_language_model(player, config, device)
        name = config.name if config.name in players.NAMED_MODELS else players.display_path(Path(config.name))
        return _player(model, {POLICY: "", BASE_MODEL: ""}, options, {"model": name})
    if settings:
        raise InputError(f"--set: {player} plays as trained; the option is for models without an adapter, and servers")
    if options.past_orders or options.instructions:
        raise InputError(f"--past-orders and --prompt: {player} plays with its training prompts")
    if not is_adapter(player):
        return PolicyOrders(_network(player, device, ", or leave --env out"))
    if not has_config(player.parent):
        raise InputError(f"{player}: has no config.yaml next to it to name its model; keep it in its run's folder")
    from sparring.agents.language.models.adapters import BASE, LEARNER

    model = load_language_model(player, config_of(player.parent), device)
    assert model.adapters is not None
    assert model.file is not None
    about: dict[str, Any] = {"model": model.config.name, "training": model.file.training}
    if options.rivals:
        about["opponents"] = load_rivals(options.rivals, model.adapters, model.file, model.config)
    called = {POLICY: LEARNER, BASE_MODEL: BASE} | {name: str(path) for name, path in options.rivals.items()}
    return _player(model, called, options, about)


def _served_model(url: str, options: LanguageOptions) -> LanguagePlayer:
    """Return the model on a server, which is probed at once."""
    where = {"id": codes.ENV_ID}
    backend, model, endpoint = open_served(url, where, options.settings, DIPLOMACY_TEXT, options.temperature)
    return LanguagePlayer({POLICY: backend}, options.rules(model), {"model": backend.name}, endpoint.concurrency)


def _player(
    loaded: LoadedModel, called: Mapping[str, str], options: LanguageOptions, about: dict[str, Any]
) -> LanguagePlayer:
    """Make a backend for every player in `called`, whose values are the names of its adapters."""
    models = loaded.backends(DIPLOMACY_TEXT, options.temperature, called)
    return LanguagePlayer(models, options.rules(loaded.config), about, loaded.config.batch_size)


def load_rivals(
    rivals: Mapping[str, Path], adapters: Adapters, learner: AdapterFile, config: LanguageModelConfig
) -> dict[str, dict[str, Any]]:
    """Add every rival to `adapters` under its path; return their training metadata by opponents' names.

    `learner` is --ckpt's adapter and `config` its run's model. Raises `InputError` for incompatible rivals.
    """
    trainings = {}
    for name, path in rivals.items():
        rival = _read_rival(name, path, learner, config)
        adapters.add(str(path), rival.weights, rival.shape)
        trainings[name] = rival.training
    return trainings


def _read_rival(name: str, path: Path, learner: AdapterFile, config: LanguageModelConfig) -> AdapterFile:
    from sparring.agents.language.models.adapters import load_adapter

    if not is_adapter(path) or not has_config(path.parent):
        raise InputError(f"--opponents {name}: {path} is not an adapter of a run with its config.yaml; {INSTEAD}")
    rival = load_adapter(path)
    if rival.base != learner.base:
        raise InputError(f"--opponents {name}: was trained on another base model than --ckpt; {INSTEAD}")
    rules, others = (PromptRules.of(model) for model in (config, config_of(path.parent)))
    differ = [f"model.{key}" for key in PromptRules.__dataclass_fields__ if getattr(rules, key) != getattr(others, key)]
    if differ:
        raise InputError(
            f"--opponents {name}: was trained with other prompts than --ckpt ({', '.join(differ)}); {INSTEAD}"
        )
    return rival
