"""Scoring of past decisions: exact log-probabilities over the legal tokens, and entropies.

    log pi(a) = z_a / t - log sum_b exp(z_b / t),   b over only the allowed ids

This is the same function of the weights as sampling: the same ids, temperature and head, and no dropout. So the ratio
of new to old probability is 1 before the first step. Logits are gathered, not masked: -inf times a probability
of 0 would be NaN.

Only steps with more than one allowed id, the decision tokens, are scored; the others have probability 1. A text is read
up to the token before its last decision token; a text without decision tokens is not read. Equal texts and shared
prefixes (forks of a game, the powers on one board) are read once. Their gradient is the sum over the texts.

`line_odds` gives the probability of every option of every line of an answer. `option_probabilities` does so for the
first line, without an answer. The probability of an option is the product over its tokens. The options of a line are
the leaves of a trie. Each fork is read after the prompt, the lines before it and the tokens that lead to it, and is
normalized. So the probabilities of a line's options sum to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.agents.language.backend import Decision
from sparring.agents.language.decoding.constraint import Automaton
from sparring.agents.language.decoding.forward import (
    CacheCounts,
    Context,
    Level,
    all_logits,
    allowed_logits,
    backbone,
    levels,
    read_texts,
    without_dropout,
)
from sparring.agents.language.decoding.sampling import log_softmax
from sparring.envs.text import Option

NO_IDS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class TokenBatch:
    """B texts to read, and N decision tokens in them with A allowed ids.

    Attributes:
        levels: pieces of the texts (`forward.levels`); the last level has one for each, of at most T tokens.
        position: int64 [N], the token before each step, as an index into the last level's B x T, padded on the left.
        sample: int64 [N], the decision of each step, an index into the argument of `collate`; step: int64 [N], its
            number in the answer.
        allowed: int64 [A], the allowed ids; row: int64 [A], the step of each.
        chosen: int64 [N], the index in `allowed` of the chosen token.
        sampled_logp: float32 [N], its log-probability when it was drawn.
        temperature: float32 [N], at which it was drawn.
        vocabulary: if not 0, every step allows the ids below it, `allowed` and `row` are empty, and `chosen` counts
            as if all were listed, step by step.

    """

    levels: tuple[Level, ...]
    position: Tensor
    sample: Tensor
    step: Tensor
    allowed: Tensor
    row: Tensor
    chosen: Tensor
    sampled_logp: Tensor
    temperature: Tensor
    vocabulary: int = 0

    def to(self, device: torch.device | str) -> TokenBatch:
        """Return the batch with its tensors on another device."""
        tensors = {field.name: getattr(self, field.name).to(device) for field in fields(self)[1:-1]}
        return TokenBatch(self.levels, **tensors, vocabulary=self.vocabulary)


def collate(decisions: Sequence[Decision], *, share: bool = True) -> TokenBatch:
    """Return one batch of decisions; without `share` every text is read separately.

    Raises `ValueError` if a chosen token is not among those allowed, a prompt is missing, or answers from menus are
    mixed with free text.
    """
    steps = [np.flatnonzero(decision.allowed_counts > 1) for decision in decisions]
    read = [number for number, scored in enumerate(steps) if len(scored)]
    texts = [_text(decisions[number], int(steps[number][-1])) for number in read]
    before = np.array([len(decisions[number].prompt_ids) - 1 for number in read], dtype=np.int64)
    if len(before) and before.min() < 0:
        raise ValueError(f"decision {read[int(before.argmin())]} has no prompt")
    first = before + np.array([steps[number][0] for number in read], dtype=np.int64)
    which, distinct = _distinct(texts, share=share)
    most = np.full(len(distinct), np.iinfo(np.int64).max)
    np.minimum.at(most, which, first if share else 0 * first)
    tree = levels([texts[row] for row in distinct], most) if texts else []
    return TokenBatch(
        levels=tuple(tree),
        position=torch.from_numpy(_places(texts, which, before, [steps[number] for number in read], tree)),
        sample=torch.from_numpy(np.repeat(np.arange(len(steps)), [len(scored) for scored in steps]).astype(np.int64)),
        step=torch.from_numpy(np.concatenate([NO_IDS, *steps])),
        **(_whole(decisions, steps) if _is_free(decisions, steps) else _allowed(decisions, steps)),
    )


def _text(decision: Decision, last: int) -> np.ndarray:
    """Return the token ids of the prompt and of the answer before its step `last`."""
    return np.concatenate([decision.prompt_ids, decision.token_ids[:last]]).astype(np.int64)


def _distinct(texts: Sequence[np.ndarray], *, share: bool) -> tuple[np.ndarray, list[int]]:
    """Return the piece that each text is in the last level, int64 [R], and the first text of each.

    Equal texts, such as answers of one token to a prompt, are one piece if they `share`.
    """
    numbers: dict[bytes | int, int] = {}
    keys = [text.tobytes() if share else row for row, text in enumerate(texts)]
    which = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    return which, np.unique(which, return_index=True)[1].tolist()


def _places(
    texts: Sequence[np.ndarray],
    which: np.ndarray,
    before: np.ndarray,
    steps: Sequence[np.ndarray],
    tree: Sequence[Level],
) -> np.ndarray:
    """Return the index in the last level's B x T of the token before each step, int64 [N]."""
    if not texts:
        return NO_IDS
    width = int(tree[-1].counts.max())
    lengths = np.array([len(text) for text in texts])
    start = (which + 1) * width - lengths + before
    return np.concatenate([begin + scored for begin, scored in zip(start.tolist(), steps, strict=True)])


