"""A loopback chat server with OpenAI's interface, with and without streaming."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def chat_server(reply):
    """Yield the address of a server that answers `reply(text of the last message)`, and the list of its requests."""
    requests = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.send("application/json", json.dumps({"object": "list", "data": [{"id": "fake"}]}))

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append(body)
            text = reply(body["messages"][-1]["content"])
            whole = {"id": "1", "created": 1, "model": "fake"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            if not body.get("stream"):
                choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
                answer = {**whole, "object": "chat.completion", "choices": [choice], "usage": usage}
                return self.send("application/json", json.dumps(answer))
            choices = [
                {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None},
                {"index": 0, "delta": {}, "finish_reason": "stop"},
            ]
            events = [{**whole, "object": "chat.completion.chunk", "choices": [choice]} for choice in choices]
            lines = [f"data: {json.dumps(event)}\n\n" for event in events]
            return self.send("text/event-stream", "".join([*lines, "data: [DONE]\n\n"]))

        def send(self, kind, text):
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *words):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", requests
    finally:
        server.shutdown()
        server.server_close()
