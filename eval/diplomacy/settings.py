"""Configuration of a player: options of `--set` for a language model or its server, and those of its run.

Games without a given last year end with that of the training: a policy trained in games to 1910 has no experience of
1911, and its results there are not comparable with its training. The last year is in a policy's own file; for an
adapter or a model's folder it is in the configuration of its run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparring.agents.opponents.players import MODEL_FOLDER, content_of
from sparring.agents.run.folder import RunFolder
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.core.files import holds
from sparring.configs.language import LanguageModelConfig
from sparring.configs.schema import DiplomacyGRPORunConfig, LanguageRunConfig
from sparring.configs.serialization import from_plain, from_stored, read_yaml, with_texts
from sparring.configs.validate import validate
from sparring.envs.diplomacy.board.codes import ENV_ID
from sparring.envs.diplomacy.board.positions import FIRST_YEAR, LAST_YEAR
from sparring.envs.diplomacy.validation import check_whole

SECTIONS = ("model", "endpoint")
Settings = Mapping[str, Mapping[str, Any]]
"""Sections, options and values."""


def read_settings(words: Sequence[str]) -> Settings:
    """Parse `model.compact=false endpoint.model=NAME`; raises `InputError` for other options."""
    settings: dict[str, dict[str, Any]] = {}
    for word in words:
        name, equals, value = word.partition("=")
        section, dot, option = name.partition(".")
        if not (equals and dot and option) or section not in SECTIONS:
            raise InputError("--set: give model.OPTION=VALUE or endpoint.OPTION=VALUE, such as model.compact=false")
        settings.setdefault(section, {})[option] = with_texts(read_yaml(value), value, name)
    configured(settings)
    return settings


def configured(settings: Settings) -> DiplomacyGRPORunConfig:
    """Build a configuration from settings; raises `InputError` for unknown options and wrong values."""
    config = from_plain({"trainer": "grpo", "env": {"id": ENV_ID}, **settings})
    validate(config)
    assert isinstance(config, DiplomacyGRPORunConfig)
    return config


def model_of(config: LanguageModelConfig, settings: Settings) -> LanguageModelConfig:
    """Override a model's options by `settings`; raises `InputError` for those of a server."""
    if "endpoint" in settings:
        raise InputError("--set endpoint: is for servers; give --ckpt its address, such as http://127.0.0.1:8000/v1")
    overrides = configured(settings).model
    return replace(config, **{name: getattr(overrides, name) for name in settings.get("model", {})})


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
        raise InputError(f"{folder.config}: is no configuration of this version: {error}") from error
    if not isinstance(config, LanguageRunConfig):
        raise InputError(f"{folder.config}: is of trainer={config.trainer}, which trains no language model")
    return config.model


def last_year_of(path: Path) -> int | None:
    """Return the last year of a file or folder from `find_player`, None if it has none.

    Raises `InputError` for an invalid year.
    """
    contract = None if path.is_dir() else content_of(path).get("contract")
    year = contract.get("last_year") if isinstance(contract, dict) else None
    if year is None and has_config(run := run_of(path)):
        env = RunFolder(run).read_config().get("env")
        year = env.get("last_year") if isinstance(env, dict) else None
    if year is None:
        return None
    try:
        return check_whole("last_year", year, FIRST_YEAR, LAST_YEAR)
    except InputError as error:
        raise InputError(f"{path}: {error}; give --last-year") from error
