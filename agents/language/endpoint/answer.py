"""Parsing of a server's answer; every field is checked, since it may be missing or of the wrong type. And its errors.

Only texts that passed `hide`, the filter of the key, and numbers are taken from it.

vLLM adds token ids (`return_token_ids`) and names the alternatives of every token by their ids
(`return_tokens_as_token_ids`); an alternative forbidden by its mask has log-probability -9999.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from time import time
from typing import Any

from sparring.envs.reasoning import without_reasoning

KINDS = ("timeout", "connection", "rate_limited", "server", "refused", "malformed", "too_large")
"""No answer in time; none or a partial one; 429; 5xx; another status; invalid JSON; too many bytes."""
AGAIN = frozenset({408, 409, 425, 429})
"""Statuses that are retried, as is 5xx; any other would repeat."""
UNUSABLE = {
    401: "a key is required: set endpoint.key_env to the environment variable with the key",
    403: "the key was rejected: check endpoint.key_env",
    404: "check endpoint.url, which often ends in /v1, and endpoint.model",
    405: "check endpoint.url, which often ends in /v1, and endpoint.api",
}
"""Statuses that concern all requests, and what to do."""
FORBIDDEN = -9000.0
"""Log-probabilities below this are minus infinity."""
DONE = "[DONE]"
"""Last event of a streamed answer."""
WHOLE, CUT, WITHHELD, CALL, FAILED = "", "length", "withheld", "call", "failed"
"""Kinds of ends of an answer: whole; cut off by a limit; held back by a filter; a call of a tool; failed."""
FINISHES = {
    WHOLE: "stop eos eos_token end end_turn stop_sequence stop_token complete completed done finished",
    CUT: "length max_tokens model_length max_output_tokens max_completion_tokens max_length token_limit error_limit "
    "context_length context_length_exceeded model_context_window_exceeded truncated incomplete pause_turn repetition",
    WITHHELD: "content_filter content_filtered safety refusal recitation blocklist prohibited_content spii sensitive "
    "guardrail_intervened error_toxic image_safety language moderation",
    CALL: "tool_calls tool_call tool_use function_call malformed_function_call unexpected_tool_call",
    FAILED: "error abort aborted cancelled canceled failed failure network_error server_error timeout "
    "insufficient_system_resource overloaded",
}
"""Reasons for the end of an answer, in lower case: OpenAI, Anthropic, Gemini, Mistral, Cohere, DeepSeek, Bedrock,
OpenRouter, vLLM, SGLang, TGI. A failed one is an error, which is retried."""
_KIND_OF = {name: kind for kind, names in FINISHES.items() for name in names.split()}
QUOTED = 300
"""Characters of a server's message that are quoted in errors."""
LARGEST_ID = 1 << 31
Hide = Callable[[str], str]


class EndpointError(Exception):
    """A request without an answer.

    Attributes: `kind`, one of `KINDS`; `retryable`, whether a retry may help; `after`, the seconds to wait before it
    as given by the server; `unusable`, whether all other requests would fail as well; `refused`, parameters of the
    request that the server does not take.

    """

    def __init__(
        self, kind: str, text: str, *, retryable: bool = True, after: float = 0.0, unusable: bool = False
    ) -> None:
        super().__init__(text)
        self.kind, self.retryable, self.after, self.unusable = kind, retryable, after, unusable
        self.refused: tuple[str, ...] = ()

    def told(self, text: str) -> EndpointError:
        """Return the same error with another text, and without its cause and traceback."""
        error = EndpointError(self.kind, text, retryable=self.retryable, after=self.after, unusable=self.unusable)
        error.refused = self.refused
        return error


def of_status(status: int, text: str, retry_after: str | None) -> EndpointError:
    """Return the error for a status other than 200; `text` holds the address and the server's message."""
    if status in AGAIN or status >= 500:
        kind = "rate_limited" if status == 429 else "server"
        return EndpointError(kind, text, after=seconds_of(retry_after))
    if 300 <= status < 400:
        text = f"{text}; redirects are not followed; set endpoint.url to the target"
    hint = UNUSABLE.get(status)
    unusable = hint is not None or status < 400
    return EndpointError("refused", f"{text}; {hint}" if hint else text, retryable=False, unusable=unusable)


