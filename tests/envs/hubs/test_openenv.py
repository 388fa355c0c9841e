"""The OpenEnv server by the package's own client and validator; numbers are those of the match itself."""

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sparring.envs.hubs.matches import open_match
from tests.envs.hubs.test_matches import first_orders, played

FOLDER = Path(__file__).resolve().parents[3] / "envs" / "hubs" / "openenv"


def test_without_the_package_one_line_says_what_to_install():
    code = (
        "import sys; sys.modules['openenv'] = None\n"
        "try:\n    import sparring.envs.hubs.openenv.server\nexcept ValueError as error:\n    print(error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "`sparring install openenv`" in told
    assert len(told.splitlines()) == 1


@pytest.fixture(scope="module")
def url():
    """A server in a thread of this process."""
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
    """An observation with the names of a turn, for `first_orders`."""

    def __init__(self, observation):
        self.legal = observation["legal"]


def test_two_sessions_play_what_the_match_plays(url):
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


def test_an_illegal_answer_and_bad_options(url):
    with client(url) as session:
        session.reset(seed=1, power="FRANCE", last_year=1901)
        result = session.step({"text": "A PAR - MOS\nA MAR H\nF BRE H\n</orders>"})
        assert result.observation["answer"] == "illegal"
        assert result.observation["problems"][0].startswith("A PAR - MOS")
        with pytest.raises(Exception, match="unknown power 'SPAIN': choose from"):
            session.reset(seed=1, power="spain")
        with pytest.raises(Exception, match="last_year"):
            session.reset(seed=1, last_year=5)


def test_the_validator_passes(url):
    from openenv.cli._validation import validate_running_environment
    from openenv.validation import Level, Verdict, run_validation

    report = validate_running_environment(url, timeout_s=30)
    assert report["passed"], [one for one in report["criteria"] if not one["passed"]]
    static = run_validation(FOLDER, max_level=Level.STATIC)
    assert static.verdict in (Verdict.PASS, getattr(Verdict, "WARN", Verdict.PASS)), static
