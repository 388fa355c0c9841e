"""Text interface of chess, for its descriptor in `envs/chess/__init__.py`."""

from __future__ import annotations

from collections.abc import Sequence

from sparring.configs.core.errors import InputError
from sparring.configs.schema import ChessCloneRunConfig
from sparring.envs.chess.data.splits import TRAIN
from sparring.envs.chess.text_tasks.corpus import PIECES, corpus
from sparring.envs.chess.text_tasks.demonstrations import ChessDemonstrations
from sparring.envs.chess.text_tasks.dry_run import preview
from sparring.envs.chess.text_tasks.references import references
from sparring.envs.chess.text_tasks.task import ChessTask
from sparring.envs.text import Option, Prompt, TextGame


def demonstrations(config: ChessCloneRunConfig, *, games: int, seed: int, threads: int = 1) -> ChessDemonstrations:
    """Return reference answers for the training positions."""
    return ChessDemonstrations(config, TRAIN, games=games, seed=seed)


def bot_answers(name: str, prompts: Sequence[Prompt], *, threads: int = 1) -> list[tuple[Option, ...]]:
    """Refuse: scripted players have no answers to the text tasks. Raises `InputError`."""
    raise InputError(f"player {name!r}: scripted players of chess answer no prompts; give a language model")


CHESS = TextGame(
    format=None,
    corpus=corpus,
    task=ChessTask,
    demonstrations=demonstrations,
    references=references,
    bot_answers=bot_answers,
    pieces=PIECES,
    preview=preview,
)
