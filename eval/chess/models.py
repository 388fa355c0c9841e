"""Language models of `--ckpt` as chess players: an adapter of a run, a supervised run's model, a folder, or a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from sparring.agents.llm.models.adapters import LEARNER, Adapters, load_adapter
from sparring.agents.llm.models.load import check_packages, load_model
from sparring.agents.llm.transformers_backend import TransformersBackend
from sparring.agents.opponents.players import Player, content_of, display_name
from sparring.agents.run.folder import RunFolder
from sparring.configs.core.errors import InputError
from sparring.configs.language import ADAPTER, LanguageModelConfig
from sparring.eval.chess.games import ModelPlayer
from sparring.eval.diplomacy.settings import config_of, has_config, run_of

TOKENS = 128
"""Most tokens of an answer of a model whose training does not say."""


@dataclass(frozen=True)
class _LoadedModel:
    config: LanguageModelConfig
    model: Any
    tokenizer: Any
    task: Mapping[str, Any] = field(default_factory=dict)
    """Options of the P task with which it trained; empty if they are not known."""
    playing: Callable[[], AbstractContextManager[Any]] = nullcontext


def load_player(located: Player, device: str, *, temperature: float = 0.0, tokens: int | None = None) -> ModelPlayer:
    """Load a model, ready to play; raises `InputError` for files that hold none.

    `tokens` is the most of an answer; None: those of the training.
    """
    one = _load(located, device)
    decoding, how = replace(one.config, temperature=temperature), {"playing": one.playing}
    backend = TransformersBackend.of(decoding, one.model, one.tokenizer, constraint=None, **how)
    most = tokens or int(one.task.get("max_tokens", TOKENS))
    return ModelPlayer(display_name(located), backend, bool(one.task.get("padded", True)), most)


def _load(located: Player, device: str) -> _LoadedModel:
    if isinstance(located, str):
        return _plain(LanguageModelConfig(name=located), device)
    run = run_of(located)
    config = config_of(run) if has_config(run) else LanguageModelConfig()
    task = _analysis_options(run)
    if located.is_dir():
        return _plain(replace(config, name=str(located)), device, task)
    check_packages()
    content = content_of(located)
    if content.get("format") != ADAPTER or not has_config(run):
        raise InputError(f"{located}: is no adapter in the folder of its run; give a run that trained a language model")
    model, tokenizer = load_model(config, device=device)
    adapter = load_adapter(located, model)
    adapters = Adapters(model, adapter.shape)
    adapters.restore(adapter.weights)
    return _LoadedModel(config, adapters.model, tokenizer, task, partial(adapters.playing, LEARNER))


def _plain(config: LanguageModelConfig, device: str, task: Mapping[str, Any] | None = None) -> _LoadedModel:
    return _LoadedModel(config, *load_model(config, device=device), task=task or {})


def _analysis_options(run: Path) -> Mapping[str, Any]:
    """Return the options of the P task with which a run trained, empty if it does not say."""
    if not has_config(run):
        return {}
    tasks = RunFolder(run).read_config().get("tasks")
    options = tasks.get("analysis") if isinstance(tasks, dict) else None
    return options if isinstance(options, dict) else {}
