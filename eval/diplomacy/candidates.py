"""Whom a name means in Diplomacy, as files: a policy, an adapter, or a language model.

A policy is a file, of our PPO or an adapter of GRPO, as its content says. A language model is a model's folder, what a
run that cloned a bot leaves in final/ or any other, or tiny or smollm2 by their names, or a server by its address.
Nothing here loads a model: `diplomacy_models.py` does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparring.agents.run.folder import FINAL, RunFolder
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.language import LanguageModelConfig
from sparring.configs.serialization import from_plain
from sparring.eval import find
from sparring.eval.diplomacy.settings import is_server
from sparring.eval.suggestions import DIPLOMACY_GAME

NAMED = ("tiny", "smollm2")
MODEL_FILE, MODEL_FOLDER = "config.json", "final"
ADAPTER = "sparring-adapter"
"""The format in an adapter's file; `agents.llm.models.adapter_file` needs packages that a policy does without."""


def find_candidate(text: str) -> Path | str:
    """The file or model's folder that a person means, a model's name or server; raises `UnknownNameError`."""
    if is_server(text):
        return text
    places = (Path(), find.CHECKPOINTS.parent, find.CHECKPOINTS)
    folders = [place / path for path in (text, f"{text}/{MODEL_FOLDER}") for place in places]
    models = [folder for folder in folders if find.holds((folder / MODEL_FILE).is_file)]
    if models:
        return models[0].resolve()
    return text if text in NAMED else find.find_checkpoint(text, DIPLOMACY_GAME, NAMED)


def beside(found: Path | str) -> tuple[Path, str] | None:
    """Where results go that nobody gave a place, and their name; None for a model by its name, which has no place."""
    if isinstance(found, str):
        return None
    name = "eval" if found.name in (MODEL_FOLDER, FINAL) else f"eval.{found.stem}"
    return found.parent, name


def content_of(path: Path) -> dict[str, Any]:
    """What is in a file of tensors; nothing where it is none, which `load_policy` then has words for."""
    from sparring.configs.core.tensor_file import TensorFileError, unpack

    try:
        return unpack(path.read_bytes())
    except (OSError, TensorFileError):
        return {}


def has_config(run: Path) -> bool:
    """Whether a folder is a run's, with its configuration in it."""
    return find.holds(RunFolder(run).config.is_file)


def config_of(run: Path) -> LanguageModelConfig:
    """The model of a run."""
    folder = RunFolder(run)
    try:
        return from_plain(folder.read_config()).model
    except ConfigError as error:
        raise InputError(f"{folder.config}: is no configuration of this version: {error}") from error
