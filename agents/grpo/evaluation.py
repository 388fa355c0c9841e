"""Evaluation of the learner against fixed opponents, every `evaluation.every` training steps.

The game chooses the opponents (`TextGame.references`): in Diplomacy, six DumbBots and six copies of the base model,
against one learner. Every evaluation plays the same games with greedy decoding, so two evaluations differ only by what
was learned. `eval/run.py` plays more games and reports confidence intervals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sparring.agents.llm.decoding.constraint import constraint_of
from sparring.agents.llm.models.adapters import BASE, LEARNER, Adapters
from sparring.agents.llm.transformers_backend import TransformersBackend
from sparring.configs.schema import GRPORunConfig
from sparring.curriculum.league.league import BASE_MODEL, CHALLENGER
from sparring.envs.game import text_game
from sparring.envs.text import ReferenceTable


@dataclass(frozen=True)
class ReferenceResult:
    """Metrics of one evaluation, and the same numbers as a markdown table."""

    metrics: dict[str, float]
    table: str


class ReferenceEvaluation:
    """Evaluations of the learner adapter in `adapters`; `tokenizer` is the tokenizer of its model."""

    def __init__(self, config: GRPORunConfig, adapters: Adapters, tokenizer: Any, *, threads: int) -> None:
        self._config, self._threads = config, threads
        if config.evaluation.every:
            self._game = text_game(config.env.id)
            constraint = constraint_of(tokenizer, self._game.format)
            names = {CHALLENGER: LEARNER, BASE_MODEL: BASE}
            self._models = {
                name: TransformersBackend.of(
                    replace(config.model, temperature=0.0),
                    adapters.model,
                    tokenizer,
                    constraint=constraint,
                    playing=partial(adapters.playing, own),
                    name=name,
                )
                for name, own in names.items()
            }

    def is_due(self, done: int) -> bool:
        """Return whether an evaluation follows after `done` completed steps."""
        every = self._config.evaluation.every
        return every > 0 and done % every == 0

    def check(self) -> ReferenceResult:
        """Play all games and return their results. Raises `InputError` if the model cannot answer."""
        played = self._game.references(
            self._config, self._models, learner=CHALLENGER, base=BASE_MODEL, threads=self._threads
        )
        metrics = {
            f"eval/{played.prefix}{name}/{key}": value
            for name, part in played.found.items()
            for key, value in part.items()
        }
        return ReferenceResult(metrics, _table(played))


def _table(played: ReferenceTable) -> str:
    head = [played.heading, "games", *played.columns.values()]
    rows = [
        [name, str(played.games), *(f"{part[key]:.3g}" for key in played.columns)]
        for name, part in played.found.items()
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))
