"""Language models as players: tiny, smollm2, a model's folder, or an adapter on the model that its run names.

A run's `config.yaml` beside an adapter says which model it is on, and how prompts are written. Here models are loaded;
each game wraps them as its own players.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparring.agents.opponents.players import MODEL_FOLDER, Player, content_of
from sparring.agents.run.folder import RunFolder
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.core.files import holds
from sparring.configs.games import ADAPTER
from sparring.configs.language import EndpointConfig, LanguageModelConfig
from sparring.configs.language.runs import GRPORunConfig, LanguageRunConfig
from sparring.configs.serialization import from_plain, from_stored, read_section, read_yaml, with_texts
from sparring.configs.validate import validate
from sparring.envs.text import TextFormat

if TYPE_CHECKING:
    from sparring.agents.language.endpoint.backend import EndpointBackend
    from sparring.agents.language.models.adapters import AdapterFile, Adapters
    from sparring.agents.language.transformers_backend import TransformersBackend

POLICY = "--ckpt"
"""Name of the evaluated model among the players of a game, which no run can have; `BASE_MODEL` is without adapter."""
INSTEAD = "play each against the same bots and compare the tables"
SECTIONS = ("model", "endpoint")
"""Of the configuration, for `--set`."""
Settings = Mapping[str, Mapping[str, Any]]
"""Sections, options and values."""


@dataclass(frozen=True)
class LoadedModel:
    """A language model in memory."""

    config: LanguageModelConfig
    model: Any
    tokenizer: Any
    adapters: Adapters | None = None
    """Its adapters, the one that was loaded as the learner; None for a model without any."""
    file: AdapterFile | None = None

    def playing(self, name: str) -> Callable[[], AbstractContextManager[Any]]:
        """Return the context in which the adapter `name` answers; of a model without adapters it is always itself."""
        return partial(self.adapters.playing, name) if self.adapters else nullcontext

    def backends(
        self, text_format: TextFormat | None, temperature: float, called: Mapping[str, str]
    ) -> dict[str, TransformersBackend]:
        """Return a backend for each name in `called`, whose values are the names of its adapters."""
        from sparring.agents.language.decoding.constraint import constraint_of
        from sparring.agents.language.transformers_backend import TransformersBackend

        decoding, constraint = replace(self.config, temperature=temperature), constraint_of(self.tokenizer, text_format)
        return {
            name: TransformersBackend.of(
                decoding, self.model, self.tokenizer, constraint=constraint, playing=self.playing(adapter)
            )
            for name, adapter in called.items()
        }


def is_adapter(path: Path) -> bool:
    """Return whether a player's file is an adapter."""
    return content_of(path).get("format") == ADAPTER


def config_of_player(player: Player) -> LanguageModelConfig:
    """Return the options of a model: its run's, where it has one, with a folder or a name in place of the model."""
    if isinstance(player, str):
        return LanguageModelConfig(name=player)
    run = run_of(player)
    config = config_of(run) if has_config(run) else LanguageModelConfig()
    return replace(config, name=str(player)) if player.is_dir() else config


def load_language_model(player: Player, config: LanguageModelConfig, device: str) -> LoadedModel:
    """Load a model, with its adapter if the player is a file. Raises `InputError` for what cannot be loaded."""
    from sparring.agents.language.models.load import load_model

    model, tokenizer = load_model(config, device=device)
    if isinstance(player, str) or player.is_dir():
        return LoadedModel(config, model, tokenizer)
    from sparring.agents.language.models.adapters import Adapters, load_adapter

    file = load_adapter(player, model)
    adapters = Adapters(model, file.shape)
    adapters.restore(file.weights)
    return LoadedModel(config, adapters.model, tokenizer, adapters, file)


def run_of(path: Path) -> Path:
    """Return the folder of the run that a player's file or a model's folder belongs to, if any."""
    return path if path.is_dir() and path.name != MODEL_FOLDER else path.parent


def has_config(run: Path) -> bool:
    """Return whether a folder is a run's and holds its configuration."""
    return holds(RunFolder(run).config.is_file)


def config_of(run: Path) -> LanguageModelConfig:
    """Return the model of a run; raises `InputError` for a configuration of another version."""
    folder = RunFolder(run)
    try:
        config = from_stored(folder.read_config())
    except ConfigError as error:
        raise InputError(f"{folder.config}: not a configuration of this version: {error}") from error
    if not isinstance(config, LanguageRunConfig):
        raise InputError(f"{folder.config}: trainer={config.trainer} does not train a language model")
    return config.model


def configured(env: Mapping[str, Any], settings: Settings) -> LanguageModelConfig:
    """Build a model's options in the game of `env`; raises `InputError` for unknown options and wrong values."""
    config = from_plain({"trainer": "grpo", "env": {**env}, "model": settings.get("model", {})})
    validate(config)
    assert isinstance(config, GRPORunConfig)
    return config.model


def overridden(config: LanguageModelConfig, env: Mapping[str, Any], settings: Settings) -> LanguageModelConfig:
    """Override a model's options by `settings`; raises `InputError` for those of a server."""
    if "endpoint" in settings:
        raise InputError("--set endpoint: is for servers; pass the address as --ckpt, such as http://127.0.0.1:8000/v1")
    overrides = configured(env, settings)
    return replace(config, **{name: getattr(overrides, name) for name in settings.get("model", {})})


def open_served(
    url: str, env: Mapping[str, Any], settings: Settings, text_format: TextFormat, temperature: float
) -> tuple[EndpointBackend, LanguageModelConfig, EndpointConfig]:
    """Open the model on a server, which is probed at once; return it with its options."""
    from sparring.agents.language.endpoint.backend import open_endpoint

    endpoint = served({"endpoint": {**settings.get("endpoint", {}), "url": url}})
    model = replace(configured(env, settings), temperature=temperature)
    return open_endpoint(endpoint, model, text_format), model, endpoint


def settings_of(pairs: Iterable[tuple[str, str]], env: Mapping[str, Any]) -> Settings:
    """Return settings of names such as model.compact and values; raises `InputError` for other options."""
    settings: dict[str, dict[str, Any]] = {}
    for name, value in pairs:
        section, dot, option = name.partition(".")
        if not (dot and option) or section not in SECTIONS:
            raise InputError("--set: use model.OPTION=VALUE or endpoint.OPTION=VALUE, such as model.compact=false")
        read = with_texts(read_yaml(value), value, name)
        is_text = section == "endpoint" and isinstance(getattr(EndpointConfig, option, None), str)
        settings.setdefault(section, {})[option] = value if is_text and not isinstance(read, str) else read
    configured(env, settings)
    served(settings)
    return settings


def served(settings: Settings) -> EndpointConfig:
    """Build a server's options from settings; raises `InputError` for unknown options and wrong values."""
    config: EndpointConfig = read_section(EndpointConfig, settings.get("endpoint", {}), "endpoint")
    config.check()
    return config
