"""Exact policy of a language model: its probabilities at every information state, and its exploitability.

From a menu the probability of an action is exact, the product over its tokens, each normalized over the allowed ones.
A free text is sampled K times at each state; its interval is a bootstrap. Exploitability is convex in the policy's
strategy, so the estimate from samples is too high on average; the interval is reflected about it, which corrects this.

Values, best responses and losses are those of `envs.imported.tree`. Equal prompts are queried once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.envs.imported.tree import GameTree, game_tree
from sparring.envs.openspiel_text.answers import read_decision
from sparring.envs.openspiel_text.config import OpenSpielAnswerConfig
from sparring.envs.openspiel_text.prompts import prompt_of
from sparring.envs.text import Prompt, TextAnswer, mix
from sparring.envs.text_moves import KINDS

RESAMPLES, TAIL = 200, 2.5
"""Bootstrap samples, and percent on either side of an interval."""
WORST = 10
"""Information states that a report lists."""
Policies = Callable[[Sequence[Prompt]], Sequence[np.ndarray]]
"""From prompts with menus to the probability of each option."""
Decide = Callable[[Sequence[Prompt]], Sequence[TextAnswer]]


@dataclass(frozen=True)
class TextDecisions:
    """All decisions of a game: its tree with I information states, and the prompts of their D distinct texts."""

    tree: GameTree
    prompts: list[Prompt]
    asked: np.ndarray
    """Prompt of each information state, int64 [I]."""

    @classmethod
    def of(cls, game_id: str, kwargs: Mapping[str, Any], answer: OpenSpielAnswerConfig) -> TextDecisions:
        """Return those of a game. Raises `InputError` for a game that is too large."""
        tree = game_tree(game_id, kwargs)
        if tree is None:
            raise InputError(
                f"{game_id}: has too many positions for an exact policy; choose a smaller game, such as kuhn_poker, or "
                "play matches, with sparring eval without --exact"
            )
        distinct: dict[str, Prompt] = {}
        texts = []
        for state in tree.states:
            prompt = prompt_of(state, answer)
            distinct.setdefault(prompt.text, prompt)
            texts.append(prompt.text)
        number = {text: index for index, text in enumerate(distinct)}
        return cls(tree, [*distinct.values()], np.array([number[text] for text in texts]))

    def exact(self, policies: Policies) -> np.ndarray:
        """Return the probabilities of a model that chooses from menus, float64 [I, K]."""
        table = np.zeros((len(self.prompts), self.tree.legal.shape[1]))
        for row, prompt, values in zip(table, self.prompts, policies(self.prompts), strict=True):
            row[[option.value for option in prompt.menu.menu(0)]] = values  # type: ignore[union-attr]
        return table[self.asked]

    def sampled(self, decide: Decide, samples: int, seed: int) -> SampledAnswers:
        """Return `samples` answers of a model to every prompt, counted."""
        requests = [
            replace(prompt, seed=mix(seed, number, sample))
            for number, prompt in enumerate(self.prompts)
            for sample in range(samples)
        ]
        actions = self.tree.legal.shape[1]
        counts = np.zeros((len(self.prompts), actions + len(KINDS)), dtype=np.int64)
        for place, (prompt, answer) in enumerate(zip(requests, decide(requests), strict=True)):
            read = read_decision(prompt, answer)
            column = read.option.value if read.option else actions + KINDS.index(read.kind)
            counts[place // samples, column] += 1
        return SampledAnswers(self, counts)


@dataclass(frozen=True)
class SampledAnswers:
    """Answers in free text by action, then by `KINDS`, int64 [D, K + 3]."""

    decisions: TextDecisions
    counts: np.ndarray

    def table(self, counts: np.ndarray | None = None) -> np.ndarray:
        """Return the shares of the actions, float64 [I, K]; answers that are not legal are shared among all legal."""
        counts, decisions = self.counts if counts is None else counts, self.decisions
        actions = decisions.tree.legal.shape[1]
        by_state = counts[decisions.asked]
        fallbacks = by_state[:, actions:].sum(1, keepdims=True)
        shares: np.ndarray = by_state[:, :actions] + fallbacks * decisions.tree.uniform()
        return shares / shares.sum(1, keepdims=True)

    def interval(self, figure: Callable[[np.ndarray], float], seed: int) -> tuple[float, float]:
        """Return the bootstrap interval of a figure of the table, 95 %, reflected about the estimate, from 0."""
        random, estimate = np.random.default_rng(mix(seed, 1)), figure(self.table())
        shares, total = self.counts / self.counts.sum(1, keepdims=True), self.counts.sum(1)
        drawn = [figure(self.table(random.multinomial(total, shares))) for _ in range(RESAMPLES)]
        low, high = np.percentile(drawn, (TAIL, 100.0 - TAIL))
        return max(0.0, 2.0 * estimate - float(high)), max(0.0, 2.0 * estimate - float(low))

    def kinds(self) -> dict[str, int]:
        """Return the number of answers of each kind that is not legal."""
        return dict(zip(KINDS, self.counts[:, -len(KINDS) :].sum(0).tolist(), strict=True))


@dataclass(frozen=True)
class LostDecision:
    """An information state at which a policy loses, as text."""

    state: str
    player: int
    loss: float
    """Part of the gain of the best response to the policy."""
    policy: dict[str, float]
    """Probability of each legal action."""


def worst_decisions(decisions: TextDecisions, table: np.ndarray, count: int = WORST) -> list[LostDecision]:
    """Return the information states with the largest losses, merged by equal prompts."""
    tree, losses = decisions.tree, np.zeros(len(decisions.prompts))
    np.add.at(losses, decisions.asked, tree.losses(table))
    rows = []
    for number in np.argsort(-losses, kind="stable")[:count].tolist():
        if losses[number] <= 0.0:
            break
        infoset = int(np.flatnonzero(decisions.asked == number)[0])
        state, player = tree.states[infoset], int(tree.owner[infoset])
        policy = {
            state.action_to_string(player, action): float(table[infoset, action])
            for action in np.flatnonzero(tree.legal[infoset]).tolist()
        }
        known = "; ".join(decisions.prompts[number].text.splitlines()[1:-2])  # without rules, moves and the last line
        rows.append(LostDecision(known, player, float(losses[number]), policy))
    return rows


def figures(tree: GameTree, table: np.ndarray) -> dict[str, Any]:
    """Return NashConv, exploitability (NashConv over the players), and values and gains of best responses by seat."""
    values = tree.values(table)
    responses = np.array([tree.best_response(table, player) for player in range(len(values))])
    nash_conv = float((responses - values).sum())
    return {
        "nash_conv": nash_conv,
        "exploitability": nash_conv / len(values),
        "values": values.tolist(),
        "best_responses": responses.tolist(),
    }