def seconds_of(retry_after: str | None) -> float:
    """Return the seconds of a Retry-After header, a number or a date; 0 if it is neither."""
    text = (retry_after or "").strip()
    if text.replace(".", "", 1).isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time())
    except (TypeError, ValueError, OverflowError):
        return 0.0


@dataclass(frozen=True)
class Usage:
    """Tokens of an answer as the server counts them; None if it does not.

    Attributes: `prompt`, of them `cached` from its cache; `completion`, of them `reasoning`.

    """

    prompt: int | None = None
    completion: int | None = None
    cached: int = 0
    reasoning: int = 0

    @property
    def is_counted(self) -> bool:
        """Whether the server counts both prompt and answer."""
        return self.prompt is not None and self.completion is not None


@dataclass(frozen=True)
class ServerAnswer:
    """One completion.

    Attributes: `text`, without the key and without reasoning; `written` and `apart`, the whole text and the reasoning
    that the server sends apart, both without the key; `finish`, a key of `FINISHES`, `CUT` also for reasoning
    without an end; `unknown`, a reason for the end that is in no table; `prompt_ids` and `token_ids`, if returned;
    `alternatives`, for every token the possible ids and their log-probabilities, if returned; `usage`.

    """

    text: str
    finish: str
    prompt_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    alternatives: tuple[dict[int, float], ...] | None = None
    usage: Usage = field(default_factory=lambda: Usage())
    unknown: str = ""
    written: str = field(default="", compare=False)
    apart: str = field(default="", compare=False)


def read_answer(data: Mapping[str, Any], hide: Hide) -> ServerAnswer:
    """Parse the result of /completions or /chat/completions; raises `EndpointError` if it has no text."""
    choices = data.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else _anthropic(data)
    if failed := error_in(data) or error_in(choice):
        raise _failure(failed, hide)
    if not isinstance(choice, Mapping):
        raise EndpointError("malformed", f"the answer has no choices, only {', '.join(map(str, data))[:100]}")
    written = _text(choice)
    text, unfinished = without_reasoning(written)
    tokens = _ids(choice.get("token_ids"))
    finish, unknown = _finish(choice)
    return ServerAnswer(
        hide(text),
        CUT if unfinished else finish,
        _ids(choice.get("prompt_token_ids")),
        tokens,
        _alternatives(_of(choice, "logprobs", "top_logprobs"), tokens),
        read_usage(data.get("usage"), is_empty=not written),
        hide(unknown),
        hide(written),
        hide(_apart(choice)),
    )


def _apart(choice: Mapping[str, Any]) -> str:
    """Return the reasoning that stands beside the text of a choice, empty without any."""
    texts = (_of(choice, "message", name) for name in ("reasoning_content", "reasoning"))
    return next((text for text in texts if isinstance(text, str)), "")


def read_usage(usage: Any, *, is_empty: bool = False) -> Usage:
    """Return the tokens in a `usage` of OpenAI's or Anthropic's form.

    A prompt of 0 tokens is not counted, and neither is an answer of 0 unless it `is_empty`. Anthropic's `input_tokens`
    leave out the cache. Where servers leave reasoning out of `completion_tokens`, the total is the sum of all three.
    """

    def count(*paths: str) -> int | None:
        counts = (_count(_of(usage, *path.split("."))) for path in paths)
        return next((number for number in counts if number is not None), None)

    cached = count("prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens")
    cached = cached or count("prompt_cache_hit_tokens", "cache_read_input_tokens") or 0
    reasoning = count("completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens") or 0
    prompt = count("prompt_tokens", "input_tokens") or 0
    if prompt and not count("prompt_tokens"):
        prompt += (count("cache_read_input_tokens") or 0) + (count("cache_creation_input_tokens") or 0)
    completion = count("completion_tokens", "output_tokens")
    if completion is not None and reasoning and count("total_tokens") == prompt + completion + reasoning:
        completion += reasoning
    if completion is None or not (completion or is_empty):
        return Usage(prompt or None, None, min(cached, prompt))
    return Usage(prompt or None, completion, min(cached, prompt), min(reasoning, completion))


def _finish(choice: Mapping[str, Any]) -> tuple[str, str]:
    """Return the kind of a choice's end, and its name if that is in no table. Raises `EndpointError` for a failure."""
    name = choice.get("finish_reason")
    if _of(choice, "message", "refusal"):
        return WITHHELD, ""
    kind = _KIND_OF.get(name.lower() if isinstance(name, str) else "", None if name else WHOLE)
    if kind == FAILED:
        raise EndpointError("server", f"the answer ends with finish_reason={str(name)[:QUOTED]!r}")
    return (WHOLE, str(name)[:QUOTED]) if kind is None else (kind, "")


