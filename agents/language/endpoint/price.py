"""Tokens and cost of an evaluation on a server: a forecast before it, and the sums of what the server counted.

    dollars = ((prompt - cached) prompt_price + cached cached_price + completion answer_price) / 10^6

A cost is known only where prices are given. Answers without a count of tokens make it a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field
from threading import Lock
from time import monotonic

from sparring.configs.core.status import say
from sparring.configs.language import EndpointConfig
from sparring.envs.text import TextFormat

CHARACTERS = 4
"""Of a token, about, where the tokens of a server are not known."""


def dollars(config: EndpointConfig, prompt: float, completion: float, cached: float = 0.0) -> float | None:
    """Return the price of so many tokens, None without prices."""
    if not (config.prompt_price or config.answer_price):
        return None
    cached_price = config.cached_price or config.prompt_price
    return ((prompt - cached) * config.prompt_price + cached * cached_price + completion * config.answer_price) / 1e6


@dataclass(frozen=True)
class Forecast:
    """Requests and tokens that an evaluation will need: of prompts about, of answers at most."""

    requests: int
    prompt_tokens: int
    answer_tokens: int

    @classmethod
    def of_trial(cls, config: EndpointConfig, text_format: TextFormat) -> Forecast:
        """Return the trial of a server when it is opened (`exactness`): a text, a token twice, and a decision."""
        if config.structured != "tokens":
            return cls(0, 0, 0)
        decision = config.most_tokens or text_format.trial.lines * (text_format.trial.longest + 1) + 1
        return cls(4, (len(text_format.sample) + 3 * len(text_format.opening)) // CHARACTERS, 3 + decision)

    def __add__(self, other: Forecast) -> Forecast:
        """Return both together."""
        return Forecast(*(sum(pair) for pair in zip(astuple(self), astuple(other), strict=True)))

    def text(self, config: EndpointConfig, how_many: str = "") -> str:
        """Return them with their price; `how_many` is in front of the number of requests."""
        cost = dollars(config, self.prompt_tokens, self.answer_tokens)
        price = "; to see the price, add --set endpoint.prompt_price=USD endpoint.answer_price=USD"
        return (
            f"{how_many}{self.requests:,} requests, about {self.prompt_tokens:,} prompt tokens and at most "
            f"{self.answer_tokens:,} of answers{price if cost is None else f', at most ${cost:.2f}'}"
        )


def spent(metrics: Mapping[str, float]) -> str:
    """Return the tokens that a server counted, those of reasoning apart, and their cost, from a backend's metrics."""
    count = {name: int(metrics[f"endpoint/{name}_tokens"]) for name in ("prompt", "cached", "completion", "reasoning")}
    uncounted = int(metrics["endpoint/uncounted_answers"])
    if uncounted and not count["prompt"] + count["completion"]:
        return f"Tokens: unknown; the server does not report usage (missing in {uncounted:,} answers)."
    parts = (
        f"{count['prompt']:,} prompt, {count['cached']:,} of them cached, {count['completion']:,} completion, "
        f"{count['reasoning']:,} of them reasoning"
    )
    without = f", without those of {uncounted:,} answers that came without usage" if uncounted else ""
    cost = metrics.get("endpoint/cost")
    least = "at least " if uncounted else ""
    return f"Tokens: {parts}{without}." + ("" if cost is None else f" Cost: {least}${cost:.2f}.")


@dataclass
class Spending:
    """Says what a server has counted so far, at most once in `every` seconds; safe for threads."""

    metrics: Callable[[], Mapping[str, float]]
    every: float = 30.0
    _next: float = field(init=False)

    def __post_init__(self) -> None:
        self._next, self._lock = monotonic() + self.every, Lock()

    def tick(self) -> None:
        """Say it if it is time."""
        with self._lock:
            if monotonic() < self._next:
                return
            self._next = monotonic() + self.every
        metrics = self.metrics()
        say(f"endpoint: {metrics['endpoint/requests']:,.0f} requests so far. {spent(metrics)}")
