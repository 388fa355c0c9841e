"""Language models as chess players, in this process or on a server: prompts and answers.

A model answers the P task as trained, or reads the position, the notation and the legal moves in English. It then
chooses from these under a constraint, or writes free text with its move in the last line. An illegal answer loses the
game or is replaced by a random move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import chess
import numpy as np

from sparring.agents.language import opponents as language
from sparring.agents.opponents.players import Player, display_name, is_server
from sparring.agents.run.folder import RunFolder
from sparring.configs.core.errors import InputError
from sparring.envs.chess import GAME
from sparring.envs.chess.analysis import analysis_prompt, read_analysis
from sparring.envs.chess.evaluation.options import ANALYSIS, MENU, REASONING
from sparring.envs.chess.positions import collapse, random_move, random_position
from sparring.envs.text import FreeText, Option, Prompt, mix
from sparring.envs.text_moves import OPENING, THINK, ActionMenu, move_format, read_decision

ENV = {"id": GAME.id}
TOKENS = {ANALYSIS: 128, REASONING: 256}
"""Maximum tokens of an answer if neither the options nor the training set it."""
SAMPLED = 4
"""Random games from which the number of decisions is estimated, for the price."""


@dataclass(frozen=True)
class ModelAnswers:
    """How a language model answers; `form` is empty for the usual one, `tokens` None for those of the training."""

    form: str = ""
    temperature: float = 0.0
    tokens: int | None = None
    settings: language.Settings = field(default_factory=dict)
    """Options of a server."""


@dataclass(frozen=True)
class MoveRequest:
    """A position with a legal move, and the seed of its draws."""

    board: chess.Board
    seed: int
    game: int = 0
    """Number of the game."""


@dataclass(frozen=True)
class ModelPlayer:
    """Plays the best move `B:` that a language model writes as an answer to the P task."""

    name: str
    backend: Any
    tokens: int
    """Most tokens of an answer."""

    def answer(self, requests: Sequence[MoveRequest]) -> list[str]:
        """Return the best moves of the model's analyses."""
        return [read_analysis(text).best for text in self.write(requests)]

    def write(self, requests: Sequence[MoveRequest]) -> list[str]:
        """Return the model's analyses as text, with runs of white space as one space."""
        return [collapse(decision.text) for decision in self.backend.decide(self.prompts(requests))]

    def prompts(self, requests: Sequence[MoveRequest]) -> list[Prompt]:
        """Return the model's prompt."""
        menu = FreeText(self.tokens, self.name)
        return [_asked(turn, analysis_prompt(turn.board.fen()), menu) for turn in requests]


@dataclass(frozen=True)
class MovePlayer:
    """Plays the move that a language model chooses from the legal ones, or says in the last line of free text."""

    name: str
    backend: Any
    form: str
    tokens: int
    kinds: Counter[str] = field(default_factory=Counter)
    """Answers by kind."""

    def answer(self, requests: Sequence[MoveRequest]) -> list[str]:
        """Return the moves; the kind of an answer in place of a move that is not legal."""
        moves, prompts = [], self.prompts(requests)
        for turn, prompt, decision in zip(requests, prompts, self.backend.decide(prompts), strict=True):
            read = read_decision(prompt.menu, decision, move_menu(turn.board))  # type: ignore[arg-type]
            self.kinds[read.kind] += 1
            moves.append(read.option.text if read.option else read.kind)
        return moves

    def prompts(self, requests: Sequence[MoveRequest]) -> list[Prompt]:
        """Return the model's prompt."""
        free = FreeText(self.tokens, self.name)
        return [
            _asked(turn, move_prompt(turn.board, self.form), move_menu(turn.board) if self.form == MENU else free)
            for turn in requests
        ]


def move_menu(board: chess.Board) -> ActionMenu:
    """Return the legal moves in UCI, in their alphabetical order."""
    moves = sorted(move.uci() for move in board.legal_moves)
    side = chess.COLOR_NAMES[board.turn]
    return ActionMenu(tuple(Option(move, number, 0) for number, move in enumerate(moves)), side)


def move_prompt(board: chess.Board, form: str) -> str:
    """Return the position and the legal moves in English."""
    moves = ", ".join(option.text for option in move_menu(board).options)
    return (
        "Chess. A move is written as its two squares, such as e2e4, with the piece of a promotion, such as e7e8q.\n"
        f"FEN: {board.fen()}\n{board}\nYou are {chess.COLOR_NAMES[board.turn]}. Capitals are White.\n"
        f"Legal moves: {moves}\n{OPENING if form == MENU else THINK}"
    )


def _probes() -> list[str]:
    squares = [f"{file}{rank}" for file in "abcdefgh" for rank in range(1, 9)]
    return [*(f"{square}{other}" for square, other in zip(squares, squares[::-1], strict=True)), "e7e8q", "a2b1n"]


CHESS_MOVES = move_format(_probes)
"""Format of a move from a menu."""


def _asked(turn: MoveRequest, text: str, menu: Any) -> Prompt:
    return Prompt(text, menu, turn.seed, seat=0 if turn.board.turn else 1, number=turn.game)


def open_model(located: Player, device: str, how: ModelAnswers) -> ModelPlayer | MovePlayer:
    """Open a located model; raises `InputError` for an unusable one."""
    if isinstance(located, str) and is_server(located):
        served, _, _ = language.open_served(located, ENV, how.settings, CHESS_MOVES, how.temperature)
        return _player(served.name, served, how, how.form or REASONING, {})
    from sparring.agents.language.models.load import check_packages

    check_packages()
    from sparring.agents.language.models.adapters import LEARNER

    config, task = language.config_of_player(located), _analysis_options(located)
    if (
        isinstance(located, Path)
        and not located.is_dir()
        and not (language.is_adapter(located) and language.has_config(language.run_of(located)))
    ):
        raise InputError(f"{located}: is not an adapter in its run's folder; give a run that trained a language model")
    loaded, form = language.load_language_model(located, config, device), how.form or ANALYSIS
    backend = loaded.backends(CHESS_MOVES if form == MENU else None, how.temperature, {"": LEARNER})[""]
    return _player(display_name(located), backend, how, form, task)


def _player(name: str, backend: Any, how: ModelAnswers, form: str, task: Mapping[str, Any]) -> ModelPlayer | MovePlayer:
    if form == ANALYSIS:
        return ModelPlayer(name, backend, how.tokens or int(task.get("max_tokens", TOKENS[form])))
    return MovePlayer(name, backend, form, how.tokens or TOKENS[REASONING])


def _analysis_options(located: Player) -> Mapping[str, Any]:
    """Return the options of the P task with which a model's run trained, empty if they are not known."""
    if isinstance(located, str) or not language.has_config(run := language.run_of(located)):
        return {}
    tasks = RunFolder(run).read_config().get("tasks")
    options = tasks.get("analysis") if isinstance(tasks, dict) else None
    return options if isinstance(options, dict) else {}


def sample_prompts(player: ModelPlayer | MovePlayer, *, plies: int, opening_plies: int, seed: int) -> list[Prompt]:
    """Return the prompts of one side in `SAMPLED` random games, half of them as White."""
    requests = []
    for number in range(SAMPLED):
        draw = np.random.default_rng(mix(seed, number))
        board = random_position(draw, opening_plies)
        while len(board.move_stack) < plies and not board.outcome():
            if board.turn == (number % 2 == 0):
                requests.append(MoveRequest(board.copy(stack=False), 0, number))
            board.push(random_move(board, draw) or chess.Move.null())
    return player.prompts(requests)
