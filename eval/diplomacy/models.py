"""Player of `--ckpt` in Diplomacy, ready to play: a policy's network, or a language model's backends.

A language model is an adapter on the model named in its run's config.yaml, a model's folder, tiny or smollm2, or one
on a server. With an adapter, its base model alone and the adapters in --opponents can play too, as in self-play of
GRPO. Adapters play only adapters of the same base model and the same prompts, since all get positions in one format.
Other pairs are refused, with an alternative.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparring.agents.opponents.players import (
    NAMED_MODELS,
    Player,
    content_of,
    display_name,
    display_path,
    find_player,
    is_server,
)
from sparring.configs.core.errors import InputError
from sparring.configs.language import ADAPTER, LanguageModelConfig
from sparring.curriculum.league.league import BASE_MODEL
from sparring.envs.diplomacy import GAME
from sparring.eval.diplomacy.options import DiplomacyOptions
from sparring.eval.diplomacy.settings import Settings, config_of, configured, has_config, model_of, run_of

if TYPE_CHECKING:
    from sparring.agents.llm.backend import Backend
    from sparring.agents.llm.models.adapters import AdapterFile, Adapters
    from sparring.agents.policies.actor_critic import ActorCritic
    from sparring.agents.policies.loaded_policy import LoadedPolicy
    from sparring.envs.diplomacy.prompts.prompts import PromptRules

INSTEAD = "play each against the same bots and compare the tables"
POLICY = "--ckpt"
"""Name of the evaluated model among the players, which no run can have; `BASE_MODEL` has no adapter."""


@dataclass(frozen=True)
class LanguagePlayer:
    """Language model that can play: backends by player's name, and prompt rules."""

    models: Mapping[str, Backend]
    rules: PromptRules
    about: dict[str, Any]
    """Its description in results: model, and training of the adapter."""
    at_a_time: int
    """Number of games, with one prompt each, that keep it busy."""


def load(
    player: Player,
    *,
    temperature: float,
    device: str,
    settings: Settings | None = None,
    rivals: Mapping[str, Path] | None = None,
) -> LanguagePlayer | ActorCritic:
    """Load `player`, ready to play, an adapter also against `rivals`, adapters by opponents' names.

    Raises `InputError` for players that cannot play Diplomacy or are incompatible.
    """
    given = settings or {}
    if isinstance(player, str):
        if is_server(player):
            return _served_model(player, temperature, given)
        return _plain_model(model_of(LanguageModelConfig(name=player), given), temperature, device)
    if player.is_dir():
        config = config_of(run_of(player)) if has_config(run_of(player)) else LanguageModelConfig()
        return _plain_model(model_of(replace(config, name=str(player)), given), temperature, device)
    if given:
        raise InputError(f"--set: {player} plays as it was trained; it is for models without an adapter, and servers")
    content = content_of(player)
    if content.get("format") != ADAPTER:
        return load_policy(player)
    if not has_config(player.parent):
        raise InputError(f"{player}: has no config.yaml beside it, which names its model; leave it in its run's folder")
    return _adapted_model(player, temperature, device, rivals or {})


def load_policy(path: Path) -> ActorCritic:
    """Return the network of a checkpoint for Diplomacy; raises `InputError` where there is none."""
    from sparring.agents.policies.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(path)
    if checkpoint.contract["id"] != GAME.id:
        instead = f"give a policy of {GAME.id}, or leave --env out"
        raise InputError(f"{checkpoint.path}: plays {checkpoint.contract['id']}, not {GAME.id}; {instead}")
    return checkpoint.network


def load_observing_policy(path: Path, device: str) -> LoadedPolicy:
    """Load the policy in the file `path` for `sparring.load`, with choices of `MovementBatch` as its actions."""
    import numpy as np
    from gymnasium.spaces import Box

    from sparring.agents.policies.checkpoint import load_checkpoint
    from sparring.agents.policies.loaded_policy import LoadedPolicy, PolicySpaces
    from sparring.agents.policies.policy import Policy
    from sparring.envs.diplomacy.interfaces.slots import choice_space
    from sparring.envs.diplomacy.observation import SHAPE

    if content_of(path).get("format") == ADAPTER:
        raise InputError(f"{path}: is a language model's adapter, which plays in text; use sparring.evaluate")
    checkpoint, name = load_checkpoint(path, device), display_name(path)
    policy = Policy(checkpoint.network, checkpoint.contract, name=name)
    spaces = PolicySpaces(Box(0.0, 1.0, SHAPE), choice_space(), lambda actions: actions.astype(np.int64))
    return LoadedPolicy(name, path, policy, spaces, checkpoint.training)


def _served_model(url: str, temperature: float, settings: Settings) -> LanguagePlayer:
    """Return the model on a server, which is probed at once."""
    from sparring.agents.llm.endpoint.backend import open_endpoint
    from sparring.envs.diplomacy.prompts.prompts import PromptRules
    from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT

    config = configured({**settings, "endpoint": {**settings.get("endpoint", {}), "url": url}})
    config.model.temperature = temperature
    backend = open_endpoint(config, DIPLOMACY_TEXT)
    about, at_a_time = {"model": backend.name}, config.endpoint.concurrency
    return LanguagePlayer({POLICY: backend}, PromptRules.of(config.model), about, at_a_time)


