"""Preview of a run, without a model: splits, phases with their sampling, lengths and rewards of reference answers.

Labels of P come from the data's folder; without one, no P sample is shown, since labels need an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from sparring.configs.schema import ChessCloneRunConfig, ChessGRPORunConfig
from sparring.envs.chess.analysis_reward import score_analysis
from sparring.envs.chess.arbiter_reward import score_transition
from sparring.envs.chess.data.reference_truth import LabelTruth
from sparring.envs.chess.data.samples import ANALYSIS, ARBITER, ChessSample, analysis_sample, arbiter_sample
from sparring.envs.chess.data.splits import TRAIN
from sparring.envs.chess.text_tasks.schedule import phases, sampling
from sparring.envs.chess.text_tasks.sources import positions_of

SHOWN = 200
"""Samples of each task that are measured."""
CountTokens = Callable[[str], int]


def preview(config: ChessGRPORunConfig | ChessCloneRunConfig, count_tokens: CountTokens) -> Iterator[str]:
    """Yield the lines of `dry_run=true`; `count_tokens` is that of the game's own tokenizer. Raises `InputError`."""
    stored = positions_of(config.env)
    yield from stored.positions.summary()
    if isinstance(config, ChessGRPORunConfig):
        yield from _schedule(config)
    records = stored.positions[TRAIN]
    yield from _measured(ARBITER, [arbiter_sample(record) for record in records[:SHOWN]], _arbiter_reward, count_tokens)
    known = [record for record in records if record.fen in stored.analyses][:SHOWN]
    padded = config.tasks.analysis.padded
    samples = [analysis_sample(record, stored.analyses[record.fen], padded=padded) for record in known]
    truth = LabelTruth({record.fen: stored.analyses[record.fen] for record in known})
    yield from _measured(
        ANALYSIS, samples, lambda one: score_analysis(one.prompt, one.answer, truth).total, count_tokens
    )


def _schedule(config: ChessGRPORunConfig) -> Iterator[str]:
    grpo = config.grpo
    for number, phase in enumerate(phases(config.tasks, grpo.steps), start=1):
        options = [(task, sampling(config.tasks, task)) for task in phase.tasks.split("+")]
        drawn = "; ".join(
            f"{task}: temperature {one.temperature:g}, top-p {one.top_p:g}, at most {one.max_tokens} tokens"
            for task, one in options
        )
        size = f"{phase.steps} steps of {grpo.groups} prompts x {grpo.samples_per_group}"
        yield f"phase {number}: {phase.tasks}, {size}; {drawn}"


def _measured(
    task: str, samples: Sequence[ChessSample], reward: Callable[[ChessSample], float], count_tokens: CountTokens
) -> Iterator[str]:
    if not samples:
        yield f"{task}: no reference answers here; `python -m sparring.envs.chess.data` with labelled=N makes some"
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
