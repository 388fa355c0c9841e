"""A loopback server in a thread in place of an endpoint: it validates requests and fails on demand.

Requests are recorded, those that vLLM would refuse are refused. `faults` are used up one a request, in order; `always`
is the fault of all those that follow.
"""

import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

from tests.agents.language.endpoint.loopback_model import OPENAI, LoopbackModel

LIMIT = "max_completion_tokens"
STANDARD = {LIMIT, "model", "prompt", "messages", "max_tokens", "temperature", "seed", "stop", "top_p", "logprobs"}
STANDARD |= {"reasoning_effort"}
ADDED = {"top_k", "min_p", "repetition_penalty", "structured_outputs", "return_token_ids", "return_tokens_as_token_ids"}
SILENCE = 30.0
"""Seconds that a silent server is silent; far longer than any time-out of a test."""


def refusal(name):
    """Return OpenAI's error for a parameter that a model does not support."""
    if name == "temperature":
        message = "Unsupported value: 'temperature' does not support 0.8 with this model. Only the default (1) value is"
        return {"message": f"{message} supported.", "param": name, "code": "unsupported_value"}
    other = f" Use '{LIMIT}' instead." if name == "max_tokens" else ""
    message = f"Unsupported parameter: '{name}' is not supported with this model.{other}"
    return {"message": message, "type": "invalid_request_error", "param": name, "code": "unsupported_parameter"}


@dataclass
class Loopback:
    """The server; `with Loopback(model) as server` runs it at `server.url`."""

    model: LoopbackModel
    faults: list = field(default_factory=list)
    always: str = ""
    key: str = ""
    told: str = ""
    names: tuple = ("toy",)
    delay: float = 0.0
    most_logprobs: int = 64
    refuses: tuple = ()
    """Parameters that are refused in OpenAI's words"""
    bodies: list = field(default_factory=list)
    times: list = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0

    def __enter__(self):
        self.lock = Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"loopback": self}))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def next_fault(self):
        with self.lock:
            return self.faults.pop(0) if self.faults else self.always

    def problem(self, body):
        """Return the server's error for an invalid request, None if it is valid."""
        known = STANDARD if OPENAI in self.model.quirks else STANDARD | ADDED
        if unknown := sorted(set(body) - known):
            return f"unknown fields {unknown}"
        missing = {"max_tokens", LIMIT} - set(body)
        if len(missing) != 1:
            return "give max_tokens"
        if body.get("model") not in self.names:
            return f"no model {body.get('model')}"
        if not 1 <= body.get("max_tokens", body.get(LIMIT)) <= 4096 or not 0 <= body.get("temperature", 1) <= 2:
            return "max_tokens or temperature out of range"
        if body.get("logprobs", 0) > self.most_logprobs:
            return f"logprobs is more than --max-logprobs, {self.most_logprobs}"
        prompt = body.get("prompt", "-")
        return None if prompt and isinstance(prompt, str | list) else "no prompt"


