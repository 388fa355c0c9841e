"""Who `--ckpt` means in Diplomacy, and language models made ready to play it.

A policy is a file, of our PPO or an adapter of GRPO, as its content says. A language model is an adapter on the model
that the run's config.yaml names, or a model's folder: what a run that cloned a bot leaves in final/, or any other, or
tiny or smollm2. Files are only looked for here, and read by `load`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.run_folder import FINAL, RunFolder
from configs.language import LanguageModelConfig
from configs.names import ConfigError, InputError
from configs.plain import from_plain
from curriculum.league import BASE_MODEL
from eval import find
from eval.diplomacy_players import load_policy
from eval.diplomacy_settings import Settings, configured, is_server, model_of
from eval.proposals import DIPLOMACY_GAME

if TYPE_CHECKING:
    from agents.llm.backend import Backend
    from agents.ppo.network import ActorCritic
    from envs.diplomacy.prompts import PromptRules

POLICY = "policy"
"""What the evaluated model is called among the players; `BASE_MODEL` is its model without the adapter."""
NAMED = ("tiny", "smollm2")
MODEL_FILE, MODEL_FOLDER = "config.json", "final"
ADAPTER = "sparring-adapter"
"""The format that an adapter's file says; `agents.llm.adapter_file` needs packages that a policy does without."""


@dataclass(frozen=True)
class LanguagePlayer:
    """A language model that can play: backends by player's name, and what it is shown."""

    models: Mapping[str, Backend]
    rules: PromptRules
    about: dict[str, Any]
    """What results say of it: its model, and how its adapter was trained."""


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


def load(
    found: Path | str, *, temperature: float, device: str, settings: Settings | None = None
) -> LanguagePlayer | ActorCritic:
    """What was found, ready to play; raises `InputError` for what cannot play Diplomacy or does not fit together."""
    given = settings or {}
    if isinstance(found, str):
        if is_server(found):
            return _served_model(found, temperature, given)
        return _plain_model(model_of(LanguageModelConfig(name=found), given), temperature, device)
    if found.is_dir():
        run = found.parent if found.name == MODEL_FOLDER else found
        config = _config(run) if has_config(run) else LanguageModelConfig()
        return _plain_model(model_of(replace(config, name=str(found)), given), temperature, device)
    if given:
        raise InputError(f"--set: {found} plays as it was trained; it is for models without an adapter, and servers")
    content = content_of(found)
    if content.get("format") != ADAPTER:
        return load_policy(found)
    if not has_config(found.parent):
        raise InputError(f"{found}: has no config.yaml beside it, which names its model; leave it in its run's folder")
    return _adapted_model(found, content, temperature, device)


def _served_model(url: str, temperature: float, settings: Settings) -> LanguagePlayer:
    """The model on a server, which is asked and tried at once."""
    from agents.llm.endpoint.backend import open_endpoint
    from envs.diplomacy.prompts import PromptRules

    config = configured({**settings, "endpoint": {**settings.get("endpoint", {}), "url": url}})
    config.model.temperature = temperature
    backend = open_endpoint(config)
    return LanguagePlayer({POLICY: backend}, PromptRules.of(config.model), {"model": backend.name})


def _plain_model(config: LanguageModelConfig, temperature: float, device: str) -> LanguagePlayer:
    """A model without an adapter, which is its own base model."""
    from agents.llm.models import load_model

    model, tokenizer = load_model(config, device=device)
    about = {"model": find.display_path(Path(config.name)) if config.name not in NAMED else config.name}
    return _player({POLICY: nullcontext, BASE_MODEL: nullcontext}, model, tokenizer, config, temperature, about)


def _adapted_model(path: Path, content: dict[str, Any], temperature: float, device: str) -> LanguagePlayer:
    """The adapter on its model, and the model as it is without it."""
    from agents.llm.models import check_packages, load_model

    check_packages()
    from agents.llm.adapter_file import adapter_of
    from agents.llm.adapters import BASE, LEARNER, Adapters

    config = _config(path.parent)
    model, tokenizer = load_model(config, device=device)
    adapter = adapter_of(path, content, model)
    adapters = Adapters(model, adapter.shape)
    adapters.restore(adapter.weights)
    playing = {POLICY: partial(adapters.playing, LEARNER), BASE_MODEL: partial(adapters.playing, BASE)}
    about = {"model": config.name, "training": adapter.training}
    return _player(playing, adapters.model, tokenizer, config, temperature, about)


def _player(
    playing: Mapping[str, Any],
    model: Any,
    tokenizer: Any,
    config: LanguageModelConfig,
    temperature: float,
    about: dict[str, Any],
) -> LanguagePlayer:
    """A backend for every name in `playing`, all on one model."""
    from agents.llm.constraint import Constraint
    from agents.llm.transformers_backend import TransformersBackend
    from envs.diplomacy.prompts import PromptRules

    asked, constraint = replace(config, temperature=temperature), Constraint(tokenizer)
    models = {
        name: TransformersBackend.of(asked, model, tokenizer, constraint=constraint, playing=how)
        for name, how in playing.items()
    }
    return LanguagePlayer(models, PromptRules.of(config), about)


def content_of(path: Path) -> dict[str, Any]:
    """What is in a file of tensors; nothing where it is none, which `load_policy` then has words for."""
    from curriculum.tensor_file import TensorFileError, unpack

    try:
        return unpack(path.read_bytes())
    except (OSError, TensorFileError):
        return {}


def has_config(run: Path) -> bool:
    """Whether a folder is a run's, with its configuration in it."""
    return find.holds(RunFolder(run).config.is_file)


def _config(run: Path) -> LanguageModelConfig:
    """The model of a run; a folder that is named from the repository on is found from anywhere."""
    folder = RunFolder(run)
    try:
        config = from_plain(folder.read_config()).model
    except ConfigError as error:
        raise InputError(f"{folder.config}: is no configuration of this version: {error}") from error
    inside = find.CHECKPOINTS.parent / config.name
    found = config.name not in NAMED and not Path(config.name).exists() and inside.exists()
    return replace(config, name=str(inside)) if found else config