def _allowed(decisions: Sequence[Decision], steps: Sequence[np.ndarray]) -> dict[str, Any]:
    """Return the fields of a batch of answers from menus."""
    counts = [decision.allowed_counts[scored] for decision, scored in zip(decisions, steps, strict=True)]
    ids = [d.allowed_ids[np.repeat(d.allowed_counts > 1, d.allowed_counts)] for d in decisions]
    sizes, allowed = (np.concatenate([NO_IDS, *parts]) for parts in (counts, ids))
    token, drawn = _drawn(decisions, steps)
    row = np.repeat(np.arange(len(sizes)), sizes)
    chosen = np.flatnonzero(allowed == token[row])
    if not np.array_equal(row[chosen], np.arange(len(sizes))):
        wrong = np.setdiff1d(np.arange(len(sizes)), row[chosen])
        raise ValueError(f"an illegal token was sampled: decision token {wrong[:1].tolist()} of the batch")
    arrays = {"allowed": allowed, "row": row, "chosen": chosen}
    return {name: torch.from_numpy(values) for name, values in arrays.items()} | drawn


def _is_free(decisions: Sequence[Decision], steps: Sequence[np.ndarray]) -> bool:
    """Return whether all decisions with a step are free text."""
    free = {not len(decision.allowed_ids) for decision, scored in zip(decisions, steps, strict=True) if len(scored)}
    if len(free) > 1:
        raise ValueError("answers from menus and free text in one batch: score them in two")
    return free == {True}


def _whole(decisions: Sequence[Decision], steps: Sequence[np.ndarray]) -> dict[str, Any]:
    """Return the fields of a batch whose steps allow the whole vocabulary."""
    pairs = zip(decisions, steps, strict=True)
    sizes = {int(size) for decision, scored in pairs for size in decision.allowed_counts[scored]}
    if len(sizes) > 1:
        raise ValueError(f"free text over vocabularies of {sorted(sizes)} tokens in one batch")
    vocabulary = sizes.pop()
    token, drawn = _drawn(decisions, steps)
    if len(token) and not 0 <= token.min() <= token.max() < vocabulary:
        raise ValueError(f"an illegal token was sampled: {token.max()} of {vocabulary}")
    chosen = torch.from_numpy(np.arange(len(token)) * vocabulary + token)
    tensors = {"allowed": torch.from_numpy(NO_IDS), "row": torch.from_numpy(NO_IDS), "chosen": chosen}
    return {**tensors, "vocabulary": vocabulary, **drawn}


def _drawn(decisions: Sequence[Decision], steps: Sequence[np.ndarray]) -> tuple[np.ndarray, dict[str, Tensor]]:
    """Return the ids of the chosen tokens int64 [N], and `sampled_logp` and `temperature`."""
    pairs = list(zip(decisions, steps, strict=True))
    empty = np.zeros(0, dtype=np.float32)
    logp = np.concatenate([empty, *(decision.logprobs[scored] for decision, scored in pairs)])
    heat = np.concatenate([empty, *(np.full(len(scored), d.temperature, dtype=np.float32) for d, scored in pairs)])
    token = np.concatenate([NO_IDS, *(decision.token_ids[scored] for decision, scored in pairs)])
    return token, {"sampled_logp": torch.from_numpy(logp), "temperature": torch.from_numpy(heat)}