class _Handler(BaseHTTPRequestHandler):
    loopback: Loopback

    def log_message(self, *_):
        pass

    def do_GET(self):
        models = [{"id": name, "object": "model"} for name in self.loopback.names]
        self._reply(200, {"object": "list", "data": models} if self.path == "/v1/models" else {})

    def do_POST(self):
        host = self.loopback
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with host.lock:
            host.bodies.append(body)
            host.times.append(time.monotonic())
            host.under_way += 1
            host.most_under_way = max(host.most_under_way, host.under_way)
        time.sleep(host.delay)
        with host.lock:
            host.under_way -= 1  # before the answer, after which the other side may ask again
        with suppress(BrokenPipeError, ConnectionResetError):
            self._answer(body)

    def _answer(self, body):
        host = self.loopback
        if fault := host.next_fault():
            return getattr(self, f"_{fault}")(body)
        if host.key and self.headers.get("Authorization") != f"Bearer {host.key}":
            return self._reply(401, {"error": "no key"})
        if refused := [name for name in host.refuses if name in body]:
            return self._reply(400, {"error": refusal(refused[0])})
        if problem := host.problem(body):
            return self._reply(400, {"error": {"message": problem}})
        if self.path not in ("/v1/completions", "/v1/chat/completions"):
            return self._reply(404, {"error": "no such path"})
        return self._reply(200, host.model.complete({"max_tokens": body.get(LIMIT), "temperature": 1.0} | body))

    def _reply(self, status, content, headers=(), length=None):
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in (("Content-Length", len(content) if length is None else length), *headers):
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(content)

    def _text(self, text, finish="stop"):
        self._reply(200, {"choices": [{"text": text, "finish_reason": finish}], "usage": {"prompt_tokens": 7}})

    def _line(self, line, content=b""):
        """Return a raw reply: its status line, a length and the content."""
        self.wfile.write(line.encode("latin-1") + b"\r\nContent-Length: %d\r\n\r\n" % len(content) + content)
        self.close_connection = True

    # The faults, by name.

    def _busy(self, _):
        self._reply(429, {"error": "slow down"}, [("Retry-After", "0.3")])

    def _busy_for_an_hour(self, _):
        self._reply(429, {"error": "slow down"}, [("Retry-After", "3600")])

    def _broken(self, _):
        self._reply(500, {"error": "out of order"})

    def _refusing(self, _):
        self._reply(400, {"error": "prompt too long"})

    def _not_found(self, _):
        self._reply(404, {"error": "no such model"})

    def _moved(self, _):
        self._reply(302, b"", [("Location", "http://127.0.0.1:1/v1")])

    def _telling(self, _):
        self._reply(401, {"error": f"wrong key: {self.headers['Authorization']}"})

    # The key as the server may repeat it, `told`, in every place.

    def _key_in_status(self, _):
        self._line(f"HTTP/1.1 401 no {self.loopback.told}")

    def _key_as_protocol(self, _):
        self._line(f"{self.loopback.told} 200 OK")

    def _key_in_headers(self, _):
        told = self.loopback.told
        self._reply(302, {"error": "elsewhere"}, [("Location", f"/{told}"), ("Retry-After", told), (told, told)])

    def _key_in_long_header(self, _):
        self._line(f"HTTP/1.1 200 OK\r\nX-Key: {self.loopback.told * 5000}")

    def _key_in_error(self, _):
        self._reply(400, {"error": {"message": f"wrong key {self.loopback.told}", self.loopback.told: 1}})

    def _key_at_the_cut(self, _):
        self._reply(500, f"{' ' * 3000}{'x' * 270}{self.loopback.told}".encode())

    def _key_many_times(self, _):
        self._reply(500, (self.loopback.told * 40).encode())

    def _key_as_name(self, _):
        self._reply(200, {self.loopback.told: {}, "error": {}})

    def _key_as_text(self, _):
        self._text(self.loopback.told)

    def _key_as_finish(self, _):
        self._text("A PAR H", self.loopback.told)

    def _key_as_type(self, _):
        self._reply(200, {"choices": [{"text": {self.loopback.told: 1}}]})

    def _key_as_token(self, body):
        answer = self.loopback.model.complete(body)
        for choice in answer["choices"]:
            choice["logprobs"] = {"tokens": [self.loopback.told], "top_logprobs": [{self.loopback.told: -0.5}]}
        self._reply(200, answer)

    def _silent(self, _):
        time.sleep(SILENCE)

    def _dripping(self, _):
        self._reply(200, b"", length=100_000)
        self._drip()

    def _dripping_without_end(self, _):
        self.send_response(200)
        self.end_headers()
        self._drip()

    def _drip(self):
        while True:
            self.wfile.write(b" ")
            time.sleep(0.02)

    def _endless(self, _):
        self.send_response(200)
        self.end_headers()
        while True:
            self.wfile.write(b" " * 65536)

    def _dropping(self, _):
        self.connection.close()

    def _half(self, body):
        content = json.dumps(self.loopback.model.complete(body)).encode()
        self._reply(200, content[: len(content) // 2], length=len(content))

    def _truncated(self, body):
        self._reply(200, json.dumps(self.loopback.model.complete(body)).encode()[:-20])

    def _not_utf8(self, _):
        self._reply(200, b'{"choices": [{"text": "A PAR \xff"}]}')

    def _a_list(self, _):
        self._reply(200, [1, 2])

    def _without_choices(self, _):
        self._reply(200, {"choices": []})

    def _of_numbers(self, _):
        self._reply(200, {"choices": [{"text": 5}]})

    def _deep(self, _):
        self._reply(200, b'{"choices":' + b"[" * 100_000 + b"]" * 100_000 + b"}")

    def _of_4000_digits(self, body):
        self._with_number(body, b"7" * 4000)

    def _long_length(self, _):
        self._line(f"HTTP/1.1 200 OK\r\nContent-Length: {'7' * 4000}", b"{}")

    def _long_status(self, _):
        self._line(f"HTTP/1.1 {'7' * 4000} OK")

    def _of_9000_digits(self, body):
        self._with_number(body, b"7" * 9000)

    def _with_number(self, body, digits):
        content = json.dumps(self.loopback.model.complete(body)).encode()
        self._reply(200, b'{"created": ' + digits + b", " + content[1:])

    def _illegal(self, _):
        self._text("A MOS - WAR\nA XYZ H\n")

    def _without_usage(self, body):
        answer = self.loopback.model.complete({"max_tokens": body.get(LIMIT), "temperature": 1.0} | body)
        self._reply(200, {name: value for name, value in answer.items() if name != "usage"})

    def _reasoning(self, _):
        message = {"role": "assistant", "content": "A PAR H", "reasoning_content": "Paris holds."}
        usage = {"prompt_tokens": 10, "completion_tokens": 8, "completion_tokens_details": {"reasoning_tokens": 5}}
        self._reply(200, {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})

    def _cut(self, _):
        self._text("A BER - K", "length")

    def _empty(self, _):
        self._text("")

    def _only_reasoning(self, _):
        message = {"role": "assistant", "content": None, "reasoning_content": "Paris could move, or hold. " * 9}
        self._reply(200, {"choices": [{"message": message, "finish_reason": "length"}]})

    def _with_a_mark(self, body):
        self._reply(200, b"\xef\xbb\xbf" + json.dumps(self.loopback.model.complete(body)).encode())

    def _streamed(self, body):
        (choice,) = self.loopback.model.complete(body)["choices"]
        parts = [{**choice, "text": letter, "finish_reason": None} for letter in choice["text"]]
        self._events([*parts, {**choice, "text": ""}])

    def _half_streamed(self, _):
        self._events([{"index": 0, "text": "A PAR - BUR", "finish_reason": None}])

    def _events(self, choices):
        events = [f"data: {json.dumps({'choices': [choice]})}\n\n" for choice in choices]
        self._reply(200, ": ping\n\n".join(["", *events]).encode())

    def _rambling(self, _):
        self._text("As a language model I cannot order armies. " * 100_000)  # 4 MB

    def _rambling_on(self, _):
        self._text("As a language model I cannot order armies. " * 250_000)  # 10 MB
