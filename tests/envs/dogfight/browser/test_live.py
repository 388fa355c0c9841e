"""The play server: matches in the process, access, the page in a browser, replays, and errors."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from threading import Thread

import numpy as np
import pytest
import torch
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from sparring.envs.dogfight import rules as game
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.browser.command import DEFAULT_OPPONENT, find_opponent, load_opponent
from sparring.envs.dogfight.browser.session import DogfightStage, LiveMatch
from sparring.envs.game import load
from sparring.eval import play
from sparring.eval.browser import server
from sparring.eval.browser.flying import FlightSession
from sparring.eval.browser.server import Gate, answer, listen
from sparring.eval.options import parse_known
from tests.configs import messages
from tests.envs.dogfight.evaluation.test_replay import ROOT
from tests.eval.browser.browser import browser, dom_of, needs_chromium, selftest

# ---- a match


def opponent(name=DEFAULT_OPPONENT):
    return load_opponent(find_opponent(name))


def fly(match, action, ticks=game.MAX_TICKS):
    frames = [match.frame]
    while not match.over and len(frames) <= ticks:
        frames.append(match.tick(action))
    return frames


def test_match_against_policy_follows_batch():
    """The policy decides every ten ticks; the person's action counts in each."""
    entrant = opponent()
    match = LiveMatch(entrant, regime="tank_fight", seed=3)
    frames = fly(match, [0.5, 1.0, 1.0], ticks=200)
    batch = DogfightBatch(1, trace=1, threads=1, action_repeat=10, seed=3)
    batch.set_ranges(game.ranges("tank_fight"))
    batch.reset(3)
    rows = []
    for _ in range(20):
        action = torch.stack([torch.tensor([0.5, 1.0, 1.0]), entrant.contestant.act(batch.obs[:, 1])[0]])
        batch.step(action[None])
        rows.extend(batch.trace[0].numpy().copy())
    assert np.array_equal([frame.row for frame in frames[1:]], rows)
    assert (match.max_hp, match.rules) == (8, "classic")
    assert frames[0].row[-1] == 0
    for one in (match, batch):
        one.close()


def test_recurrent_policy_remembers_match(make_checkpoint):
    entrant = opponent(str(make_checkpoint(memory="gru", hidden=8)))
    network, match = entrant.contestant.network, LiveMatch(entrant, regime="none", seed=3)
    remembered = torch.zeros(1, network.memory_size)
    for _ in range(4):  # it has decided once before the first tick
        remembered = network.step(match._batch.obs[:, 1], remembered, critic=False)[2]
        assert torch.equal(match._memory, remembered)
        fly(match, [0.0, 1.0, 0.0], ticks=10)
    assert remembered.abs().max() > 0.01
    match.close()


@pytest.mark.parametrize("rules", ["classic", "challenge"])
def test_match_against_bot_ends_and_becomes_replay(rules):
    match = LiveMatch(opponent("ace"), regime="default", seed=1, rules=rules)
    frames = fly(match, [0.2, 0.7, 0.0])
    recording = match.recording()
    assert match.over
    assert recording.outcome == frames[-1].outcome
    assert np.array_equal(recording.rows, [frame.row for frame in frames[1:]])
    assert (recording.left, recording.right, recording.rules) == ("You", "ace", rules)
    assert [frame.outcome for frame in frames[:-1]] == [-1] * (len(frames) - 1)
    assert match.tick([0, 0, 0]) is frames[-1]
    assert frames[-1].message()["actions"][1] is None
    match.close()


def test_shown_value_is_critic_value():
    entrant = opponent()
    match = LiveMatch(entrant, regime="default", seed=0)
    batch = DogfightBatch(1, threads=1, seed=0)
    seen, _ = entrant.contestant._mirror.show(batch.obs[:, 1])
    with torch.no_grad():
        expected = entrant.contestant.network.critic(seen).item()
    assert match.frame.value == pytest.approx(expected, abs=1e-3)
    for one in (match, batch):
        one.close()


# ---- messages


def talk(messages, tmp_path, seconds=0.0):
    """Send messages to a session and return its answers."""
    told = []

    async def main():
        async def send(message):
            told.append(message)

        session = FlightSession(DogfightStage(("do_nothing", "ace"), 0, tmp_path, opponent), send)
        loop = asyncio.create_task(session.run())
        for message in messages:
            await answer(session, message if isinstance(message, str) else json.dumps(message), send)
        await asyncio.sleep(seconds)
        loop.cancel()
        session.close()

    asyncio.run(main())
    return told


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("{", "not understood"),
        ("[" * 5000, "not understood"),
        ({"kind": "run"}, "message.kind"),
        ({"kind": "begin", "opponent": "/etc/passwd"}, "unknown opponent"),
        ({"kind": "begin", "regime": "moon"}, "unknown regime"),
        ({"kind": "pace", "speed": 1e9}, "message.speed"),
        ({"kind": "hold", "action": [0.0, 1.0]}, "message.action"),
        ({"kind": "hold"}, "message.action is missing"),
        ('{"kind": "hold", "action": [NaN, 0.0, 0.0]}', "message.action"),
        ({"kind": "save"}, "after the end"),
    ],
)
def test_wrong_message_is_answered_with_note(message, words, tmp_path):
    (answer,) = talk([message], tmp_path)
    assert answer["kind"] == "note"
    assert words in answer["text"]


