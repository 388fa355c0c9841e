"""Backend for a server: vLLM, or any other with OpenAI's protocol (docs/llm_endpoints.md).

Up to `endpoint.concurrency` requests run in parallel. One without an answer becomes a fallback and is counted;
`InputError` is raised only if `HOPELESS` in a row fail, a whole batch included, or an error concerns all requests. With
a tokenizer, the server is tested when it is opened and every decision is checked; only then are decisions exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import astuple, replace
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import numpy as np

from sparring.agents.language.backend import FALLBACK, Decision, check_temperature
from sparring.agents.language.endpoint.answer import EndpointError, ServerAnswer
from sparring.agents.language.endpoint.exactness import Judge, checked_spelling, difference, trial
from sparring.agents.language.endpoint.http import Client
from sparring.agents.language.endpoint.kept import KeptAnswers, key_of
from sparring.agents.language.endpoint.key import Key
from sparring.agents.language.endpoint.price import Forecast, Spending, dollars
from sparring.agents.language.endpoint.request import Asker, Question, Writer, Writing, token_grammar
from sparring.agents.language.endpoint.retry import Meter, Persistence, RetryPolicy
from sparring.agents.language.endpoint.transcripts import Transcripts
from sparring.agents.language.models.load import model_folder, read_tokenizer
from sparring.configs.core.errors import InputError
from sparring.configs.language import EndpointConfig, LanguageModelConfig
from sparring.envs.text import FreeText, Prompt, TextFormat

PromptText = str | list[int]

STATED = ("url", "api", "structured", "max_tokens", "max_completion_tokens", "reasoning_effort")
"""Options of an endpoint on which its answers depend."""
HOPELESS = 4
"""Decisions that must fail in a row, with no success, before `InputError` is raised."""


class EndpointBackend:
    """Backend for the server of `config`.

    Args:
        config: url, model, key and limits.
        text_format: format of answers.
        temperature: sampling temperature.
        tokenizer: the model's, to check the server; without one nothing is exact, and `tokens` is unavailable.
        max_prompt_tokens: with a tokenizer, longer prompts are rejected.
        first_wait: seconds before the first retry.

    `exact` and `why_inexact` are the result of the trial; `policy_version` is copied into decisions. Raises
    `InputError` if the server cannot be used.

    """

    def __init__(
        self,
        config: EndpointConfig,
        text_format: TextFormat,
        *,
        temperature: float,
        tokenizer: Any = None,
        max_prompt_tokens: int = 2048,
        first_wait: float = 0.5,
    ) -> None:
        config.check()
        check_temperature(temperature)
        self.meter, self._stopped, self._format = Meter(), Event(), text_format
        self._config, self._temperature, self._max_prompt_tokens = config, temperature, max_prompt_tokens
        policy = RetryPolicy(config.retries, config.timeout_seconds, config.total_seconds, first_wait)
        self._client = Client(config.url, Key(config.key_env))
        persistence = Persistence(policy, self.meter, self._stopped)
        self._asker = Asker(config, self._client, persistence, text_format.closing)
        try:
            self._open(tokenizer)
        except EndpointError as error:
            raise InputError(f"endpoint: {error}") from error
        self._judge.reason = self._client.hide(self._judge.reason)  # may quote several answers
        self.why_inexact, self.exact = self._judge.reason, not self._judge.reason
        self.name = f"{self._asker.model} at {config.url}"
        self.policy_version = 0
        self._failed_in_a_row = 0
        self._transcripts: Transcripts | None = None
        self._pool = ThreadPoolExecutor(config.concurrency, thread_name_prefix="endpoint")

    def decide(self, requests: Sequence[Prompt]) -> list[Decision]:
        """Return one decision per request, in order; a seat with nothing to decide makes no request."""
        prompts = [self._prompt(request) for request in requests]
        futures = [self._pool.submit(self._decide, *pair) for pair in zip(prompts, requests, strict=True)]
        try:
            self._check(futures, sum(request.is_open for request in requests))
        finally:
            for future in futures:  # those not started, when an error or Ctrl-C ended the wait
                future.cancel()
        decisions = [self._outcome(*row) for row in zip(futures, prompts, requests, strict=True)]
        self.meter.add("decisions", len(decisions))
        self.meter.add("fallbacks", sum(decision.finish_reason == FALLBACK for decision in decisions))
        self.meter.add("inexact", sum(not decision.exact for decision in decisions))
        return decisions

    def policies(self, requests: Sequence[Prompt]) -> list[np.ndarray]:
        """Return the probabilities of the options of each menu of one line, float64 [n], in the menu's order.

        Every state of the constraint with more than one next token is one request, of one token. Raises `InputError`
        for a server that does not return exact log-probabilities, or fails.
        """
        if not self.exact or self._spelling is None or self._config.structured != "tokens":
            reason = self.why_inexact or f"endpoint.structured={self._config.structured} constrains text, not tokens"
            raise InputError(f"endpoint: {self.name} has no exact probabilities: {reason}; sample answers in free text")
        from sparring.agents.language.decoding.scoring import OptionForks, probabilities_of

        menus: list[Any] = [request.menu for request in requests]
        automaton, forks = self._spelling.compile(menus), OptionForks()
        lines = forks.of_lines(automaton, [np.array(self._prompt(request)) for request in requests])
        tokens = [automaton.token[edges].tolist() for edges in forks.edges]
        try:
            logs = [*self._pool.map(self._logs, forks.texts, tokens)]
        except EndpointError as error:
            raise InputError(f"endpoint: {error}") from error
        found = probabilities_of(lines, np.concatenate([np.zeros(0), *logs]))
        return [np.array([line[o] for o in menu.menu(0)]) for line, menu in zip(found, menus, strict=True)]

    def _logs(self, text: np.ndarray, ids: Sequence[int]) -> np.ndarray:
        """Return the log-probabilities float64 [n] of the tokens `ids`, the only ones allowed after `text`."""
        question = Question(text.tolist(), token_grammar(ids), 1, 0)
        answer = self._asker.ask(question, temperature=self._temperature, by_id=True, until=self._until())
        shown = answer.alternatives[0] if answer.alternatives else {}
        if problem := difference(shown, set(ids), self._config.logprobs):
            raise InputError(f"endpoint: {self.name}: {problem}")
        return np.array([shown[token] for token in ids])

    def follow(self, *, keep: Path | None, conditions: Mapping[str, Any], transcripts: Path | None, quiet: bool) -> int:
        """Keep answers and write transcripts, where these have a file, and say what is spent, unless `quiet`.

        `conditions` are what requests depend on besides this endpoint. Returns the number of answers that are there
        already. Raises `InputError` if they are of other conditions, or a file cannot be written.
        """
        self._asker.spending = None if quiet else Spending(self.metrics)
        if keep:
            stated = {f"endpoint.{name}": getattr(self._config, name) for name in STATED}
            stated |= {"endpoint.model": self._asker.model, "--temperature": self._temperature}
            self._asker.keep(KeptAnswers(keep, stated | dict(conditions)))
        if transcripts:
            self._transcripts = Transcripts(transcripts)
        return len(self._asker.kept or ())

    def discard_kept(self) -> None:
        """Remove the file of answers, once the results are complete."""
        if self._asker.kept is not None:
            self._asker.kept.discard()

    def metrics(self) -> dict[str, float]:
        """Return counts of requests, tokens, seconds and errors since the server was opened, and the cost if known."""
        metrics = self.meter.metrics()
        cost = dollars(
            self._config, *(metrics[f"endpoint/{name}_tokens"] for name in ("prompt", "completion", "cached"))
        )
        return metrics if cost is None else {**metrics, "endpoint/cost": cost}

    def forecast(self, requests: Sequence[Prompt], times: float = 1.0) -> str:
        """Return the requests, tokens and price of decisions like these, `times` as many, and of the server's trial."""
        parts = [self._writer.forecast(request.text, request.menu) for request in requests]
        totals = astuple(sum(parts, Forecast(0, 0, 0)))
        whole = Forecast(*(round(times * total) for total in totals))
        return (whole + Forecast.of_trial(self._config, self._format)).text(self._config, "about ")

    @property
    def notes(self) -> dict[str, str]:
        """Lines on what the server refuses, by the parameter's name, and on its unknown reasons for an end."""
        return self._asker.notes

    def close(self) -> None:
        """Stop retries, and end all running requests."""
        self._stopped.set()
        self._client.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._transcripts:
            self._transcripts.close()

    def _open(self, tokenizer: Any) -> None:
        """Find the model, check that it has this tokenizer, and run the trial if it may be exact."""
        until = self._until()

        def put(question: Question, temperature: float = self._temperature) -> ServerAnswer:
            return self._asker.ask(question, temperature=temperature, by_id=True, until=until)

        self._asker.find_model(until)
        self._spelling, reason = checked_spelling(self._config, self._temperature, tokenizer, self._format, put)
        self._writer = Writer(self._config.structured, self._spelling, self._config.most_tokens)
        self._judge = Judge(self._format, self._spelling, self.meter, self._config.logprobs, reason)
        if self._spelling and not reason:
            prompt, menu = self._spelling.prompt(self._format.opening), self._format.trial
            self._judge.reason = trial(prompt, menu, self._temperature, self._writer, self._judge, put)

    def _prompt(self, request: Prompt) -> PromptText:
        """Return the prompt to send: token ids, or text if nothing is checked."""
        if self._spelling is None:
            return request.text
        ids = self._spelling.prompt(request.text)
        if len(ids) > self._max_prompt_tokens:
            raise InputError(
                f"model.max_prompt_tokens={self._max_prompt_tokens}: the prompt for {request.menu.name} has"
                f" {len(ids)} tokens; allow more, or show less of the board"
            )
        return ids

    def _decide(self, prompt: PromptText, request: Prompt) -> tuple[Decision, Writing]:
        """Make one decision, in a thread of the pool; raises `EndpointError`."""
        until, menu = self._until(), request.menu
        temperature = menu.drawn_at(self._temperature) if isinstance(menu, FreeText) else self._temperature

        def put(question: Question) -> ServerAnswer:
            return self._asker.ask(question, temperature=temperature, by_id=self._spelling is not None, until=until)

        if self._asker.kept is not None and (why := self._asker.kept.failure(key_of([prompt, request.seed]))):
            return self._judge.fallback(menu, why), Writing()
        writing = self._writer.write(prompt, request.menu, request.seed, put) if request.is_open else Writing()
        return self._judge.decision(prompt, request.menu, writing), writing

    def _check(self, futures: Sequence[Future[tuple[Decision, Writing]]], expected: int) -> None:
        """Wait for all; raise `InputError` if an error concerns every request, or if all `expected` requests fail.

        The latter needs at least `HOPELESS` failures in a row, earlier calls included.
        """
        errors = []
        for future in as_completed(futures):
            error = future.exception()
            if isinstance(error, EndpointError):
                errors.append(error)
            hopeless = len(errors) == expected and self._failed_in_a_row + expected >= HOPELESS
            if errors and (errors[-1].unusable or hopeless):
                raise InputError(f"endpoint: {errors[-1]}") from errors[-1]
        if expected:
            self._failed_in_a_row = self._failed_in_a_row + expected if len(errors) == expected else 0

    def _outcome(self, future: Future[tuple[Decision, Writing]], prompt: PromptText, request: Prompt) -> Decision:
        """Return the decision of a thread, or the fallback if the server did not answer."""
        try:
            decision, writing = future.result()
        except EndpointError as error:
            why = f"there is no answer ({error.kind})"
            if self._asker.kept is not None:
                self._asker.kept.add_failure(key_of([prompt, request.seed]), why)
            decision, writing = self._judge.fallback(request.menu, why), Writing()
        if self._transcripts:
            self._transcripts.add(request, decision, writing.answers)
        if decision.finish_reason == FALLBACK and not writing.answers:
            return decision
        return replace(decision, policy_version=self.policy_version, temperature=self._temperature or 1.0)

    def _until(self) -> float:
        return monotonic() + self._config.total_seconds


def open_endpoint(config: EndpointConfig, model: LanguageModelConfig, text_format: TextFormat) -> EndpointBackend:
    """Open a server; `structured=tokens` checks it with the tokenizer of `model.name`."""
    tokenizer = read_tokenizer(model_folder(model.name)) if config.structured == "tokens" else None
    return EndpointBackend(
        config,
        text_format,
        temperature=model.temperature,
        tokenizer=tokenizer,
        max_prompt_tokens=model.max_prompt_tokens,
    )
