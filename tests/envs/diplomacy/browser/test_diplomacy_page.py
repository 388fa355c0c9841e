"""Diplomacy on the page: a game played in Chromium with real events, saved and resumed."""

import json
from contextlib import contextmanager
from threading import Thread

import pytest
import uvicorn

from sparring import register_opponent
from sparring.envs.diplomacy.browser.command import DiplomacyPlayOptions, find_players, host
from sparring.envs.diplomacy.records.saved_game import load
from sparring.eval.browser.server import Gate, listen, make_app
from sparring.eval.options import parse
from tests.eval.browser.browser import browser, needs_chromium

START = {
    "format": "sparring-diplomacy",
    "version": 1,
    "map": "standard",
    "players": {"FRANCE": "You"},
    "phases": [
        {
            "name": "S1901M",
            "state": {
                "units": {"FRANCE": ["A PAR", "A GAS", "F BRE"], "GERMANY": ["A BUR", "A MUN"]},
                "centres": {"FRANCE": ["PAR", "BRE", "MAR"], "GERMANY": ["MUN", "BER"]},
            },
        }
    ],
}
GERMANY = {
    "S1901M": ["A BUR H", "A MUN H"],
    "S1901R": ["A BUR R BEL"],
    "F1901M": ["A MUN - BUR", "A BEL S A MUN - BUR"],
}
ORDERED = {
    "S1901M": ["F BRE - MAO", "A GAS S PAR - BUR", "A PAR - BUR"],
    "F1901M": ["A BUR H", "A GAS - SPA", "F MAO - POR"],
    "F1901R": ["A BUR R PIC"],
    "W1901A": ["F MAR B", "A PAR B"],
    "S1902M": ["F MAR H", "A PIC - BEL", "F POR S SPA", "A SPA H"],
}
"""Orders given on the page, by phase, in the order of their provinces."""


@pytest.fixture
def script():
    @register_opponent("scripted_germany")
    class Scripted:
        def act(self, view):
            return GERMANY.get(view.phase, [])

    return "GERMANY=scripted_germany,random"


@contextmanager
def hosting(tmp_path, *arguments):
    """Serve a game from this process like the command; yield the address."""
    options = parse(DiplomacyPlayOptions, [*arguments, "--quiet", "--port", "0", "--device", "cpu"])
    with listen(0) as listening:
        gate = Gate(listening.getsockname()[1])
        app = make_app(host(options, find_players(options)), gate)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="websockets-sansio"))
        thread = Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield gate.address
        finally:
            server.should_exit = True
            thread.join()


class Player:
    """A person using the page."""

    def __init__(self, page):
        self.page = page

    def point(self, code):
        place = f"const [x, y] = play.place('{code}'), m = document.querySelector('#map').getScreenCTM()"
        return self.page.value(f"(() => {{ {place}; return [m.a * x + m.e, m.d * y + m.f]; }})()")

    def click(self, *codes):
        for code in codes:
            path = f"document.querySelector('#board [data-code={code}]')"
            self.page.value(f"{path}.scrollIntoView({{block: 'nearest', inline: 'nearest'}})")
            self.page.mouse_at(self.point(code))

    def drag(self, code, goal):
        self.page.mouse_at(self.point(code), "mousePressed")
        self.page.mouse_at(self.point(goal), "mouseMoved", "mouseReleased")

    def menu(self, text):
        """Choose a menu entry, and return all entries."""
        entries = self.page.until("play.state().menu.length && play.state().menu")
        self.page.mouse(f"#menu button:nth-child({entries.index(text) + 1})")
        return entries

    def expect(self, *orders):
        self.page.until(f"play.state().turn.orders.length === {len(orders)}")
        assert self.page.value("play.state().turn.orders.map((order) => order.text)") == list(orders)

    def submit(self, phase):
        """Submit, and skip the results up to the person's next phase."""
        self.page.mouse("#submit")
        self.page.until(f"play.state().turn.phase === '{phase}' && play.state().turn.state !== 'thinking'")
        self.page.key("Escape")
        self.page.until(f"!play.state().running && play.state().phase === '{phase}'")

    def marked(self, kind):
        return {code for code, mark in self.page.value("play.state().glow") if mark == kind}


def spring(me):
    """Support by clicking unit and destination, move by click and by drag, and undo."""
    page = me.page
    assert me.marked("own") == {"PAR", "GAS", "BRE"}
    me.click("PAR")
    assert me.marked("can") == {"BUR", "GAS", "PIC", "BRE"}
    me.click("LON")
    assert page.value("document.querySelector('#note').textContent") == "A PAR cannot go to LON."
    me.click("BUR")
    assert me.menu("A PAR - BUR") == ["A PAR - BUR", "Help the unit in BUR …"]
    me.expect("A PAR - BUR")
    me.click("GAS", "PAR")
    assert me.menu("Help the unit in PAR …") == ["A GAS - PAR", "Help the unit in PAR …", "Select A PAR"]
    assert me.marked("can") == {"PAR", "BRE", "BUR"}
    me.click("BUR")
    me.expect("A PAR - BUR", "A GAS S PAR - BUR")
    me.drag("BRE", "ENG")
    me.expect("A PAR - BUR", "A GAS S PAR - BUR", "F BRE - ENG")
    page.key("u")
    me.expect("A PAR - BUR", "A GAS S PAR - BUR")
    me.drag("BRE", "MAO")
    me.expect("A PAR - BUR", "A GAS S PAR - BUR", "F BRE - MAO")
    page.mouse("#submit")
    page.until("play.state().running && document.querySelector('#phase').textContent.endsWith('results')")
    me.page.until("play.state().turn.phase === 'F1901M' && play.state().turn.state === 'ordering'")
    page.key("Escape")
    page.until("play.state().phase === 'F1901M'")