def test_match_starts_paused_and_runs_in_real_time(tmp_path):
    still = talk([{"kind": "begin", "opponent": "ace"}], tmp_path, seconds=0.2)
    assert [message["kind"] for message in still] == ["note", "match", "frame", "note"]
    told = talk(
        [{"kind": "begin"}, {"kind": "hold", "action": [1, 1.0, 0]}, {"kind": "pace", "speed": 0.25, "paused": False}],
        tmp_path,
        seconds=0.4,
    )
    frames = [message for message in told if message["kind"] == "frame"]
    ticks = [frame["tick"] for frame in frames]
    assert ticks == sorted(set(ticks))
    # A quarter of 120 ticks a second for 0.4 s, and however long the cancelled sleep took on a busy machine.
    assert 1 <= ticks[-1] <= 24
    assert frames[-1]["actions"][0] == [1.0, 1.0, 0.0]


# ---- access


@contextmanager
def serving(tmp_path, *arguments):
    """Run the command on a free port; yield its address with token, and the process, which prints nothing more."""
    command = [sys.executable, str(ROOT / "eval" / "play.py"), "--port", "0", "--no-browser", "--quiet"]
    out = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen([*command, "--replays", str(tmp_path / "replays"), *arguments], cwd=tmp_path, **out)
    try:
        line = next((line for line in process.stdout if line.startswith("Play at ")), "")
        assert process.stdout.readline() == "The address works once; Ctrl-C ends the server.\n"
        yield line.removeprefix("Play at ").strip(), process
    finally:
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=120)[0] == ""


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def ask(url, **headers):
    """Return status and headers of a GET without own cookies."""
    try:
        with urllib.request.build_opener(NoRedirect).open(urllib.request.Request(url, headers=headers)) as answer:
            return answer.status, answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.headers


def test_only_browser_with_token_gets_access(tmp_path):
    with serving(tmp_path, "--opponent", "ace") as (address, process):
        base, host = address.split("?")[0], re.search(r"127\.0\.0\.1:\d+", address)[0]
        assert ask(base)[0] == 403
        assert ask(base + "?token=wrong")[0] == 403
        assert ask(address, Host="evil.example")[0] == 403
        assert ask(address, Origin="http://evil.example")[0] == 403
        status, headers = ask(address)
        assert (status, headers["Location"]) == (303, "/")
        cookie = headers["Set-Cookie"].split(";")[0]
        assert {"HttpOnly", "SameSite=strict"} <= {part.strip() for part in headers["Set-Cookie"].split(";")}
        assert ask(address)[0] == 403, "the token works once"
        status, headers = ask(base, Cookie=cookie)
        assert (status, headers["X-Frame-Options"], headers["Cache-Control"]) == (200, "DENY", "no-store")
        allowed = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
        assert (allowed["default-src"], allowed["connect-src"]) == ("'none'", f"ws://{host}")
        assert ask(base + "nowhere", Cookie=cookie)[0] == 404
        assert ask(base + "nowhere")[0] == 403
        assert ask(base, Cookie=cookie, Host="evil.example")[0] == 403
        for origin, sent in ((None, cookie), ("http://evil.example", cookie), (f"http://{host}", "other=1")):
            with (
                pytest.raises(InvalidStatus),
                connect(f"ws://{host}/match", origin=origin, additional_headers={"Cookie": sent}),
            ):
                pass
        with connect(f"ws://{host}/match", origin=f"http://{host}", additional_headers={"Cookie": cookie}) as one:
            one.send(b"no text")
            assert json.loads(one.recv(timeout=30)) == {"kind": "note", "text": "not understood", "failed": True}
            one.send(json.dumps({"kind": "begin", "opponent": "ace", "regime": "default"}))
            assert json.loads(one.recv(timeout=30))["kind"] == "note"
            assert json.loads(one.recv(timeout=30))["names"] == ["You", "ace"]
            one.send(json.dumps({"kind": "pace", "paused": False}))
            while json.loads(one.recv(timeout=30)).get("tick", 0) < 5:
                pass  # the connection then ends in the middle of a match
    assert process.returncode == 130


@contextmanager
def serving_here(monkeypatch, seconds):
    """Serve without a game in a thread; yield the address."""
    monkeypatch.setattr("sparring.configs.core.serving.REQUEST_SECONDS", seconds)
    with listen(0) as listening:
        running = server.make_server(None, Gate(listening.getsockname()[1]))
        thread = Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield listening.getsockname()
        finally:
            running.should_exit = True
            thread.join(timeout=60)


