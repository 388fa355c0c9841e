"""Requests to a server in OpenAI's protocol, optionally with the extensions of vLLM.

Plain requests contain nothing that another server might reject. A constrained one turns off everything that would
truncate the distribution (by default vLLM takes top-k and top-p from the model's files).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sparring.agents.llm.endpoint.answer import Answer, model_names, read_answer
from sparring.agents.llm.endpoint.http import Client
from sparring.agents.llm.endpoint.retry import Persistence
from sparring.configs.core.errors import InputError
from sparring.configs.language import EndpointConfig

PATHS = {"completions": "/completions", "chat": "/chat/completions"}
WHOLE_DISTRIBUTION = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
BY_ID = {"return_token_ids": True, "return_tokens_as_token_ids": True}
SEEDS = 1 << 31


@dataclass(frozen=True)
class Question:
    """Prompt (text or token ids), constraint on the answer (None: none), largest number of tokens, and seed."""

    prompt: str | Sequence[int]
    structured: Mapping[str, Any] | None
    max_tokens: int
    seed: int


class Asker:
    """Sender of requests to one model of one server; counts tokens. `closing` ends an unconstrained answer."""

    def __init__(self, config: EndpointConfig, client: Client, persistence: Persistence, closing: str) -> None:
        self._config, self._client, self._persistence = config, client, persistence
        self._closing, self.model = closing, config.model

    def find_model(self, until: float) -> None:
        """If no model is named, use the server's only one; raises `InputError` if it has none or several."""
        if self.model:
            return
        read = partial(model_names, hide=self._client.hide)
        names = self._persistence.ask(lambda left: self._client.ask("/models", None, left, read), seed=0, until=until)
        if len(names) != 1:
            text = f"endpoint.model: {self._config.url} has {len(names)} models: {', '.join(names)}; name one"
            raise InputError(self._client.hide(text))
        self.model = names[0]

    def ask(self, question: Question, *, temperature: float, by_id: bool, until: float) -> Answer:
        """Return the answer before `until`, with token ids and alternatives if `by_id`. Raises `EndpointError`."""
        body, path = self._body(question, temperature, by_id), PATHS[self._config.api]

        def once(seconds: float) -> Answer:
            return self._client.ask(path, body, seconds, partial(read_answer, hide=self._client.hide))

        answer = self._persistence.ask(once, seed=question.seed, until=until)
        for count in ("prompt_tokens", "completion_tokens", "cached_tokens"):
            self._persistence.meter.add(count, getattr(answer, count))
        return answer

    def _body(self, question: Question, temperature: float, by_id: bool) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": question.max_tokens,
            "temperature": temperature,
            "seed": question.seed % SEEDS,
        }
        if self._config.api == "chat":
            body["messages"] = [{"role": "user", "content": question.prompt}]
        else:
            body["prompt"] = question.prompt
        if question.structured is None and not by_id:
            # A conversation ends by itself, and reasoning that names the closing tag must not end there.
            return body if self._config.api == "chat" else {**body, "stop": [self._closing]}
        if question.structured is not None:
            body["structured_outputs"] = question.structured
        return body | WHOLE_DISTRIBUTION | ({"logprobs": self._config.logprobs, **BY_ID} if by_id else {})
