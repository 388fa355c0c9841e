"""Players behind HTTP on loopback: requests, answers, and failing servers."""

import contextlib
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sparring.configs.core.errors import InputError
from sparring.envs.imported.evaluation.players import http_player
from sparring.envs.imported.evaluation.players.state_players import met_states, open_player
from sparring.eval.exploit import exploit_policy, main

pyspiel = pytest.importorskip("pyspiel")


@pytest.fixture
def serve():
    """Return `serve(answer)`, which starts a server with `answer(request)` and returns address and requests."""
    servers = []

    def start(answer, status=200):
        requests = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                content = answer(requests[-1])
                content = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Location", "/other")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                with contextlib.suppress(OSError):  # of a client that gave up
                    self.wfile.write(content)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/act", requests

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def uniform(request):
    return {"probabilities": [[1 / len(d["legal_actions"])] * len(d["legal_actions"]) for d in request["decisions"]]}


def first(request):
    return {"actions": [decision["legal_actions"][0] for decision in request["decisions"]]}


@pytest.mark.parametrize(("answer", "exact"), [(uniform, 11 / 24), (first, 1.0)])
def test_exploitability_matches_same_player_by_hand(serve, tmp_path, answer, exact):
    """Kuhn poker: uniform play, and a player that passes and folds."""
    address, requests = serve(answer)
    report = exploit_policy(address, env="openspiel", id="kuhn_poker", moves=2000, out=tmp_path)
    assert report.exact == pytest.approx(exact)
    assert max(len(request["decisions"]) for request in requests) == 12  # all information states in one request


def test_request_contains_openspiel_state_views(serve):
    address, requests = serve(uniform)
    game = pyspiel.load_game("kuhn_poker")
    state = game.new_initial_state().child(2).child(0).child(1)
    open_player(address, game)([state])
    assert requests == [
        {
            "protocol": 1,
            "game": "kuhn_poker()",
            "decisions": [
                {
                    "player": 1,
                    "information_state": "0b",
                    "observation": state.information_state_tensor(1),
                    "legal_actions": [0, 1],
                }
            ],
        }
    ]


def test_many_decisions_are_split_into_requests(serve, monkeypatch):
    monkeypatch.setattr(http_player, "BATCH", 5)
    address, requests = serve(uniform)
    game = pyspiel.load_game("kuhn_poker")
    states = [first for first, _ in met_states(game, 12).values()]
    assert len(open_player(address, game)(states)) == 12
    assert [len(request["decisions"]) for request in requests] == [5, 5, 2]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda _: b"<html>", "returned invalid JSON"),
        (lambda _: b"[" * 100_000, "returned invalid JSON"),
        (lambda _: [1], "expected a list under probabilities or actions"),
        (lambda r: {**uniform(r), **first(r)}, "expected a list under probabilities or actions"),
        (lambda _: {"actions": [0]}, "gave 1 answers for 12 decisions"),
        (lambda r: {"actions": ["0"] * len(r["decisions"])}, "expected an action as an integer, got '0'"),
        (lambda r: {"actions": [True] * len(r["decisions"])}, "expected an action as an integer, got 'True'"),
        (lambda r: {"actions": [5] * len(r["decisions"])}, "action 5 is not legal"),
        (lambda r: {"probabilities": [[1.0]] * len(r["decisions"])}, "expected 2 probabilities"),
        (lambda r: {"probabilities": [["1", "0"]] * len(r["decisions"])}, "expected 2 probabilities"),
        (lambda r: {"probabilities": [[0.5, 0.4]] * len(r["decisions"])}, "sum to 0.9, not to 1"),
        (lambda r: b'{"probabilities": [' + b", ".join([b"[NaN, 1]"] * len(r["decisions"])) + b"]}", "nan is not in"),
        (lambda _: b" " * 5_000_000, "larger than 4,194,304 bytes"),
    ],
)
def test_wrong_answer_gives_one_line_error(serve, tmp_path, capsys, answer, message):
    address, _ = serve(answer)
    assert main([address, "--env", "openspiel", "--id", "kuhn_poker", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert message in error
    assert address in error


@pytest.mark.parametrize(("status", "cure"), [(302, "200: name the address that it redirects to"), (500, "200")])
def test_other_status_is_rejected_and_redirects_are_not_followed(serve, status, cure):
    address, requests = serve(uniform, status)
    game = pyspiel.load_game("kuhn_poker")
    with pytest.raises(InputError, match=f"answered with status {status}; expected {cure}$"):
        open_player(address, game).replay(game)
    assert len(requests) == 1


def test_silent_server_times_out(serve, monkeypatch):
    monkeypatch.setattr(http_player, "SECONDS", 0.2)
    address, _ = serve(lambda request: (time.sleep(1.0), uniform(request))[1])
    game = pyspiel.load_game("kuhn_poker")
    with pytest.raises(InputError, match=r"gave no answer to a request within 0\.2 seconds"):
        open_player(address, game).replay(game)


def test_slow_server_times_out(monkeypatch):
    monkeypatch.setattr(http_player, "SECONDS", 0.4)
    listening = socket.create_server(("127.0.0.1", 0))

    def drip():
        connection, _ = listening.accept()
        with contextlib.suppress(OSError):
            for _ in range(100):
                connection.send(b"H")
                time.sleep(0.1)

    threading.Thread(target=drip, daemon=True).start()
    game = pyspiel.load_game("kuhn_poker")
    with listening, pytest.raises(InputError, match=r"gave no answer to a request within 0\.4 seconds"):
        open_player(f"http://127.0.0.1:{listening.getsockname()[1]}/", game).replay(game)


@pytest.mark.parametrize(
    "answer", [b"SSH-2.0-other\r\n", b"", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz"]
)
def test_reached_server_with_partial_answer_is_not_unreachable(answer):
    listening = socket.create_server(("127.0.0.1", 0))

    def close():
        connection, _ = listening.accept()
        with connection:
            connection.sendall(answer)

    threading.Thread(target=close, daemon=True).start()
    game = pyspiel.load_game("kuhn_poker")
    with listening, pytest.raises(InputError, match=r"does not answer in HTTP, or breaks off \(.*fix the server"):
        open_player(f"http://127.0.0.1:{listening.getsockname()[1]}/", game).replay(game)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("http://127.0.0.1:1/act", "cannot be reached"),
        ("http:///act", "expected an address such as"),
        ("http://127.0.0.1:port/act", "expected an address such as"),
        ("http://me:secret@127.0.0.1:1/", "has a user or password"),
    ],
)
def test_wrong_address_gives_one_line_error_without_password(address, message, tmp_path, capsys):
    assert main([address, "--id", "kuhn_poker", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "secret" not in error
