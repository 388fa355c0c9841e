"""The Diplomacy replay page, also in a real browser."""

import json
import re

import numpy as np
import pytest
from PIL import Image

from sparring.envs.diplomacy.evaluation.page import encode, lineup, map_svg, page, write_replay
from sparring.envs.diplomacy.records.game_log import POWER_NAMES
from sparring.envs.diplomacy.records.timeline import centre_counts, order_outcomes
from tests.envs.diplomacy.scenes import drawn_game, play
from tests.envs.dogfight.evaluation.test_replay import HOSTILE
from tests.eval.browser.browser import browse, dom_of, needs_chromium, selftest

PLAYERS = ("random",) * 7
NAMESPACE = "http://www.w3.org/2000/svg"


@pytest.fixture(scope="module")
def long_game():
    return drawn_game(last_year=1920)


@pytest.fixture(scope="module")
def skirmish():
    """A convoy, a cut support, bounces, two dislodged armies of which one retreats, and the winter after."""
    units = {
        "England": "A LON, F NTH",
        "France": "A BUR, A PIC",
        "Germany": "A MUN, A RUH, A BEL",
        "Italy": "A VEN, F ADR",
        "Austria": "A TRI",
    }
    spring = {
        "England": "A LON - NWY, F NTH C A LON - NWY",
        "Germany": "A MUN - BUR, A RUH S A MUN - BUR, A BEL - PIC",
        "France": "A BUR H, A PIC S A BUR",
        "Italy": "A VEN - TRI, F ADR S A VEN - TRI",
        "Austria": "A TRI - VEN",
    }
    return play(units, spring, {"France": "A BUR R PAR"}, {}, {"Germany": "A BER B"}, last_year=1901)