def _plain_model(config: LanguageModelConfig, temperature: float, device: str) -> LanguagePlayer:
    """Load a model without adapter: its own base model."""
    from sparring.agents.llm.models.load import load_model

    model, tokenizer = load_model(config, device=device)
    about = {"model": display_path(Path(config.name)) if config.name not in NAMED_MODELS else config.name}
    return _player({POLICY: nullcontext, BASE_MODEL: nullcontext}, model, tokenizer, config, temperature, about)


def _adapted_model(path: Path, temperature: float, device: str, rivals: Mapping[str, Path]) -> LanguagePlayer:
    """Load the adapter on its model, the model without it, and other adapters on it."""
    from sparring.agents.llm.models.load import check_packages, load_model

    check_packages()
    from sparring.agents.llm.models.adapters import BASE, LEARNER, Adapters, load_adapter

    config = config_of(path.parent)
    model, tokenizer = load_model(config, device=device)
    adapter = load_adapter(path, model)
    adapters = Adapters(model, adapter.shape)
    adapters.restore(adapter.weights)
    about = {"model": config.name, "training": adapter.training}
    if rivals:
        about["opponents"] = load_rivals(rivals, adapters, adapter, config)
    called = {POLICY: LEARNER, BASE_MODEL: BASE} | {name: str(path) for name, path in rivals.items()}
    playing = {name: partial(adapters.playing, among) for name, among in called.items()}
    return _player(playing, adapters.model, tokenizer, config, temperature, about)


def _player(
    playing: Mapping[str, Any],
    model: Any,
    tokenizer: Any,
    config: LanguageModelConfig,
    temperature: float,
    about: dict[str, Any],
) -> LanguagePlayer:
    """Make a backend for every name in `playing`, on one model."""
    from sparring.agents.llm.decoding.constraint import Constraint
    from sparring.agents.llm.transformers_backend import TransformersBackend
    from sparring.envs.diplomacy.prompts.prompts import PromptRules
    from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT

    decoding, constraint = replace(config, temperature=temperature), Constraint(tokenizer, DIPLOMACY_TEXT)
    models = {
        name: TransformersBackend.of(decoding, model, tokenizer, constraint=constraint, playing=how)
        for name, how in playing.items()
    }
    return LanguagePlayer(models, PromptRules.of(config), about, config.batch_size)


def find_rivals(options: DiplomacyOptions, player: Player | None) -> dict[str, Path]:
    """Find the files of --opponents that are neither bots nor the base model; `player` is that of --ckpt.

    Raises `InputError` for missing files, and for non-adapters recognized without reading them.
    """
    rivals = {name: _find(name) for name in options.rivals}
    for name, rival in rivals.items():
        if isinstance(player, str) or (player is not None and player.is_dir()):
            raise InputError(
                f"--opponents {name}: {options.ckpt} is no adapter, and only adapters of one model meet; {INSTEAD}"
            )
        if rival == player:
            raise InputError(f"--opponents {name}: is --ckpt itself; leave it out")
    return rivals


def load_rivals(
    rivals: Mapping[str, Path], adapters: Adapters, own: AdapterFile, config: LanguageModelConfig
) -> dict[str, dict[str, Any]]:
    """Add every rival to `adapters` under its path; return their training metadata by opponents' names.

    `own` is --ckpt's adapter and `config` its run's model. Raises `InputError` for incompatible rivals.
    """
    trainings = {}
    for name, path in rivals.items():
        rival = _read(name, path, own, config)
        adapters.add(str(path), rival.weights, rival.shape)
        trainings[name] = rival.training
    return trainings


def _find(name: str) -> Path:
    rival = find_player(name, GAME, bare=(*GAME.bots, BASE_MODEL))
    if isinstance(rival, str) or rival.is_dir():
        raise InputError(
            f"--opponents {name}: is a model, and one evaluation has one in memory; name bots, adapters on the model of"
            f" --ckpt, or {BASE_MODEL} for that model itself"
        )
    return rival


def _read(name: str, path: Path, own: AdapterFile, config: LanguageModelConfig) -> AdapterFile:
    from sparring.agents.llm.models.adapters import load_adapter
    from sparring.envs.diplomacy.prompts.prompts import PromptRules

    content = content_of(path)
    if content.get("format") != ADAPTER or not has_config(path.parent):
        raise InputError(
            f"--opponents {name}: {path} is no adapter of a run, with its config.yaml beside it; {INSTEAD}"
        )
    rival = load_adapter(path)
    if rival.base != own.base:
        raise InputError(f"--opponents {name}: was trained on another base model than --ckpt; {INSTEAD}")
    rules, shown = (PromptRules.of(one) for one in (config, config_of(path.parent)))
    differ = [f"model.{key}" for key in PromptRules.__dataclass_fields__ if getattr(rules, key) != getattr(shown, key)]
    if differ:
        raise InputError(
            f"--opponents {name}: was trained with other prompts than --ckpt ({', '.join(differ)}); {INSTEAD}"
        )
    return rival
