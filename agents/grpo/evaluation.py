"""How the learner does against players that do not change, every `evaluation.every` steps of its training.

What is played is the game's to say (`TextGame.references`): in Diplomacy, alone against six DumbBots and against six of
the base model. Every evaluation plays the same games with the likeliest token each time, so that two of them differ by
what was learned and nothing else; `eval/run.py` plays more of them, and gives intervals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sparring.agents.llm.decoding.constraint import Constraint
from sparring.agents.llm.models.adapters import BASE, LEARNER, Adapters
from sparring.agents.llm.transformers_backend import TransformersBackend
from sparring.configs.schema import GRPORunConfig
from sparring.curriculum.league.league import BASE_MODEL, CHALLENGER
from sparring.envs.game import text_game
from sparring.envs.text import ReferenceTable


@dataclass(frozen=True)
class ReferenceResult:
    """An evaluation's `metrics`, and the same as a markdown table."""

    metrics: dict[str, float]
    table: str


class ReferenceEvaluation:
    """Evaluations of the learner of `adapters`, whose model has this `tokenizer`."""

    def __init__(self, config: GRPORunConfig, adapters: Adapters, tokenizer: Any, *, threads: int) -> None:
        self._config, self._threads = config, threads
        if config.evaluation.every:
            self._game = text_game(config.env.id)
            constraint = Constraint(tokenizer, self._game.format)
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
        """Whether an evaluation follows the step that makes it `done` steps."""
        every = self._config.evaluation.every
        return every > 0 and done % every == 0

    def check(self) -> ReferenceResult:
        """Play all games and return their results. Raises `InputError` where the model cannot be asked."""
        played = self._game.references(
            self._config, self._models, learner=CHALLENGER, base=BASE_MODEL, threads=self._threads
        )
        metrics = {f"eval/vs_{name}/{key}": value for name, part in played.found.items() for key, value in part.items()}
        return ReferenceResult(metrics, _table(played))


def _table(played: ReferenceTable) -> str:
    head = ["against six of", "games", *played.columns.values()]
    rows = [
        [name, str(played.games), *(f"{part[key]:.3g}" for key in played.columns)]
        for name, part in played.found.items()
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))
