"""Rewards of answers to both tasks, and the facts about them that evaluations report."""

from __future__ import annotations

from collections.abc import Sequence

import chess

from sparring.configs.core.errors import InputError
from sparring.envs.chess.analysis_reward import Truth, score_analysis
from sparring.envs.chess.analysis_text import (
    LONGEST_ANSWER,
    MOST_MOVES,
    Analysis,
    read_analysis,
    read_analysis_prompt,
)
from sparring.envs.chess.arbiter_reward import PART_COUNT, score_transition
from sparring.envs.chess.arbiter_text import read_arbiter_prompt, split_answer, true_transition
from sparring.envs.chess.data.samples import ANALYSIS
from sparring.envs.chess.engines.engine import Engine
from sparring.envs.chess.positions import (
    collapse,
    edit_similarity,
    possible_position,
    read_legal_move,
    read_position,
    same_position,
)

Answer = tuple[str, str, str]
"""Task, prompt and answer."""


def reward_of(answer: Answer, truth: Truth | None) -> float:
    """Return the reward of an answer; `truth` may be None for the A task. Raises `InputError` if the engine fails."""
    task, prompt, text = answer
    if task != ANALYSIS:
        return score_transition(prompt, text).total
    assert truth is not None
    return score_analysis(prompt, text, truth).total


def search_ahead(answers: Sequence[Answer], engine: Engine) -> None:
    """Search all positions that the rewards of `answers` need, in parallel; failures appear when they are used."""
    boards, after = list[chess.Board](), list[chess.Board]()
    for task, prompt, text in answers:
        board = possible_position(read_analysis_prompt(prompt)) if task == ANALYSIS else None
        if board is not None:
            boards.append(board)
            legal = (read_legal_move(board, move) for move in read_analysis(collapse(text)).moves)
            after += [_after(board, move) for move in legal if move]
    try:
        engine.batch_top_moves(boards, MOST_MOVES)
        engine.batch_values(after)
    except InputError:
        return


def arbiter_facts(prompt: str, text: str) -> dict[str, float]:
    """Compare an answer to the A task with the rules; `arbiter_reward_error` is absent without a number.

    An answer without exactly four parts is invalid and counts as wrong in every part. Never raises for any text.
    """
    question = read_arbiter_prompt(prompt)
    assert question is not None
    truth = true_transition(question.fen, question.move)
    parts = split_answer(collapse(text[:LONGEST_ANSWER]))
    valid = len(parts) == PART_COUNT
    fen, reward, terminated, truncated = parts if valid else ("", "", "", "")
    board = read_position(fen) if fen else None
    found = {
        "arbiter_exact": same_position(fen, truth.fen),
        "arbiter_legal": board is not None and board.is_valid(),
        "arbiter_similarity": edit_similarity(fen, truth.fen),
        "arbiter_reward_text": reward == truth.reward,
        "arbiter_terminated": terminated == truth.terminated,
        "arbiter_truncated": truncated == truth.truncated,
        "arbiter_invalid": not valid,
        "arbiter_reward": score_transition(prompt, text).total,
    }
    try:
        error = {"arbiter_reward_error": abs(float(reward) - float(truth.reward))}
    except ValueError:
        error = {}
    return {name: float(value) for name, value in (found | error).items()}


def analysis_facts(prompt: str, text: str, label: Analysis, truth: Truth) -> dict[str, float]:
    """Compare an answer to the P task with the engine's `label`. Never raises for any text."""
    board = possible_position(read_analysis_prompt(prompt))
    assert board is not None
    found = read_analysis(collapse(text))
    values = {
        "analysis_best_legal": read_legal_move(board, found.best) is not None,
        "analysis_best_equal": found.best == label.best,
        "analysis_top_five": len({*found.moves} & {*label.moves}) / MOST_MOVES,
        "analysis_invalid": not (found.best and found.moves and found.evaluations),
        "analysis_reward": score_analysis(prompt, text, truth).total,
    }
    return {name: float(value) for name, value in values.items()}


def _after(board: chess.Board, move: chess.Move) -> chess.Board:
    after = board.copy(stack=False)
    after.push(move)
    return after
