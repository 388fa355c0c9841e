"""Sampling of a language model's orders: decisions per second, shares of time, savings by sharing, legality.

A model of the tiny kind with random weights writes orders for positions from games between bots. `apart` asks one power
of each game, as a league does; `together` all powers of the same games, as self-play does. Seconds are the thread's CPU
time. The constraint's share is all of compiling, walking and recording; the rest outside the model is tokenizing,
draws, and copies of keys and values. Every answer is read back by the tolerant parser, which knows nothing of tokens.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch

from benchmarks.command import run_script
from benchmarks.report import heading, publish, table
from sparring.agents.llm.backend import Decision
from sparring.agents.llm.decoding.constraint import Constraint, Walks
from sparring.agents.llm.decoding.forward import CacheCounts, Context
from sparring.agents.llm.models.tiny import build_tiny, game_tokenizer
from sparring.agents.llm.transformers_backend import TransformersBackend
from sparring.envs.diplomacy.orders.choices import Choices
from sparring.envs.diplomacy.orders.completion import parse
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from sparring.envs.diplomacy.rollouts.demonstrations import BotDecision, BotGames
from sparring.envs.text import Prompt

LAST_YEAR = 1910
PARTS: dict[str, tuple[tuple[Any, str], ...]] = {
    "model": ((Context, "read"),),
    "constraint": ((Constraint, "compile"), (Walks, "allowed"), (Walks, "take"), (Walks, "forced"), (Walks, "steps")),
}
HEAD = (
    *("asked", "prompt tokens", "found read", "answer tokens", "of these drawn", "decisions / s"),
    *("model %", "constraint %", "other %", "legal"),
)


def main() -> None:
    args = arguments()
    torch.set_num_threads(1)
    tokenizer = game_tokenizer("diplomacy")
    model = build_tiny(tokenizer, hidden=args.hidden, layers=args.layers, heads=4, seed=args.seed).eval()
    size = sum(parameter.numel() for parameter in model.parameters())
    parts = [heading("Sampling orders on one core", ("torch", "transformers"))]
    parts.append(f"{size / 1e6:.2f} M parameters, {len(tokenizer)} tokens, batches of {args.batch}.\n")
    backend = TransformersBackend(
        model, tokenizer, constraint=Constraint(tokenizer, DIPLOMACY_TEXT), temperature=0.8, batch_size=args.batch
    )
    rows = [measure(backend, args, together=together) for together in (False, True)]
    publish("\n".join([*parts, table(HEAD, rows)]), args.out)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--decisions", type=int, default=10_000, help="of each kind, after one batch to warm up")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a few decisions of a small model: does it run?")
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    args = parser.parse_args()
    if args.quick:
        args.decisions, args.batch, args.hidden, args.layers = 14, 14, 32, 1
    return args


def measure(backend: TransformersBackend, args: argparse.Namespace, *, together: bool) -> list[str]:
    """Return a row of the table."""
    stream = batches(args.batch, args.seed, together=together)
    backend.decide(next(stream))
    backend.counts, clock, seen = CacheCounts(), Clock(), Tally()
    while seen.decisions < args.decisions:
        requests = next(stream)
        with clock:
            decisions = backend.decide(requests)
        for request, decision in zip(requests, decisions, strict=True):
            seen.add(request, decision)
    stream.close()
    prompt, found = backend.counts.prompt_tokens / seen.decisions, backend.counts.metrics()["cache/hit_rate"]
    seconds, name = clock.seconds, "together" if together else "apart"
    other = seconds["all"] - seconds["model"] - seconds["constraint"]
    shares = [f"{100 * part / seconds['all']:.1f}" for part in (seconds["model"], seconds["constraint"], other)]
    tokens, drawn = seen.tokens / seen.decisions, seen.drawn / seen.decisions
    speed = f"{seen.decisions / seconds['all']:.0f}"
    return [name, f"{prompt:.0f}", f"{found:.0%}", f"{tokens:.1f}", f"{drawn:.1f}", speed, *shares, seen.legality]


def batches(size: int, seed: int, *, together: bool) -> Generator[list[Prompt]]:
    """Requests without end, `size` at a time, from games between bots of all years."""
    games = BotGames(max(size // 7, 1) if together else size, bot="dumbbot", last_year=LAST_YEAR, seed=seed)
    waiting: list[BotDecision] = []
    try:
        while True:
            for number, decisions in enumerate(games.next()):
                waiting += decisions if together else decisions[number % len(decisions) :][:1]
            while len(waiting) >= size:
                taken, waiting = waiting[:size], waiting[size:]
                yield [request(decision, seed + number) for number, decision in enumerate(taken)]
    finally:
        games.close()


def request(decision: BotDecision, seed: int) -> Prompt:
    """The same position as a language model is asked about it."""
    return Prompt(decision.text, decision.menu, seed)


class Tally:
    """Counts of decisions."""

    def __init__(self) -> None:
        self.decisions = self.tokens = self.drawn = self.legal = 0

    def add(self, request: Prompt, decision: Decision) -> None:
        """Count a decision, and whether the parser finds the same orders in its text, all of them legal."""
        menu = request.menu
        assert isinstance(menu, Choices)
        reading = parse(f"{decision.text}\n</orders>", menu)
        self.decisions += 1
        self.tokens += len(decision.token_ids)
        self.drawn += int((decision.allowed_counts > 1).sum())
        whole = reading.orders_extracted == menu.lines and not reading.problems
        self.legal += whole and reading.chosen == decision.chosen

    @property
    def legality(self) -> str:
        """Return the share of legal and complete answers."""
        return f"{self.legal} of {self.decisions}"


class Clock:
    """CPU seconds of the context, in total and in the watched functions."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(["all", *PARTS], 0.0)
        self._busy = False

    def __enter__(self) -> None:
        self._patches = ExitStack()
        for part, places in PARTS.items():
            for owner, name in places:
                self._patches.enter_context(patch.object(owner, name, self._watched(part, getattr(owner, name))))
        self._began = time.thread_time()

    def __exit__(self, *_: object) -> None:
        self.seconds["all"] += time.thread_time() - self._began
        self._patches.close()

    def _watched(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **options: Any) -> Any:
            result = self._timed(part, lambda: function(*args, **options))
            return self._stepwise(part, result) if isinstance(result, Generator) else result

        return watched

    def _stepwise(self, part: str, steps: Generator[Any]) -> Generator[Any]:
        done = object()
        while (step := self._timed(part, lambda: next(steps, done))) is not done:
            yield step

    def _timed(self, part: str, function: Callable[[], Any]) -> Any:
        if self._busy:  # called by something that is watched already
            return function()
        began, self._busy = time.thread_time(), True
        try:
            return function()
        finally:
            self.seconds[part] += time.thread_time() - began
            self._busy = False


if __name__ == "__main__":
    sys.exit(run_script(main))
