"""The OpenEnv server with the package's client and validator; numbers equal the match itself."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from sparring.configs.core.errors import InputError
from sparring.envs.hubs.matches import open_match
from tests.envs.hubs.test_matches import first_orders, played

FOLDER = Path(__file__).resolve().parents[3] / "envs" / "hubs" / "openenv"


def test_missing_package_prints_install_command():
    code = (
        "import sys; sys.modules['openenv'] = None\n"
        "try:\n    import sparring.envs.hubs.openenv.server\nexcept ValueError as error:\n    print(error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "`sparring install openenv`" in told
    assert len(told.splitlines()) == 1


@pytest.fixture(scope="module")
def url():
    """Serve in a thread of this process."""
    pytest.importorskip("openenv.core")
    import uvicorn

    from sparring.envs.hubs.openenv.server import app

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(20)


def client(url):
    from openenv.core.generic_client import GenericEnvClient

    return GenericEnvClient(base_url=url).sync()


class Told:
    """An observation with the fields of a turn, for `first_orders`."""

    def __init__(self, observation):
        self.legal = observation["legal"]


def test_two_sessions_equal_direct_matches(url):
    options = {"game": "diplomacy", "power": "TURKEY", "last_year": 1902, "opponents": "dumbbot"}
    direct = {}
    for seed in (3, 4):
        match = open_match(**options)
        direct[seed] = played(match, seed)
        match.close()
    with client(url) as one, client(url) as two:
        sessions = {3: one, 4: two}
        results = {seed: session.reset(seed=seed, **options) for seed, session in sessions.items()}
        for number in range(max(map(len, direct.values()))):
            for seed, session in sessions.items():
                if number >= len(direct[seed]):
                    continue
                turn, result = direct[seed][number], results[seed]
                seen = result.observation
                assert (seen["prompt"], seen["seat"], seen["answer"]) == (turn.prompt, turn.seat, turn.answer)
                assert [tuple(lines) for lines in seen["legal"]] == list(turn.legal)
                assert (result.done, result.reward or 0.0) == (turn.done, turn.reward)
                if not turn.done:
                    results[seed] = session.step({"text": first_orders(Told(seen))})
        assert one.state()["seed"] == 3


def test_client_plays_all_seats_of_openspiel_game(url):
    pytest.importorskip("pyspiel")
    options = {"game": "openspiel_text", "id": "leduc_poker", "seat": "all"}
    match = open_match(**options)
    turn = match.start(5)
    seats = set()
    with client(url) as session:
        result = session.reset(seed=5, **options)
        while not turn.done:
            seen = result.observation
            assert (seen["prompt"], seen["seat"], seen["legal"]) == (turn.prompt, turn.seat, [[*turn.legal[0]]])
            seats.add(turn.seat)
            text = f"I think.\n{turn.legal[0][-1]}"
            turn, result = match.answer(text), session.step({"text": text})
    assert seats == {0, 1}
    assert result.done
    assert result.observation["rewards"] == {"0": turn.rewards[0], "1": -turn.rewards[0]}
    assert turn.rewards[0] != 0


def test_exploitability_is_reported_after_survey(url):
    """The player always bets: see test_verifiers."""
    pytest.importorskip("pyspiel")
    with client(url) as session:
        result = session.reset(seed=1, game="openspiel_exploitability", samples=2)
        for _ in range(24):
            assert not result.done
            result = session.step({"text": "Bet"})
    assert (result.done, result.reward) == (True, pytest.approx(-1 / 3))
    facts = result.observation["facts"]
    assert facts["exploitability"] == pytest.approx(1 / 3)
    assert facts["worst"][0]["policy"] == {"Pass": 0.0, "Bet": 1.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"id": "tarok"}, "id=tarok: draws chance in the middle of a turn"),
        ({"id": "crazy_eights"}, "id=crazy_eights: has no text of what a player knows"),
        ({"id": "efg_game(filename=/etc/passwd)"}, "names a file of the server"),
        ({"game": "openspiel_exploitability", "id": "chess"}, "chess: has too many positions"),
    ],
)
def test_unsupported_game_gives_one_line_error(url, options, message):
    pytest.importorskip("pyspiel")
    with client(url) as session, pytest.raises(Exception, match=message):
        session.reset(seed=1, **{"game": "openspiel_text", **options})


def test_illegal_answer_and_bad_options(url):
    with client(url) as session:
        session.reset(seed=1, power="FRANCE", last_year=1901)
        result = session.step({"text": "A PAR - MOS\nA MAR H\nF BRE H\n</orders>"})
        assert result.observation["answer"] == "illegal"
        assert result.observation["problems"][0].startswith("A PAR - MOS")
        with pytest.raises(Exception, match="unknown power 'SPAIN': choose from"):
            session.reset(seed=1, power="spain")
        with pytest.raises(Exception, match="last_year"):
            session.reset(seed=1, last_year=5)


def test_openenv_validator_accepts_server(url):
    from openenv.cli._validation import validate_running_environment
    from openenv.validation import Level, Verdict, run_validation

    report = validate_running_environment(url, timeout_s=30)
    assert report["passed"], [one for one in report["criteria"] if not one["passed"]]
    static = run_validation(FOLDER, max_level=Level.STATIC)
    assert static.verdict in (Verdict.PASS, getattr(Verdict, "WARN", Verdict.PASS)), static


# ---- without the package: a stand-in with its two calls of the environment, which are those of its WebSocket

STAND_IN = """
import asyncio, json, sys, types
class Model:
    def __init__(self, **values): self.__dict__.update(values)
