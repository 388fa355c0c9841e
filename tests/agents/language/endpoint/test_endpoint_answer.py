"""Parsing of server answers: nothing is assumed, invalid fields are missing, and an answer needs text."""

import pytest

from sparring.agents.language.endpoint.answer import DONE, EndpointError, ServerAnswer, Usage, joined, model_names
from sparring.agents.language.endpoint.answer import read_answer as read_and_hide

WHOLE = {
    "choices": [
        {
            "text": "A PAR H\n",
            "finish_reason": "stop",
            "prompt_token_ids": [4, 5],
            "token_ids": [7, 0],
            "logprobs": {
                "top_logprobs": [
                    {"token_id:7": -0.5, "token_id:8": -0.9, "token_id:9": -9999.0},
                    {"token_id:0": 0.0, "token_id:1": float("-inf")},
                ]
            },
        }
    ],
    "usage": {"prompt_tokens": 2, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
}


def read_answer(data):
    return read_and_hide(data, str)


def with_choice(**changes):
    return {**WHOLE, "choices": [{**WHOLE["choices"][0], **changes}]}


def test_complete_answer_is_parsed():
    assert read_answer(WHOLE) == ServerAnswer(
        "A PAR H\n", "", (4, 5), (7, 0), ({7: -0.5, 8: -0.9}, {0: 0.0}), Usage(2, 2, 1)
    )


def test_chat_answer_is_parsed():
    message = {"role": "assistant", "content": "A PAR H"}
    answer = read_answer({"choices": [{"message": message, "finish_reason": "length"}]})
    assert answer == ServerAnswer("A PAR H", "length")


def test_message_without_content_is_empty():
    assert read_answer({"choices": [{"message": {"content": None}}]}).text == ""
    calls = [{"type": "function", "function": {"name": "orders", "arguments": "{}"}}]
    assert read_answer({"choices": [{"message": {"content": None, "tool_calls": calls}}]}) == ServerAnswer("", "")


ORDER, OTHER = "A PAR - BUR", "A PAR - PIC"


@pytest.mark.parametrize(
    ("text", "answer", "finish"),
    [
        *((f"<{tag}>{OTHER}</{tag}>{ORDER}", ORDER, "") for tag in ("think", "thinking", "reasoning", "Think")),
        (f"[THINK]{OTHER}[/THINK]{ORDER}", ORDER, ""),
        (f"{OTHER}</think>{ORDER}", ORDER, ""),  # the tag that opens it is part of the prompt
        (f"<think>{OTHER}</think>no<think>{OTHER}</think>{ORDER}", ORDER, ""),
        (f"<think>a <think> b</think>{OTHER}</think>{ORDER}", ORDER, ""),
        (f"<think>\n{OTHER}", "", "length"),
        (f"<think>{OTHER}</think>{ORDER}<think>{OTHER}", ORDER, "length"),
        (f"<|channel|>analysis<|message|>{OTHER}<|end|><|start|>assistant", "", "length"),
        (
            f"<|channel|>analysis<|message|>{OTHER}<|end|><|start|>assistant<|channel|>final<|message|>{ORDER}<|return|>",
            ORDER,
            "",
        ),
        (f"analysis{OTHER}assistantfinal{ORDER}", ORDER, ""),
        (f"I think: {ORDER}", f"I think: {ORDER}", ""),
        ([{"type": "thinking", "thinking": [{"text": OTHER}]}, {"type": "text", "text": ORDER}], ORDER, ""),
        ([{"text": "A PAR "}, {"type": "output_text", "text": "- BUR"}], ORDER, ""),
    ],
)
def test_answers_exclude_reasoning_and_open_reasoning_is_truncated(text, answer, finish):
    choice = {"message": {"content": text, "reasoning_content": OTHER}, "finish_reason": "stop"}
    assert read_answer({"choices": [choice]}) == ServerAnswer(answer, finish)


def test_error_in_place_of_answer_is_quoted():
    with pytest.raises(EndpointError, match="the model is loading"):
        read_answer({"error": {"message": "the model is loading", "code": 503}})


FAILURE = {"message": "Provider disconnected", "code": 502}


@pytest.mark.parametrize(
    ("data", "kind", "again"),
    [
        ({"choices": [{"finish_reason": "error", "error": FAILURE, "message": {"content": ""}}]}, "server", True),
        ({"choices": [{"finish_reason": "error", "message": {"content": ORDER}}]}, "server", True),
        ({"choices": [{"finish_reason": "abort", "text": ORDER}]}, "server", True),
        ({"choices": [{"text": ORDER}], "error": FAILURE}, "server", True),
        ({"object": "error", "message": "too long", "code": 400}, "refused", False),
        ({"error": {"code": 429}}, "rate_limited", True),
        ({"type": "error", "error": {"type": "overloaded_error"}}, "malformed", True),
    ],
)
def test_failure_inside_answer_is_error(data, kind, again):
    """OpenRouter answers 200 with the failure inside the choice; others put it beside or in place of choices."""
    for read in (lambda: read_answer(data), lambda: read_answer(joined([data, DONE]))):
        with pytest.raises(EndpointError) as caught:
            read()
        assert (caught.value.kind, caught.value.retryable) == (kind, again)


@pytest.mark.parametrize(
    ("reason", "finish", "unknown"),
    [
        *((name, "", "") for name in ("stop", "end_turn", "STOP", "eos", None, "stop_sequence")),
        *((name, "length", "") for name in ("length", "max_tokens", "MAX_TOKENS", "model_length", "max_output_tokens")),
        *((name, "withheld", "") for name in ("content_filter", "SAFETY", "refusal", "RECITATION")),
        *((name, "call", "") for name in ("tool_calls", "function_call", "tool_use")),
        ("something_new", "", "something_new"),
    ],
)
def test_every_finish_reason_has_a_kind(reason, finish, unknown):
    answer = read_answer({"choices": [{"text": ORDER, "finish_reason": reason}]})
    assert (answer.text, answer.finish, answer.unknown) == (ORDER, finish, unknown)


def test_separate_refusal_is_withheld():
    assert read_answer({"choices": [{"message": {"content": None, "refusal": "I cannot"}}]}).finish == "withheld"


def test_anthropic_body_is_parsed():
    body = {"type": "message", "content": [{"type": "text", "text": ORDER}], "stop_reason": "max_tokens"}
    assert read_answer(body) == ServerAnswer(ORDER, "length")


def test_streamed_events_form_one_answer():
    """By hand, as servers stream: the first choice in parts, token counts last; without an end it is not an answer."""
    parts = [{"index": 0, "delta": {"role": "assistant", "content": text}} for text in ("A PAR", None, " - BUR")]
    events = [{"choices": [part]} for part in parts]
    ended = [{"choices": [{"index": 1, "delta": {"content": OTHER}}]}, {"choices": [], "usage": {"prompt_tokens": 2}}]
    cut = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
    assert read_answer(joined([*events, *ended, DONE])) == ServerAnswer(ORDER, "", usage=Usage(2))
    assert read_answer(joined([*events, cut])) == ServerAnswer(ORDER, "length")
    assert read_answer(joined([{"choices": [{"text": ORDER, "finish_reason": "stop"}]}])) == ServerAnswer(ORDER, "")
    with pytest.raises(EndpointError, match="disconnected before the end"):
        joined(events)


@pytest.mark.parametrize(
    "data",
    [
        *({"choices": choices} for choices in ([], None, "A PAR H", ["A"], [{"text": 5}], [{"text": ["A"]}])),
        *({}, {"error": "no"}),
    ],
)
def test_answer_without_text_is_malformed(data):
    with pytest.raises(EndpointError) as caught:
        read_answer(data)
    assert caught.value.kind == "malformed"


@pytest.mark.parametrize("ids", ["7", [7, "0"], [7, -1], [7, True], [7.0, 0], [1 << 40, 0], {"7": 0}, None])
def test_invalid_token_ids_are_missing(ids):
    answer = read_answer(with_choice(token_ids=ids))
    assert answer.token_ids is None
    assert answer.alternatives is None


@pytest.mark.parametrize(
    "shown",
    [
        *(None, "x", {"token_id:7": 1}, [], [None, None], [{"token_id:7": -0.5}]),
        *([first, {"token_id:0": 0.0}] for first in ({" PAR": -0.5}, {"token_id:7": "-1"}, {"token_id:٣": 0.0})),
        *([{f"token_id:{name}": -0.5}, {"token_id:0": 0.0}] for name in ("9" * 5000, str(1 << 31))),
    ],
)
def test_alternatives_without_ids_for_each_token_are_missing(shown):
    answer = read_answer(with_choice(logprobs={"top_logprobs": shown}))
    assert answer.token_ids == (7, 0)
    assert answer.alternatives is None


@pytest.mark.parametrize("usage", [None, [], {"prompt_tokens": "2"}, {"prompt_tokens": -2}, {"prompt_tokens": 1e9}])
def test_non_integer_token_counts_are_ignored(usage):
    answer = read_answer({**WHOLE, "usage": usage})
    assert answer.usage == Usage(None, None)
    assert not answer.usage.is_counted


def test_model_names_are_read_and_other_entries_skipped():
    assert model_names({"data": [{"id": "a"}, {"id": 5}, "b", {}, {"id": "c"}]}, str) == ["a", "c"]
    assert model_names({}, str) == model_names({"data": 5}, str) == []