@dataclass(frozen=True)
class Scores:
    """Scores of N decision tokens with A allowed ids.

    Attributes:
        logp: float32 [N], log-probability of the chosen token.
        entropy: float32 [N], in nats.
        logps: float32 [A], of every allowed id; row: int64 [A], the decision token of each.
        sample: int64 [N], the decision of each token.

    """

    logp: Tensor
    entropy: Tensor
    logps: Tensor
    row: Tensor
    sample: Tensor


def score(model: Any, batch: TokenBatch) -> Scores:
    """Score the decision tokens of `batch` (on the model's device) at the temperatures they were drawn at."""
    hidden = _hidden(model, batch)
    if batch.vocabulary:
        return _score_free_text(model, batch, hidden)
    logits = allowed_logits(model, hidden, batch.allowed, batch.row)
    logps = segment_log_softmax(logits / batch.temperature[batch.row], batch.row)
    entropy = -segment_sum(logps.exp() * logps, batch.row, len(batch.chosen))
    return Scores(logps[batch.chosen], entropy, logps, batch.row, batch.sample)


def _score_free_text(model: Any, batch: TokenBatch, hidden: Tensor) -> Scores:
    """Score steps at which the whole vocabulary is allowed."""
    logits = all_logits(model, hidden)[:, : batch.vocabulary]
    logps = (logits / batch.temperature[:, None]).log_softmax(1)
    entropy = -(logps.exp() * logps).sum(1)
    row = torch.arange(len(logps), device=logps.device).repeat_interleave(batch.vocabulary)
    flat = logps.flatten()
    return Scores(flat[batch.chosen], entropy, flat, row, batch.sample)


def segment_log_softmax(logits: Tensor, row: Tensor) -> Tensor:
    """Return log-probabilities [A] of `logits` [A] within rows; `row` [A] is ascending, from 0, without gaps."""
    rows = int(row[-1]) + 1 if len(row) else 0
    top = logits.detach().new_full((rows,), -torch.inf).scatter_reduce(0, row, logits.detach(), "amax")
    shifted = logits - top[row]
    return shifted - segment_sum(shifted.exp(), row, rows).log()[row]


