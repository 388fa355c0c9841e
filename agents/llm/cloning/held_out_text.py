"""Held-out prompts that are answered in free text, scored by the game itself, with greedy decoding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sparring.agents.llm.transformers_backend import TransformersBackend
from sparring.configs.schema import CloneRunConfig
from sparring.envs.text import ReferenceTable, TextGame

STUDENT = "student"


class HeldOutText:
    """Held-out prompts of `game` for a model in training with `tokenizer`."""

    def __init__(self, config: CloneRunConfig, game: TextGame, tokenizer: Any, *, threads: int) -> None:
        self._config, self._game, self._tokenizer, self._threads = config, game, tokenizer, threads
        self._found: ReferenceTable | None = None

    def check(self, model: Any) -> dict[str, float]:
        """Answer all prompts; return the game's metrics as `eval/held_out/...`."""
        greedy = replace(self._config.model, temperature=0.0)
        student = TransformersBackend.of(greedy, model, self._tokenizer, constraint=None, name=STUDENT)
        names = {"learner": STUDENT, "base": ""}
        self._found = self._game.references(self._config, {STUDENT: student}, **names, threads=self._threads)
        return {f"eval/held_out/{name}": value for name, value in self._found.found[STUDENT].items()}

    def describe(self, found: dict[str, float]) -> str:
        """Return the metrics of a `check` in words."""
        assert self._found is not None
        parts = (f"{title} {found[f'eval/held_out/{name}']:.4g}" for name, title in self._found.columns.items())
        return f"{self._found.games} held-out prompts: {', '.join(parts)}"
