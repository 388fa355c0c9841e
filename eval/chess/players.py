"""The one place where a name, a file or a Python object becomes a player of chess.

Bots are random play, the built-in search and Stockfish. A language model is an adapter of a run, a supervised run's
model, a folder, or a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparring.agents.opponents.language import (
    config_of_player,
    has_config,
    is_adapter,
    load_language_model,
    run_of,
)
from sparring.agents.opponents.players import BOT_PREFIX, Player, display_name
from sparring.agents.run.folder import RunFolder
from sparring.configs.core.errors import InputError
from sparring.configs.opponents import named_source, source_name
from sparring.envs.chess.engines.engine import BUILT_IN, open_engine
from sparring.eval.chess.games import ChessPlayer, EnginePlayer, ModelPlayer, PythonPlayer, RandomPlayer
from sparring.eval.chess.options import PYTHON, RANDOM, STOCKFISH, BotName, find_chess_player

TOKENS = 128
"""Most tokens of an answer of a model whose training does not say."""


def open_player(
    x: Any,
    device: str = "cpu",
    *,
    opened: ExitStack | None = None,
    engine: str = "",
    cache: Path | None = None,
    temperature: float = 0.0,
    tokens: int | None = None,
) -> ChessPlayer:
    """Return the player that `x` means; raises `InputError` for an unknown or unusable one.

    `opened` closes a bot's engine, whose name has its version and depth, and says if another stands in for it. `engine`
    is the path of a UCI engine, "" for Stockfish on the PATH, and `cache` the file that keeps what it finds.
    `temperature` and `tokens`, the most of an answer (None: those of the training), are of language models.
    """
    if isinstance(x, str):
        x = find_chess_player(x)
    if isinstance(x, BotName):
        return _open_bot(x, opened or ExitStack(), engine, cache)
    if isinstance(x, str | Path):
        return _load_model(x, device, temperature, tokens)
    return PythonPlayer(x, source_name(x))


def _open_bot(bot: BotName, opened: ExitStack, engine: str, cache: Path | None) -> ChessPlayer:
    if bot.kind == PYTHON:
        return PythonPlayer(named_source(bot.text), bot.text)
    if bot.kind == RANDOM:
        return RandomPlayer()
    path, depth = (engine, bot.depth) if bot.kind == STOCKFISH else (BUILT_IN, 1)
    searcher = opened.enter_context(open_engine(path, depth=depth, cache=cache))
    return EnginePlayer(f"{bot.text.removeprefix(BOT_PREFIX)} ({searcher.name})", searcher)


def _load_model(located: Player, device: str, temperature: float, tokens: int | None) -> ModelPlayer:
    from sparring.agents.llm.models.load import check_packages

    check_packages()
    from sparring.agents.llm.models.adapters import LEARNER
    from sparring.agents.llm.transformers_backend import TransformersBackend

    config, task = config_of_player(located), _analysis_options(located)
    if isinstance(located, Path) and not located.is_dir() and not (is_adapter(located) and has_config(run_of(located))):
        raise InputError(f"{located}: is no adapter in the folder of its run; give a run that trained a language model")
    loaded = load_language_model(located, config, device)
    decoding = replace(config, temperature=temperature)
    playing = loaded.playing(LEARNER)
    backend = TransformersBackend.of(decoding, loaded.model, loaded.tokenizer, constraint=None, playing=playing)
    most = tokens or int(task.get("max_tokens", TOKENS))
    return ModelPlayer(display_name(located), backend, bool(task.get("padded", True)), most)


def _analysis_options(located: Player) -> Mapping[str, Any]:
    """Return the options of the P task with which a model's run trained, empty if they are not known."""
    if isinstance(located, str) or not has_config(run := run_of(located)):
        return {}
    tasks = RunFolder(run).read_config().get("tasks")
    options = tasks.get("analysis") if isinstance(tasks, dict) else None
    return options if isinstance(options, dict) else {}