def fall(me):
    """Hold by key, move, retreat after a dislodgement, and build from a menu and as text."""
    page = me.page
    me.click("BUR")
    page.key("h")
    me.drag("GAS", "SPA")
    assert me.menu("A GAS - SPA") == ["A GAS - SPA", "A GAS - SPA VIA"]
    me.drag("MAO", "POR")
    me.expect("A BUR H", "A GAS - SPA", "F MAO - POR")
    me.submit("F1901R")
    assert page.value("document.querySelectorAll('#units .dislodged').length") == 1
    me.click("BUR")
    assert me.marked("can") == {"PAR", "PIC", "GAS", "MAR", "RUH"}, "not MUN, the attacker's origin"
    me.click("PIC")
    me.expect("A BUR R PIC")
    me.submit("W1901A")
    assert page.value("document.querySelector('#mine h2').textContent") == "2 to build, 2 left"
    me.click("MAR")
    assert me.menu("F MAR B") == ["A MAR B", "F MAR B"]
    me.expect("F MAR B")
    page.mouse("#order")
    page.write("F PAR B")
    page.key("Enter")
    page.until("document.querySelector('#note').textContent.includes('is not legal now; legal there: A PAR B')")
    page.value("document.querySelector('#order').select()")
    page.write("army paris build")
    page.key("Enter")
    me.expect("F MAR B", "A PAR B")
    page.mouse("#back")
    assert page.value("[play.state().phase, play.state().glow.length]") == ["F1901R", 0]
    page.mouse("#on")
    me.submit("S1902M")
    assert page.value("document.querySelectorAll('#powers .count')[2].textContent") == "5"


@needs_chromium
def test_game_is_played_saved_and_resumed(tmp_path, script):
    file = tmp_path / "game.json"
    file.write_text(json.dumps(START))
    with browser(tmp_path / "profile") as page:
        with hosting(tmp_path, "--resume", str(file), "--opponents", script, "--seed", "1") as address:
            page.open(address, width=1440, height=900)
            page.until("window.play && play.state().turn")
            spring(Player(page))
            fall(Player(page))
            page.open(address.partition("?")[0] + "replay")
            assert page.value("replay.state().phases") == 6
        check_file(file, 5)
        with hosting(tmp_path, "--resume", str(file)) as address:
            page.open(address, width=400, height=800, mobile=True)
            page.until("window.play && play.state().turn")
            go_on(Player(page))
            begin_again(page)
        assert page.console == []
    check_file(file, 6)
    again = json.loads((tmp_path / "diplomacy-1.json").read_text())
    assert [phase["name"] for phase in again["phases"]] == ["S1901M"]
    assert again["players"] == json.loads(file.read_text())["players"]
    assert sorted(again["phases"][0]["state"]["units"]["AUSTRIA"]) == ["A BUD", "A VIE", "F TRI"]


def go_on(me):
    """On a phone the page fits, and the order lists work without the map."""
    page = me.page
    assert page.value("document.documentElement.scrollWidth") <= 400
    assert page.value("document.querySelector('h1 small').textContent") == "against random, scripted_germany"
    for place, text in (("PIC", "A PIC - BEL"), ("POR", "F POR S SPA"), ("SPA", "A SPA H")):
        page.mouse(f"#mine li[data-place={place}] button")
        page.choose("#choice", text)
        page.until(f"play.state().turn.orders.some((o) => o.text === '{text}')")
    me.click("MAR")
    page.mouse("[data-way=hold]")
    page.until("play.state().turn.orders.length === 4")
    page.mouse("#mine li[data-place=MAR] button:last-child")
    page.until("play.state().turn.orders.length === 3")
    me.click("MAR", "MAR")
    page.until("play.state().turn.orders.length === 4")
    me.submit("F1902M")


def begin_again(page):
    """The button asks for a second click; the new game has its own file and shows the opening."""
    page.until("!play.state().running")
    page.mouse("#new")
    page.until("document.querySelector('#new').textContent === 'End this game?'")
    page.mouse("#new")
    page.until("window.play && play.state().turn && play.state().turn.phase === 'S1901M'")
    page.until("document.querySelector('#file').textContent.endsWith('diplomacy-1.json')")
    assert page.value("play.state().turn.options.PAR.length") > 3


def check_file(file, phases):
    """Check that the saved game has the given orders and the resulting position."""
    told = json.loads(file.read_text())
    names = ["S1901M", "S1901R", "F1901M", "F1901R", "W1901A", "S1902M", "F1902M"]
    assert [phase["name"] for phase in told["phases"]] == names[: phases + 1]
    orders = {phase["name"]: phase["orders"].get("FRANCE", []) for phase in told["phases"][:-1]}
    assert orders == {name: ORDERED.get(name, []) for name in names[:phases]}
    assert told["players"]["FRANCE"] == "You"
    assert told["phases"][3]["state"]["dislodged"] == {"FRANCE": ["A BUR"]}
    assert sorted(told["phases"][5]["state"]["units"]["FRANCE"]) == ["A PAR", "A PIC", "A SPA", "F MAR", "F POR"]
    assert len(load(file)) == phases + 1