def data_of(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


# ---- the page


def test_page_is_small_and_needs_no_network(long_game):
    text = page(long_game, players=PLAYERS)
    assert not re.search(r"https?://|//cdn|@import|\burl\(", text.replace(NAMESPACE, ""))
    assert len(text.encode()) < 1_000_000
    assert "{{" not in text


def test_name_cannot_break_out_of_page(skirmish):
    text = page(skirmish, players=[HOSTILE, "{{title}}", *PLAYERS[2:]], title=HOSTILE)
    ordinary = page(skirmish, players=PLAYERS, title="x")
    for piece in ("<script", "</script", "<!--", "<b>"):
        assert text.count(piece) == ordinary.count(piece)
    assert data_of(text)["players"][:2] == [HOSTILE, "{{title}}"]


def test_page_holds_game(long_game):
    told = encode(long_game, PLAYERS, "x")
    assert [phase["name"] for phase in told["phases"]] == [phase["name"] for phase in long_game]
    for number, phase in enumerate(long_game[:-1]):
        shown = told["phases"][number]
        assert len(shown["units"]) == np.count_nonzero(phase["units"])
        assert shown["counts"] == centre_counts(phase)
        done = order_outcomes(phase, long_game[number + 1])
        assert [(outcome["text"], outcome.get("note", "")) for outcome in shown["outcomes"]] == [
            (d.text, d.note) for d in done
        ]
    assert told["phases"][-1]["outcomes"] == []


def test_every_province_and_centre_is_on_map():
    svg = map_svg()
    assert len(set(re.findall(r'class="(?:land|sea)" data-code="(...)"', svg))) == 75
    assert len(re.findall(r'class="centre"', svg)) == 34
    assert len(re.findall(r'class="code', svg)) == 75


def test_same_game_gives_same_bytes(tmp_path, skirmish):
    for name in ("a", "b"):
        write_replay(tmp_path / "new" / name, skirmish, players=PLAYERS)
    assert (tmp_path / "new" / "a").read_bytes() == (tmp_path / "new" / "b").read_bytes()


def test_title_names_players_and_result(skirmish):
    assert lineup(PLAYERS) == "Diplomacy: seven times random"
    assert lineup(["ace", *PLAYERS[1:]]) == "Diplomacy: ace (Austria), random elsewhere"
    halves = ["a"] * 3 + ["b"] * 3 + ["c"]
    assert lineup(halves) == "Diplomacy: a (Austria, England, France), b (Germany, Italy, Russia), c (Turkey)"
    assert "<title>Diplomacy: seven times random · draw of all seven · Sparring" in page(skirmish, players=PLAYERS)


def test_every_power_has_player(skirmish):
    with pytest.raises(ValueError, match="6 players"):
        page(skirmish, players=PLAYERS[1:])


# ---- in a browser


@pytest.fixture
def skirmish_page(tmp_path, skirmish):
    file = tmp_path / "page.html"
    write_replay(file, skirmish, players=[HOSTILE, *PLAYERS[1:]])
    return file


@needs_chromium
def test_page_shows_phase_in_address(skirmish_page):
    state = selftest(dom_of(skirmish_page, "phase=S1901R&selftest"))
    assert (state["index"], state["name"], state["title"]) == (1, "S1901R", "Spring 1901, retreats")
    assert (state["units"], state["dislodged"], state["playing"]) == (8, 2, False)
    assert state["orders"] == ["A TRI D not ordered", "A BUR R PAR"]
    assert state["players"][0] == HOSTILE
    assert HOSTILE in state["heading"]


@needs_chromium
def test_orders_are_drawn_by_outcome(skirmish_page):
    state = selftest(dom_of(skirmish_page, "selftest"))
    assert (state["units"], state["marks"]) == (10, 10)
    assert state["arrows"] == 3  # LON - NWY, MUN - BUR, VEN - TRI
    assert "A BUR H dislodged" in state["orders"]
    assert "A TRI - VEN bounced, dislodged" in state["orders"]
    assert {"A PIC S BUR cut", "A BEL - PIC bounced"} < set(state["orders"])
    assert state["crosses"] == 3


DRIVE = """
<script>
const told = {};
const key = (name, more) => document.dispatchEvent(new KeyboardEvent("keydown", { key: name, ...more }));
const note = (name) => { told[name] = replay.state(); };
key("ArrowRight"); note("right"); key("ArrowLeft"); note("left"); key("End"); note("end"); key("Home"); note("home");
const scrub = document.querySelector("#scrub");
scrub.value = 2; scrub.dispatchEvent(new Event("input")); note("scrubbed");
key("ArrowLeft", { shiftKey: true }); note("yearBack");
document.querySelector("#next").click(); note("next");
key("o"); note("hidden"); key("o"); key("3"); note("france"); key("3"); note("everybody");
document.querySelectorAll("#powers button")[6].click(); note("turkey"); key("Escape");
replay.setSpeed(4); key("Home"); key(" "); note("started");
setTimeout(() => {
  note("later"); key(" "); note("stopped");
  const out = document.createElement("pre");
  out.id = "selftest"; out.textContent = JSON.stringify(told); document.body.append(out);
}, 1300);
</script>
"""


@needs_chromium
def test_controls_work_as_labelled(skirmish_page):
    skirmish_page.write_text(skirmish_page.read_text().replace("</body>", DRIVE + "</body>"))
    told = selftest(browse(skirmish_page, "", "--dump-dom"))
    index = {name: state["index"] for name, state in told.items()}
    last = told["end"]["phases"] - 1
    assert (index["right"], index["left"], index["end"], index["home"]) == (1, 0, last, 0)
    assert (index["scrubbed"], index["yearBack"], index["next"]) == (2, 0, 1)
    assert (told["right"]["arrows"], told["hidden"]["marks"]) == (1, 0)
    assert told["end"]["banner"] == "Draw of all seven"
    assert [told[name]["power"] for name in ("france", "everybody", "turkey")] == [2, -1, 6]
    assert told["started"]["playing"]
    assert 0 < index["later"] <= last
    assert not told["stopped"]["playing"]


LOOK = """
<script>
const out = document.createElement("pre");
out.id = "selftest";
out.textContent = JSON.stringify([0, 1, 3, 4].map((index) => { replay.seek(index, false); return replay.state(); }));
document.body.append(out);
</script>
"""


LAND = ["centre owned", "last there"]


@needs_chromium
def test_legend_explains_what_phase_shows(skirmish_page):
    skirmish_page.write_text(skirmish_page.read_text().replace("</body>", LOOK + "</body>"))
    told = selftest(dom_of(skirmish_page))
    assert {state["name"]: state["legend"] for state in told} == {
        "S1901M": [*LAND, "army", "fleet", "move", "support", "convoy", "hold", "fails", "dislodged"],
        "S1901R": [*LAND, "army", "fleet", "dislodged", "retreat", "disband"],
        "W1901A": [*LAND, "army", "fleet", "build", "disband"],
        "END": [*LAND, "army", "fleet"],
    }
    assert [state["built"] for state in told] == [0, 0, 1, 0]


REACH = """
<script>
const told = {}, map = document.querySelector("#map"), note = (name) => { told[name] = replay.state(); };
function press(...names) {
  for (const key of names) document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
}
// From the middle of the map, in pixels.
function point(...kinds) {
  const box = map.getBoundingClientRect(), middle = box.left + box.width / 2, clientY = box.top + box.height / 2;
  for (const [kind, pointerId, dx] of kinds)
    map.dispatchEvent(new PointerEvent("pointer" + kind, { pointerId, clientX: middle + dx, clientY, bubbles: true }));
}
map.setPointerCapture = () => {};  // There is no pointer behind events of a script.
document.querySelector("#closer").click(); note("closer");
map.focus(); press("ArrowRight"); note("panned");
point(["down", 1, 0], ["move", 1, map.clientWidth / 5], ["up", 1, 0]); note("dragged");
press("0"); note("whole");
point(["down", 1, -10], ["down", 2, 10], ["move", 1, -30], ["up", 1, 0], ["up", 2, 0]); note("pinched");
press("x", "x"); note("small");
press("l"); note("first"); press("ArrowDown"); note("second"); press("ArrowRight"); note("next");
press("z", "z"); map.focus(); press("ArrowLeft", "ArrowLeft", "ArrowLeft", "l"); note("revealed");
replay.seek(3, false); note("winter");
const fill = (code) => document.querySelector(`#board .land[data-code="${code}"]`).style.fill;
told.fills = ["RUH", "BUR", "LON", "TYR"].map(fill);
const out = document.createElement("pre");
out.id = "selftest"; out.textContent = JSON.stringify(told); document.body.append(out);
</script>
"""


@needs_chromium
def test_map_and_orders_work_with_keyboard_and_touch(skirmish_page):
    skirmish_page.write_text(skirmish_page.read_text().replace("</body>", REACH + "</body>"))
    told = selftest(browse(skirmish_page, "", "--dump-dom", "--window-size=400,800"))
    views = {name: [float(word) for word in state["view"].split()] for name, state in told.items() if "view" in state}
    assert views["whole"] == views["small"] == [0, 0, 1200, 1000]
    assert views["closer"] == views["dragged"] == [225, 187.5, 750, 625]
    assert views["panned"] == [375, 187.5, 750, 625]
    assert views["pinched"][2:] == [600, 500]
    # The army of Trieste was out of sight.
    assert views["revealed"][0] > 0
    # In the list an arrow to the side is a phase, and one stays where one was.
    assert [told[name]["index"] for name in ("panned", "second", "next")] == [0, 0, 1]
    for name, at in (("first", 0), ("second", 1), ("next", 1)):
        assert told[name]["lit"] == [told[name]["focus"]] == [told[name]["orders"][at]]
    # Germany's army took Burgundy; the Ruhr, which it left, keeps its tint. London has that of its owner.
    entered, (ruhr, burgundy, london, tyrolia) = told["winter"]["entered"], told["fills"]
    assert [POWER_NAMES[entered[code]] for code in ("RUH", "BUR", "NWY")] == ["Germany", "Germany", "England"]
    assert ruhr == burgundy != london
    assert (bool(ruhr), bool(london), tyrolia) == (True, True, "")


@needs_chromium
def test_map_is_painted(tmp_path, skirmish_page):
    picture = tmp_path / "picture.png"
    browse(skirmish_page, "", f"--screenshot={picture}", "--window-size=1400,960")
    pixels = np.asarray(Image.open(picture).convert("RGB")).astype(int)[60:840, 20:960]
    for color in ((203, 220, 231), (247, 240, 224), (0, 114, 178), (86, 180, 233), (196, 22, 28)):
        assert (np.abs(pixels - color).max(axis=-1) < 6).sum() > 60