HOST_LINE = b"GET / HTTP/1.1\r\nHost: example.org\r\n"


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET /", HOST_LINE, HOST_LINE + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n"],
)
def test_connection_with_incomplete_request_is_closed(monkeypatch, sent):
    with serving_here(monkeypatch, 0.2) as address, socket.create_connection(address, timeout=60) as client:
        client.sendall(sent)
        assert client.recv(100) == b""


def test_connection_is_closed_during_incomplete_second_request(monkeypatch):
    with serving_here(monkeypatch, 0.2) as address, socket.create_connection(address, timeout=60) as client:
        client.sendall(HOST_LINE + b"\r\n")
        answer = client.recv(1000)
        assert answer.startswith(b"HTTP/1.1 403")
        client.sendall(HOST_LINE)
        while more := client.recv(1000):  # the rest of the answer, then the end
            assert not more.startswith(b"HTTP/1.1")


def test_server_listens_on_loopback_only():
    with listen(0) as one:
        assert one.getsockname()[0] == "127.0.0.1"


def test_cookie_of_one_server_is_invalid_on_other():
    one, other = Gate(1), Gate(1)
    key = one.exchange(one.token)
    assert one.knows({one.cookie: key})
    assert not other.knows({one.cookie: key})
    assert not one.knows({})


# ---- in a browser


@needs_chromium
def test_match_is_played_and_saved(tmp_path):
    # The fourth match from this seed ends after 294 ticks without steering; most others take their 90 seconds.
    with serving(tmp_path, "--seed", "31") as (address, _), browser(tmp_path / "profile") as page:
        page.open(address)
        page.until("play.state().last")
        assert page.value("location.href").endswith("/")
        assert page.value("document.querySelector('#opponent').value") == DEFAULT_OPPONENT
        assert page.value("document.querySelector('#save').disabled")
        page.key(" ")
        page.until("play.state().last.tick > 5")
        page.key("ArrowLeft", "keyDown")
        page.until("play.state().last.actions[0][0] === 1")
        page.key("ArrowLeft", "keyUp")
        page.until("play.state().last.actions[0][0] === 0 && play.state().last.value !== null")
        page.key("p")
        page.until("play.state().paused")
        tick = page.value("new Promise((done) => setTimeout(() => done(play.state().last.tick), 500))")
        assert page.value("new Promise((done) => setTimeout(() => done(play.state().last.tick), 300))") == tick
        page.choose("#regime", "glass_cannon")
        page.until("play.state().match.maxHp === 3")
        page.choose("#opponent", "brawler")
        page.until("play.state().match.names[1] === 'brawler' && play.state().last?.actions[1] === null")
        page.choose("#opponent", DEFAULT_OPPONENT)
        page.until("play.state().match.names[1] !== 'brawler' && play.state().last")
        page.mouse("#stage")
        page.until("play.state().last.tick > 0")
        page.value("play.source.pace({ speed: 2, paused: false })")  # the test is in a hurry
        page.until("play.state().last.outcome >= 0")
        page.until("document.querySelector('#banner b').textContent")
        page.mouse("#save")
        page.until("document.querySelector('#note').textContent.startsWith('saved')")
        page.open(address.split("?")[0], width=400, height=800, mobile=True)
        page.until("play.state().last")
        assert page.value("document.documentElement.scrollWidth") <= 400  # it fits a phone
        assert page.console == []
    saved = tmp_path / "replays" / "match-1.html"
    state = selftest(dom_of(saved, "t=999&selftest"))
    assert state["names"] == ["You", DEFAULT_OPPONENT]
    assert state["ended"]


# ---- errors


def test_port_in_use_gives_one_line_error(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert play.main(["--port", str(port), "--quiet"]) == 2
    assert f"eval/play.py: --port {port}: Address already in use; give another, or 0" in capsys.readouterr().err


def test_missing_extra_gives_one_line_error(monkeypatch, error_line):
    monkeypatch.setattr(server.ServerOptions, "NEEDS", {"no_such_package": "play"})
    assert "no_such_package is not installed for" in (line := error_line(play.main, ["--quiet"]))
    assert line.endswith("; run `sparring install play`\n")


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_play"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, check_row):
    check_row(play.main, row)


@pytest.mark.parametrize(
    ("arguments", "env"),
    [
        ([], "dogfight"),
        (["--opponent", "ace", "--help"], "dogfight"),
        (["--opponent", "released/dogfight_bots_only"], "dogfight"),
        (["--opponent", "brawlr"], "dogfight"),
        (["--env", "dogfight", "--opponent", "dumbbot"], "dogfight"),
        (["--opponents", "GERMANY=dumbbot,chaos"], "diplomacy"),
        (["--env", "diplomacy"], "diplomacy"),
    ],
)
def test_game_follows_opponent(arguments, env):
    assert parse_known(play.PlayChoice, arguments).game is load(play.COMMANDS[env])
