"""Evaluation in training: exact exploitability of the learner and its base model, at the temperature of training."""

from __future__ import annotations

from collections.abc import Mapping

from sparring.envs.openspiel_text.config import MENU, OpenSpielGRPORunConfig
from sparring.envs.openspiel_text.exact import TextDecisions, figures
from sparring.envs.text import PolicyPlayer, ReferenceTable

UNIFORM = "uniform"
"""Row of uniform play among the legal actions."""
COLUMNS = {"exploitability": "exploitability", "nash_conv": "NashConv"}
SEED = 0


def references(
    config: OpenSpielGRPORunConfig, models: Mapping[str, PolicyPlayer], *, learner: str, base: str, threads: int
) -> ReferenceTable:
    """Compute the figures of the learner, of the base model if there is one, and of uniform play.

    Free text is sampled `evaluation.games` times at each information state. Raises `InputError` for a game that is too
    large, and if a model is not available.
    """
    decisions = TextDecisions.of(config.env.id, config.env.kwargs, config.env.answer)
    tables = {}
    for name in (name for name in (learner, base) if name in models):
        model = models[name].at(config.model.temperature)
        if config.env.answer.form == MENU:
            tables[name] = decisions.exact(model.policies)
        else:
            tables[name] = decisions.sampled(model.decide, config.evaluation.games, SEED).table()
    tables[UNIFORM] = decisions.tree.uniform()
    rows = {}
    for name, table in tables.items():
        row = figures(decisions.tree, table)
        rows[name] = {key: row[key] for key in COLUMNS}
    return ReferenceTable(COLUMNS, rows, 0, prefix="exact/")