class Environment: pass
def create_app(make, action, observation, env_name, concurrency_config):
    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            return await send({"type": "lifespan.shutdown.complete"})
        env = make()
        await receive()
        await send({"type": "websocket.accept"})
        try:
            while (message := await receive())["type"] == "websocket.receive":
                kind, data = json.loads(message["text"])
                try:
                    if kind == "drawn":
                        from sparring.envs.chess.interfaces import text_match
                        told = str(len(text_match._drawn_positions()._records))
                        await send({"type": "websocket.send", "text": told})
                        continue
                    call = env.reset_async(**data) if kind == "reset" else env.step_async(action(cut=None, **data))
                    told = (await call).prompt
                except ValueError as error:
                    print(error, file=sys.stderr, flush=True)
                    told = str(error)
                await send({"type": "websocket.send", "text": told})
        finally:
            env.close()
    return app
parts = {"http_server": {"create_app": create_app}, "interfaces": {"Environment": Environment},
    "types": dict.fromkeys(("Action", "ConcurrencyConfig", "EnvironmentMetadata", "Observation", "State"), Model)}
for name in ("openenv", "openenv.core", "openenv.core.env_server"):
    sys.modules[name] = types.ModuleType(name)
for name, content in parts.items():
    module = sys.modules["openenv.core.env_server." + name] = types.ModuleType(name)
    module.__dict__.update(content)
from sparring.envs.hubs.openenv import server
"""


@pytest.fixture
def stand_in():
    """Run a server with the stub in a process; return its port and the process."""
    pytest.importorskip("chess")
    pytest.importorskip("uvicorn")
    code = f"{STAND_IN}\nserver.main(['--port', '0'])"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    line = next((line for line in process.stderr if "running on" in line), "")
    yield int(line.split("127.0.0.1:")[1].split()[0]), process
    process.kill()
    process.communicate()


def asked(connection, kind, **data):
    connection.send(json.dumps([kind, data]))
    return connection.recv(120)


def test_server_answers_programs_but_not_foreign_pages(stand_in):
    port, _ = stand_in
    match = open_match("chess_arbiter", positions=2000)
    with connect(f"ws://127.0.0.1:{port}/ws") as one:
        assert asked(one, "reset", game="chess_arbiter", seed=11) == match.start(11).prompt
        assert asked(one, "step", text="") == ""
        assert "at most 1999" in asked(one, "reset", last_year=30000)
        assert "[1, 20000]" in asked(one, "reset", game="chess_arbiter", positions=10_000_000)
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        with pytest.raises(InvalidStatus), connect(f"ws://127.0.0.1:{port}/ws", additional_headers=headers):
            pass


def test_search_ends_when_client_disconnects(stand_in):
    port, process = stand_in
    with connect(f"ws://127.0.0.1:{port}/ws") as other:
        connection = connect(f"ws://127.0.0.1:{port}/ws")
        connection.send(json.dumps(["reset", {"game": "chess_arbiter", "positions": 20_000, "seed": 19_999}]))
        drawn = [0, int(asked(other, "drawn"))]
        while drawn[-1] < 100 and len(drawn) < 1000:
            time.sleep(0.02)
            drawn.append(int(asked(other, "drawn")))
        connection.socket.close()
        while drawn[-1] != drawn[-2] and len(drawn) < 2000:
            time.sleep(0.2)
            drawn.append(int(asked(other, "drawn")))
        assert 100 <= drawn[-1] < 20_000
        assert asked(other, "reset", game="chess_arbiter", seed=1)
        connection = connect(f"ws://127.0.0.1:{port}/ws")
        connection.send(json.dumps(["reset", {"game": "chess_arbiter", "positions": 20_000, "seed": 19_999}]))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (-signal.SIGTERM, 128 + signal.SIGTERM)


def test_long_match_can_be_cancelled():
    match = open_match("diplomacy", power="FRANCE", last_year=1999)
    match.start(1)
    match.cancel()
    with pytest.raises(InputError, match="was cancelled"):
        match.answer("</orders>")
    match.close()
