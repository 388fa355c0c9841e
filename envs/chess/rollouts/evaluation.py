"""Evaluation of models on held-out positions with greedy decoding, and the preview of a run without a model.

The preview shows splits, phases with their sampling, lengths and rewards of reference answers. Labels of P come from
the data's folder; without one, no P sample is shown, since labels need an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import chess
import numpy as np

from sparring.envs.chess import positions
from sparring.envs.chess.analysis import (
    LONGEST_ANSWER,
    MOST_MOVES,
    Analysis,
    Truth,
    read_analysis,
    read_analysis_prompt,
    score_analysis,
)
from sparring.envs.chess.arbiter import PART_COUNT, read_arbiter_prompt, score_transition, split_answer, true_transition
from sparring.envs.chess.config import ChessCloneRunConfig, ChessGRPORunConfig
from sparring.envs.chess.data.positions import HELD_OUT, TRAIN, PositionRecord
from sparring.envs.chess.data.samples import ANALYSIS, ARBITER, ChessSample, analysis_sample, arbiter_sample
from sparring.envs.chess.rollouts import sources
from sparring.envs.chess.rollouts.demonstrations import labelled
from sparring.envs.text import Prompt, ReferenceTable, TextPlayer

ChessRunConfig = ChessGRPORunConfig | ChessCloneRunConfig
COLUMNS = {
    ARBITER: {
        "arbiter_exact": "exact next position",
        "arbiter_legal": "possible position",
        "arbiter_similarity": "similarity",
        "arbiter_reward_text": "reward",
        "arbiter_invalid": "invalid",
    },
    ANALYSIS: {
        "analysis_reward": "reward of P",
        "analysis_best_legal": "legal best move",
        "analysis_best_equal": "engine's best move",
        "analysis_top_five": "of the top five",
        "analysis_invalid": "invalid P",
    },
}
SHOWN = 200
"""Number of evaluated samples per task."""
CountTokens = Callable[[str], int]


def references(
    config: ChessRunConfig, models: Mapping[str, TextPlayer], *, learner: str, base: str, threads: int
) -> ReferenceTable:
    """Measure the learner, and the base model if there is one, on the first `evaluation.games` held-out positions.

    The heading of the P reward names the engine, to distinguish the built-in search from Stockfish. Raises `InputError`
    if a model or the engine is not available.
    """
    records = sources.positions_of(config.env).positions[HELD_OUT][: config.evaluation.games]
    share = config.tasks.analysis_share
    tasks = [task for task, used in ((ARBITER, share < 1), (ANALYSIS, share > 0)) if used]
    names = [name for name in (learner, base) if name in models]
    means = {name: dict[str, float]() for name in names}
    for name in names:
        for task in tasks:
            means[name] |= measure(config, models[name], task, records)
    columns = {key: title for task in tasks for key, title in COLUMNS[task].items()}
    if ANALYSIS in tasks:
        columns["analysis_reward"] += f" ({sources.engine_of(config.env).name})"
    return ReferenceTable(columns, means, len(records), prefix="held_out/")


def measure(
    config: ChessRunConfig, model: TextPlayer, task: str, records: Sequence[PositionRecord]
) -> dict[str, float]:
    """Return the means of a model's facts over the prompts of `records`."""
    requests = [
        Prompt(sources.prompt_text(task, record), sources.free_text(config.tasks, task), seed)
        for seed, record in enumerate(records)
    ]
    texts = [decision.text for decision in model.decide(requests)]
    prompts = [prompt.text for prompt in requests]
    if task == ARBITER:
        rows = [arbiter_facts(*pair) for pair in zip(prompts, texts, strict=True)]
    else:
        engine = sources.engine_of(config.env)
        labels = labelled(config.env, tuple(records), 1.0)
        sources.search_ahead([(task, *pair) for pair in zip(prompts, texts, strict=True)], engine)
        parts = zip(prompts, texts, [record.fen for record in records], strict=True)
        rows = [analysis_facts(prompt, text, labels[fen], engine) for prompt, text, fen in parts if fen in labels]
    keys = dict.fromkeys(key for row in rows for key in row)
    return {key: float(np.mean([row[key] for row in rows if key in row])) for key in keys}