def error_in(value: Any) -> Any:
    """Return the error that an answer, an event or a choice holds, None if there is none."""
    is_error = _of(value, "object") == "error" or _of(value, "type") == "error"
    return _of(value, "error") or (value if is_error else None)


def _failure(error: Any, hide: Hide) -> EndpointError:
    """Return the error of a server that answers 200; one with a status in it counts as that status."""
    text = hide(json.dumps(error, ensure_ascii=False))[:QUOTED]
    status = next((code for code in (_of(error, "code"), _of(error, "status")) if type(code) is int), 0)
    if 300 <= status < 600:
        return of_status(status, f"the answer is an error: {text}", None)
    return EndpointError("malformed", f"the answer is an error: {text}")


def _anthropic(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the body of Anthropic's messages as a choice, None if it is not one."""
    if data.get("type") != "message" or "content" not in data:
        return None
    return {"message": {"content": data["content"]}, "finish_reason": data.get("stop_reason")}


def joined(events: Sequence[Any]) -> dict[str, Any]:
    """Return the answer of a server that streams it, with the whole text of its first choice, in one piece.

    Raises `EndpointError` for events without an end.
    """
    text, finish, usage = "", None, None
    for event in events:
        if failed := error_in(event):
            return {"error": failed}
        usage = _of(event, "usage") or usage
        choices = _of(event, "choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, Mapping) and not choice.get("index"):
                if failed := error_in(choice):
                    return {"error": failed}
                text, finish = text + _text(choice), choice.get("finish_reason") or finish
    if finish is None and events[-1:] != [DONE]:
        raise EndpointError("connection", "the server disconnected before the end of the streamed answer")
    return {"choices": [{"text": text, "finish_reason": finish}], "usage": usage}


def model_names(data: Mapping[str, Any], hide: Hide) -> list[str]:
    """Return the names of the models listed by /models; raises `EndpointError` for one that holds the key."""
    listed = data.get("data")
    names = [_of(model, "id") for model in listed] if isinstance(listed, list) else []
    texts = [name for name in names if isinstance(name, str)]
    if any(hide(name) != name for name in texts):
        raise EndpointError(
            "malformed", "the key is the name of a model; set endpoint.model to the model's name", retryable=False
        )
    return texts


def _text(choice: Mapping[str, Any]) -> str:
    """Return the text of a choice, or of its parts that are text; empty where there is none, as in a call of a tool."""
    within = next((name for name in ("message", "delta") if name in choice), None)
    text = _of(choice, within, "content") if within else choice.get("text")
    if isinstance(text, list) and all(isinstance(part, Mapping) for part in text):
        texts = [part.get("text") for part in text if part.get("type", "text") in ("text", "output_text")]
        return "".join(part for part in texts if isinstance(part, str))
    if not isinstance(text, str | None):
        raise EndpointError("malformed", f"the answer's text is of type {type(text).__name__}")
    return text or ""


def _of(value: Any, *path: str) -> Any:
    """Return the value at a path of keys, None if a key is missing."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < LARGEST_ID else None


def _ids(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not all(type(token) is int and 0 <= token < LARGEST_ID for token in value):
        return None
    return tuple(value)


def _alternatives(value: Any, tokens: tuple[int, ...] | None) -> tuple[dict[int, float], ...] | None:
    """Return one mapping per token; None unless the server names all alternatives by id."""
    if tokens is None or not isinstance(value, list) or len(value) != len(tokens):
        return None
    steps = tuple(step for step in map(_step, value) if step is not None)
    return steps if len(steps) == len(value) else None


def _step(step: Any) -> dict[int, float] | None:
    """Return the ids allowed by the mask at one token, with log-probabilities; None if malformed."""
    if not isinstance(step, Mapping):
        return None
    named = {str(name).removeprefix("token_id:"): value for name, value in step.items()}
    if not all(_is_id(name) and isinstance(value, int | float) for name, value in named.items()):
        return None
    return {int(name): float(value) for name, value in named.items() if value > FORBIDDEN}


def _is_id(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) <= len(str(LARGEST_ID)) and int(name) < LARGEST_ID
