"""Evaluation of models on held-out positions with greedy decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sparring.configs.schema import ChessCloneRunConfig, ChessGRPORunConfig
from sparring.envs.chess.analysis_text import analysis_prompt
from sparring.envs.chess.data.games import PositionRecord
from sparring.envs.chess.data.samples import ANALYSIS, ARBITER, arbiter_sample
from sparring.envs.chess.data.splits import HELD_OUT
from sparring.envs.chess.text_tasks.demonstrations import labelled
from sparring.envs.chess.text_tasks.schedule import free_text
from sparring.envs.chess.text_tasks.scoring import analysis_facts, arbiter_facts, search_ahead
from sparring.envs.chess.text_tasks.sources import engine_of, positions_of
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


def references(
    config: ChessRunConfig, models: Mapping[str, TextPlayer], *, learner: str, base: str, threads: int
) -> ReferenceTable:
    """Measure the learner, and the base model if there is one, on the first `evaluation.games` held-out positions.

    The heading of the P reward names the engine, so that the built-in search is never taken for Stockfish.
    Raises `InputError` if a model or the engine is not available.
    """
    records = positions_of(config.env).positions[HELD_OUT][: config.evaluation.games]
    share = config.tasks.analysis_share
    tasks = [task for task, used in ((ARBITER, share < 1), (ANALYSIS, share > 0)) if used]
    names = [name for name in (learner, base) if name in models]
    found = {name: dict[str, float]() for name in names}
    for name in names:
        for task in tasks:
            found[name] |= measure(config, models[name], task, records)
    columns = {key: title for task in tasks for key, title in COLUMNS[task].items()}
    if ANALYSIS in tasks:
        columns["analysis_reward"] += f" ({engine_of(config.env).name})"
    return ReferenceTable(columns, found, len(records), prefix="held_out/")


def measure(
    config: ChessRunConfig, model: TextPlayer, task: str, records: Sequence[PositionRecord]
) -> dict[str, float]:
    """Return the means of a model's facts over the prompts of `records`."""
    asked = [
        Prompt(_text(config, task, record), free_text(config.tasks, task), seed) for seed, record in enumerate(records)
    ]
    texts = [decision.text for decision in model.decide(asked)]
    prompts = [prompt.text for prompt in asked]
    if task == ARBITER:
        rows = [arbiter_facts(*pair) for pair in zip(prompts, texts, strict=True)]
    else:
        engine = engine_of(config.env)
        labels = labelled(config.env, tuple(records), 1.0)
        search_ahead([(task, *pair) for pair in zip(prompts, texts, strict=True)], engine)
        parts = zip(prompts, texts, records, strict=True)
        rows = [
            analysis_facts(prompt, text, labels[one.fen], engine) for prompt, text, one in parts if one.fen in labels
        ]
    keys = dict.fromkeys(key for row in rows for key in row)
    return {key: float(np.mean([row[key] for row in rows if key in row])) for key in keys}


def _text(config: ChessRunConfig, task: str, record: PositionRecord) -> str:
    if task == ARBITER:
        return arbiter_sample(record).prompt
    return analysis_prompt(record.fen, padded=config.tasks.analysis.padded)