def arbiter_facts(prompt: str, text: str) -> dict[str, float]:
    """Compare an answer to the A task with the rules; `arbiter_reward_error` is absent without a number.

    An answer without exactly four parts is invalid and counts as wrong in every part. Never raises for any text.
    """
    question = read_arbiter_prompt(prompt)
    assert question is not None
    truth = true_transition(question.fen, question.move)
    parts = split_answer(positions.collapse(text)[:LONGEST_ANSWER])
    valid = len(parts) == PART_COUNT
    fen, reward, terminated, truncated = parts if valid else ("", "", "", "")
    board = positions.read_position(fen) if fen else None
    facts = {
        "arbiter_exact": positions.same_position(fen, truth.fen),
        "arbiter_legal": board is not None and board.is_valid(),
        "arbiter_similarity": positions.edit_similarity(fen, truth.fen),
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
    return {name: float(value) for name, value in (facts | error).items()}


def analysis_facts(prompt: str, text: str, label: Analysis, truth: Truth) -> dict[str, float]:
    """Compare an answer to the P task with the engine's `label`. Never raises for any text."""
    board = positions.possible_position(read_analysis_prompt(prompt))
    assert board is not None
    analysis = read_analysis(positions.collapse(text))
    values = {
        "analysis_best_legal": positions.read_legal_move(board, analysis.best) is not None,
        "analysis_best_equal": analysis.best == label.best,
        "analysis_top_five": len({*analysis.moves} & {*label.moves}) / MOST_MOVES,
        "analysis_invalid": not (analysis.best and analysis.moves and analysis.evaluations),
        "analysis_reward": score_analysis(prompt, text, truth).total,
    }
    return {name: float(value) for name, value in values.items()}


def preview(config: ChessGRPORunConfig | ChessCloneRunConfig, count_tokens: CountTokens) -> Iterator[str]:
    """Yield the lines of `dry_run=true`; `count_tokens` is for the game's own tokenizer. Raises `InputError`."""
    stored = sources.positions_of(config.env)
    yield from stored.positions.summary()
    if isinstance(config, ChessGRPORunConfig):
        yield from _schedule(config)
    records = stored.positions[TRAIN]
    yield from _measured(ARBITER, [arbiter_sample(record) for record in records[:SHOWN]], _arbiter_reward, count_tokens)
    labelled_records = [record for record in records if record.fen in stored.analyses][:SHOWN]
    samples = [analysis_sample(record, stored.analyses[record.fen]) for record in labelled_records]
    truth = LabelTruth({record.fen: stored.analyses[record.fen] for record in labelled_records})
    yield from _measured(
        ANALYSIS, samples, lambda sample: score_analysis(sample.prompt, sample.answer, truth).total, count_tokens
    )


def _schedule(config: ChessGRPORunConfig) -> Iterator[str]:
    grpo = config.grpo
    for number, phase in enumerate(sources.phases(config.tasks, grpo.steps), start=1):
        options = [(task, sources.sampling(config.tasks, task)) for task in phase.tasks.split("+")]
        drawn = "; ".join(
            f"{task}: temperature {sampled.temperature:g}, top-p {sampled.top_p:g}, at most {sampled.max_tokens} tokens"
            for task, sampled in options
        )
        size = f"{phase.steps} steps of {grpo.groups} prompts x {grpo.samples_per_group}"
        yield f"phase {number}: {phase.tasks}, {size}; {drawn}"


def _measured(
    task: str, samples: Sequence[ChessSample], reward: Callable[[ChessSample], float], count_tokens: CountTokens
) -> Iterator[str]:
    if not samples:
        yield f"{task}: no reference answers; create some with `python -m sparring.envs.chess.data` and labelled=N"
        return
    rewards = [reward(sample) for sample in samples]
    lengths = [[count_tokens(text) for text in (sample.prompt, sample.answer)] for sample in samples]
    (prompt, answer), (_, longest) = np.mean(lengths, axis=0), np.max(lengths, axis=0)
    yield (
        f"{task}: {len(samples)} reference answers, prompt {prompt:.1f} tokens, "
        f"answer {answer:.1f} (longest {longest}), "
        f"reward {np.mean(rewards):.4f} ({min(rewards):.4f} to {max(rewards):.4f})"
    )


def _arbiter_reward(sample: ChessSample) -> float:
    return score_transition(sample.prompt, sample.answer).total


class LabelTruth:
    """The labels' moves and values; `analyses` by FEN. The value after a move is the value of its line.

    An engine that searches the position after the move may find another value, so rewards are approximate.
    """

    def __init__(self, analyses: Mapping[str, Analysis]) -> None:
        self._analyses = dict(analyses)
        self._after = {
            positions.position_after(chess.Board(fen), chess.Move.from_uci(move)).fen(): -value
            for fen, analysis in analyses.items()
            for move, value in zip(analysis.moves, analysis.evaluations, strict=True)
        }

    def top_moves(self, board: chess.Board, count: int) -> list[tuple[str, float]]:
        """Return the label's moves, best first."""
        analysis = self._analyses[board.fen()]
        lines = zip(analysis.moves, analysis.evaluations, strict=True)
        return sorted(lines, key=lambda line: (line[0] != analysis.best, -line[1]))[:count]

    def value(self, board: chess.Board) -> float:
        """Return the value of a position after one of the label's moves; 0 for any other."""
        return self._after.get(board.fen(), 0.0)