def segment_sum(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """Return the sums [rows] of `values` [A] by `row` [A]."""
    return values.new_zeros(rows).index_add(0, row, values)


def _hidden(model: Any, batch: TokenBatch) -> Tensor:
    """Return the hidden state before each decision token, [N, D]."""
    if not batch.levels:
        return next(model.parameters()).new_zeros(0, backbone(model).config.hidden_size)
    context = Context(model)
    with without_dropout(model):
        for level in batch.levels:
            context.select(level.parent)
            hidden = context.read(level.tokens, level.counts)
    return hidden.flatten(0, 1)[batch.position]


@dataclass(frozen=True)
class LineOdds:
    """One line of an answer: the chosen option, and all `options` with their probabilities float64 [n]."""

    chosen: Option
    options: tuple[Option, ...]
    probabilities: np.ndarray

    @property
    def of_chosen(self) -> float:
        """Probability of the chosen option."""
        return float(self.probabilities[self.options.index(self.chosen)])


@torch.inference_mode()
def option_probabilities(
    model: Any, automaton: Automaton, prompts: Sequence[np.ndarray], *, temperature: float, batch_size: int
) -> list[dict[Option, float]]:
    """Return the probability of every option of the first line after each of the prompts, one for each menu.

    `temperature` must be above 0; `batch_size` forks are read at once.
    """
    forks = OptionForks()
    lines = forks.of_lines(automaton, prompts)
    return probabilities_of(lines, _logs(model, automaton, forks, temperature, batch_size))


@dataclass
class OptionForks:
    """States with more than one edge: the text before each, its edges, and the number of log-probabilities."""

    texts: list[np.ndarray] = field(default_factory=list)
    edges: list[np.ndarray] = field(default_factory=list)
    logs: int = 0

    def add(self, text: Sequence[int], start: int, count: int) -> int:
        """Add a fork; return the index of its first log-probability."""
        first, self.logs = self.logs, self.logs + count
        self.texts.append(np.array(text, dtype=np.int64))
        self.edges.append(np.arange(start, start + count))
        return first

    def of_lines(self, automaton: Automaton, prompts: Sequence[np.ndarray]) -> list[list[OptionPath]]:
        """Add the forks of the first line after each of the prompts, one for each menu; return its options."""
        begin = automaton.begin.tolist()
        return [_leaves(automaton, self, ids.tolist(), *state) for ids, state in zip(prompts, begin, strict=True)]


OptionPath = tuple[Option, tuple[int, ...]]
"""An option and the indices of the log-probabilities that lead to it."""


def probabilities_of(lines: Sequence[Sequence[OptionPath]], logs: np.ndarray) -> list[dict[Option, float]]:
    """Return the probability of every option of some lines from the log-probabilities [A] of their forks."""
    return [{option: float(np.exp(logs[list(path)].sum())) for option, path in leaves} for leaves in lines]


@torch.inference_mode()
def line_odds(
    model: Any,
    automaton: Automaton,
    prompt_ids: np.ndarray,
    token_ids: np.ndarray,
    *,
    temperature: float,
    batch_size: int,
) -> list[LineOdds]:
    """Return the odds of each line of the answer `token_ids` to `prompt_ids`, for the automaton's first menu.

    `temperature` must be above 0; `batch_size` forks are read at once.
    """
    forks, lines = OptionForks(), []
    text, rest = prompt_ids.tolist(), token_ids.tolist()
    start, count = automaton.begin[0].tolist()
    while len(leaves := _leaves(automaton, forks, text, start, count)):
        edge, length = _follow(automaton, rest, start, count)
        lines.append((automaton.options[int(automaton.chosen[edge])], leaves))
        text, rest = [*text, *rest[:length]], rest[length:]
        start, count = int(automaton.start[edge]), int(automaton.count[edge])
    logs = _logs(model, automaton, forks, temperature, batch_size)
    return [_odds(chosen, leaves, logs) for chosen, leaves in lines]


def _leaves(automaton: Automaton, forks: OptionForks, text: list[int], start: int, count: int) -> list[OptionPath]:
    """Return every option of the line that starts in this state, none after the last; add its forks to `forks`."""
    leaves: list[OptionPath] = []
    waiting: list[tuple[int, int, list[int], tuple[int, ...]]] = [(start, count, text, ())]
    while waiting:
        start, count, text, path = waiting.pop()
        first = forks.add(text, start, count) if count > 1 else 0
        for edge in range(start, start + count):
            taken = (*path, first + edge - start) if count > 1 else path
            if (number := int(automaton.chosen[edge])) >= 0:
                leaves.append((automaton.options[number], taken))
            else:
                state = int(automaton.start[edge]), int(automaton.count[edge])
                waiting.append((*state, [*text, int(automaton.token[edge])], taken))
    return leaves


def _follow(automaton: Automaton, tokens: list[int], start: int, count: int) -> tuple[int, int]:
    """Return the edge that completes the first line of `tokens`, and the length of that line."""
    for length, token in enumerate(tokens, start=1):
        edge = start + automaton.token[start : start + count].tolist().index(token)
        if automaton.chosen[edge] >= 0:
            return edge, length
        start, count = int(automaton.start[edge]), int(automaton.count[edge])
    raise ValueError("the answer ends in the middle of a line")


def _logs(model: Any, automaton: Automaton, forks: OptionForks, temperature: float, batch_size: int) -> np.ndarray:
    """Return log-probabilities float64 [sum of all forks' edges]."""
    parts = [np.zeros(0)]
    for begin in range(0, len(forks.texts), batch_size):
        _, hidden = read_texts(model, forks.texts[begin : begin + batch_size], CacheCounts())
        edges = forks.edges[begin : begin + batch_size]
        sizes = np.array([len(fork) for fork in edges])
        row, starts = np.repeat(np.arange(len(sizes)), sizes), np.cumsum(sizes) - sizes
        tokens = automaton.token[np.concatenate(edges)].astype(np.int64)
        ids, rows = (torch.from_numpy(values).to(hidden.device) for values in (tokens, row))
        logits = allowed_logits(model, hidden, ids, rows).double().cpu().numpy()
        parts.append(log_softmax(logits / temperature, row, starts))
    return np.concatenate(parts)


def _odds(chosen: Option, leaves: list[OptionPath], logs: np.ndarray) -> LineOdds:
    """Return the options of a line, likeliest first."""
    values = np.exp([logs[list(path)].sum() for _, path in leaves])
    order = np.argsort(-values, kind="stable")
    return LineOdds(chosen, tuple(leaves[index][0] for index in order), values[order])
