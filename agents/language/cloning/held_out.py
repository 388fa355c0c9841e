"""Agreement of a clone with its bot in held-out games, over legal lines only; free text is scored by the game.

A line counts as the bot's if the bot's token is the likeliest allowed token at each of its steps, given the bot's
earlier lines. Bots are random, so no clone can always be right: `agreement` is the share of lines that the bot repeats
with other draws.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.agents.language.backend import Decision
from sparring.agents.language.cloning.dataset import CloneDataset, Example
from sparring.agents.language.decoding.constraint import Constraint, encode
from sparring.agents.language.decoding.scoring import TokenBatch, collate, score
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.configs.language.runs import CloneRunConfig
from sparring.envs.text import Demonstration, FreeText, ReferenceTable, TextFormat, TextGame

PHASES, BATCH = 4, 64
"""Steps of each game, and decisions scored at once."""
STUDENT = "student"


class HeldOut:
    """Held-out decisions: four steps of each game of `dataset.games`; `orders` is the number of lines."""

    def __init__(self, dataset: CloneDataset, tokenizer: Any, text_format: TextFormat) -> None:
        constraint, line_end = Constraint(tokenizer, text_format), encode(tokenizer, ["\n"])[0][0]
        decisions, same, self.orders = [], 0, 0
        for _ in range(PHASES):
            positions = dataset.games.next(twice=True)
            examples = chain.from_iterable(dataset.examples(positions))
            for demonstration, example in zip(chain.from_iterable(positions), examples, strict=True):
                decisions.append(_decision(constraint, demonstration, example))
                # Count lines that the bot repeats with other draws.
                same += sum((Counter(demonstration.chosen) & Counter(demonstration.again)).values())
                self.orders += demonstration.menu.lines
        self.agreement = same / self.orders
        decisions.sort(key=lambda decision: len(decision.prompt_ids) + len(decision.token_ids))
        parts = [decisions[begin : begin + BATCH] for begin in range(0, len(decisions), BATCH)]
        self._parts = [_part(part, line_end) for part in parts]

    def describe(self, metrics: dict[str, float]) -> str:
        """Return the metrics of a `check` in words."""
        right, agreement = metrics["eval/held_out/accuracy"], metrics["eval/held_out/bot_agreement"]
        return (
            f"{right:.1%} of {self.orders} held-out orders are as imitated (repeated, asked twice: {agreement:.1%}), "
            f"{metrics['eval/held_out/order_loss']:.3f} nats an order"
        )

    @torch.no_grad()
    def check(self, model: Any) -> dict[str, float]:
        """Return the share of orders that are the bot's, nats per order over legal ones, and the bot's agreement."""
        device, right, nats = next(model.parameters()).device, 0, 0.0
        for tokens, order, orders in self._parts:
            scores = score(model, tokens.to(device))
            best = torch.full_like(scores.logp, -torch.inf).scatter_reduce(0, scores.row, scores.logps, "amax")
            wrong = ~(scores.logp >= best).cpu()
            right += orders - len(order[wrong].unique())
            nats -= float(scores.logp.sum())
        return {
            "eval/held_out/accuracy": right / self.orders,
            "eval/held_out/order_loss": nats / self.orders,
            "eval/held_out/bot_agreement": self.agreement,
        }


def _decision(constraint: Constraint, demonstration: Demonstration, example: Example) -> Decision:
    """Return the bot's answer as a model's decision, with the ids allowed at each step."""
    assert not isinstance(demonstration.menu, FreeText)
    steps = constraint.replay(demonstration.menu, example.answer)
    return Decision(
        chosen=demonstration.chosen,
        prompt_ids=np.array(example.prompt, dtype=np.int32),
        token_ids=steps.token_ids,
        logprobs=np.zeros(len(steps.token_ids), dtype=np.float32),
        allowed_ids=steps.allowed_ids,
        allowed_counts=steps.allowed_counts,
    )


def _part(decisions: Sequence[Decision], line_end: int) -> tuple[TokenBatch, Tensor, int]:
    """Return the tokens of decisions that are scored at once, the order of each, and the number of orders."""
    tokens = collate(decisions)
    ends = [np.cumsum(decision.token_ids == line_end) for decision in decisions]
    begin = np.cumsum([0, *(int(end[-1]) for end in ends)])
    number = [ends[d][step] + begin[d] for d, step in zip(tokens.sample.tolist(), tokens.step.tolist(), strict=True)]
    return tokens, torch.tensor(number, dtype=torch.int64), int(begin[-1])


class HeldOutText:
    """Held-out prompts of `game` for a model in training with `tokenizer`."""

    def __init__(self, config: CloneRunConfig, game: TextGame, tokenizer: Any, *, threads: int) -> None:
        self._config, self._game, self._tokenizer, self._threads = config, game, tokenizer, threads
        self._table: ReferenceTable | None = None

    def check(self, model: Any) -> dict[str, float]:
        """Answer all prompts; return the game's metrics as `eval/held_out/...`."""
        greedy = replace(self._config.model, temperature=0.0)
        student = TransformersBackend.of(greedy, model, self._tokenizer, constraint=None, name=STUDENT)
        names = {"learner": STUDENT, "base": ""}
        self._table = self._game.references(self._config, {STUDENT: student}, **names, threads=self._threads)
        return {f"eval/held_out/{name}": value for name, value in self._table.found[STUDENT].items()}

    def describe(self, metrics: dict[str, float]) -> str:
        """Return the metrics of a `check` in words."""
        assert self._table is not None
        parts = (f"{title} {metrics[f'eval/held_out/{name}']:.4g}" for name, title in self._table.columns.items())
        return f"{self._table.games} held-out prompts: {', '.join(parts)}"
