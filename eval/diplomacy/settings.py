"""What `--set` says of a language model and of the server it is on, in the words of a run: `model.compact=false`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sparring.configs.core.errors import InputError
from sparring.configs.language import LanguageModelConfig
from sparring.configs.schema import RunConfig
from sparring.configs.serialization import from_plain, read_yaml
from sparring.configs.validate import validate
from sparring.envs.diplomacy.board.codes import ENV_ID

SECTIONS = ("model", "endpoint")
Settings = Mapping[str, Mapping[str, Any]]
"""Sections, options and values."""


def read_settings(words: Sequence[str]) -> Settings:
    """`model.compact=false endpoint.model=NAME` as options and values; raises `InputError` for others."""
    found: dict[str, dict[str, Any]] = {}
    for word in words:
        name, equals, value = word.partition("=")
        section, dot, option = name.partition(".")
        if not (equals and dot and option) or section not in SECTIONS:
            raise InputError("--set: give model.OPTION=VALUE or endpoint.OPTION=VALUE, such as model.compact=false")
        found.setdefault(section, {})[option] = read_yaml(value)
    configured(found)
    return found


def configured(settings: Settings) -> RunConfig:
    """The configuration that settings make; raises `InputError` for unknown options and wrong values."""
    config = from_plain({"trainer": "grpo", "env": {"id": ENV_ID}, **settings})
    validate(config)
    return config


def model_of(config: LanguageModelConfig, settings: Settings) -> LanguageModelConfig:
    """A model's own options, and those that were set; raises `InputError` for those of a server."""
    if "endpoint" in settings:
        raise InputError("--set endpoint: is for servers; give --ckpt its address, such as http://127.0.0.1:8000/v1")
    asked = configured(settings).model
    return replace(config, **{name: getattr(asked, name) for name in settings.get("model", {})})
