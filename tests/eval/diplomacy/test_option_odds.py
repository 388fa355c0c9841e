"""How likely an order was, on the page of a game: written only where it is known, shown on hover, tap and focus."""

import pytest

from sparring.eval.diplomacy.language import OddsKeeper, note
from sparring.eval.diplomacy.page import encode, write_replay
from tests.envs.diplomacy.scenes import play
from tests.eval.dogfight.test_replay import HOSTILE, browse, needs_chromium, selftest

PLAYERS = ("policy", *["random"] * 6)
OTHERS = [("F LON - NTH", 0.25), ("F LON - YOR", 0.125), ("F LON H", 0.06), ("F LON - WAL", 0.05), (HOSTILE, 0.0001)]
LONDON = {"power": 1, "text": "F LON - ENG", "probability": 0.5, "others": OTHERS, "rest": (3, 0.0149)}
WAIVED = {"power": 1, "text": "WAIVE", "probability": 0.75, "others": [("F LON B", 0.25)], "rest": (0, 0.0)}


@pytest.fixture(scope="module")
def told():
    """One year in which England's odds are known in spring and winter."""
    phases = play({"England": "F LON", "France": "A PAR"}, {"England": "F LON - ENG"}, {}, {}, {}, last_year=1901)
    names = [phase["name"] for phase in phases]
    odds = {"S1901M": [LONDON], "W1901A": [WAIVED]}
    assert set(odds) < set(names)
    return [phase | ({"odds": odds[phase["name"]]} if phase["name"] in odds else {}) for phase in phases]


@pytest.fixture
def file(tmp_path, told):
    path = tmp_path / "page.html"
    write_replay(path, told, players=PLAYERS, note=note(0.0))
    return path


def test_odds_go_with_their_order(told):
    game = encode(told, PLAYERS, "x", "note")
    england, france = game["phases"][0]["outcomes"]
    assert (england["text"], england["p"], england["rest"]) == ("F LON - ENG", 0.5, [3, 0.0149])
    assert england["others"][0] == ["F LON - NTH", 0.25]
    assert "p" not in france
    winter = next(phase for phase in game["phases"] if phase["name"] == "W1901A")
    assert [(line["power"], line["text"], line["p"]) for line in winter["idle"]] == [(1, "WAIVE", 0.75)]
    bare = encode([{key: value for key, value in phase.items() if key != "odds"} for phase in told], PLAYERS, "x")
    assert "note" not in bare
    assert all(
        "idle" not in phase and all("p" not in outcome for outcome in phase["outcomes"]) for phase in bare["phases"]
    )


def test_phases_without_a_decision_have_no_odds():
    keeper = OddsKeeper(0, {})
    keeper.after_phase()
    phases = [{"name": "S1901M"}, {"name": "END"}, {"name": "none"}]
    assert keeper.added(phases) == phases


DRIVE = """
<script>
const told = {};
const rows = () => [...document.querySelectorAll("#odds div")].map((row) => row.textContent);
const note = (name) => { told[name] = { ...replay.state(), lines: rows() }; };
const send = (target, type) => target.dispatchEvent(new Event(type, { bubbles: true }));
const first = () => document.querySelector("#orders li[tabindex]");
note("started");
send(first(), "pointerenter"); note("hovered"); send(first(), "pointerleave"); note("left");
send(document.querySelector("#marks .mark.told"), "click"); note("tapped");
send(document.body, "click"); note("tappedElsewhere");
first().focus(); note("focused"); replay.seek(1); note("moved");
told.places = document.querySelectorAll("#orders li[tabindex]").length;
replay.seek(replay.state().phases - 2); note("winter"); send(first(), "pointerenter"); note("waived");
const out = document.createElement("pre");
out.id = "selftest"; out.textContent = JSON.stringify(told); document.body.append(out);
</script>
"""


@needs_chromium
def test_odds_are_shown_where_one_points(file):
    file.write_text(file.read_text().replace("</body>", DRIVE + "</body>"))
    told = selftest(browse(file, "", "--dump-dom"))
    assert told["started"]["orders"] == ["F LON - ENG 50 %", "A PAR H not ordered"]
    shown = ["F LON - ENG50 %", "F LON - NTH25 %", "F LON - YOR13 %", "F LON H6.0 %", "F LON - WAL5.0 %"]
    assert told["hovered"]["lines"] == [*shown, f"{HOSTILE}<0.1 %", "3 more1.5 %"]
    assert note(0.0) in told["hovered"]["odds"]
    for name in ("tapped", "focused"):
        assert told[name]["odds"] == told["hovered"]["odds"]
    for name in ("started", "left", "tappedElsewhere", "moved"):
        assert told[name]["odds"] == ""
    assert told["places"] == 0
    assert told["winter"]["orders"] == ["WAIVE 75 %"]
    assert told["waived"]["lines"] == ["WAIVE75 %", "F LON B25 %"]


POINT = """
<script>
const item = document.querySelector("#orders li[tabindex]");
item.scrollIntoView(); item.dispatchEvent(new Event("pointerenter"));
const box = document.querySelector("#odds").getBoundingClientRect(), own = item.getBoundingClientRect();
const out = document.createElement("pre");
const covers = box.left < own.right && own.left < box.right && box.top < own.bottom && own.top < box.bottom;
out.id = "selftest"; out.hidden = true; document.body.append(out);
const room = { left: box.left, top: box.top, right: innerWidth - box.right, bottom: innerHeight - box.bottom };
out.textContent = JSON.stringify({ ...room, covers });
</script>
"""


@needs_chromium
@pytest.mark.parametrize("size", [(1400, 960), (500, 900)])
def test_the_box_lies_in_the_window_beside_its_order(file, size):
    file.write_text(file.read_text().replace("</body>", POINT + "</body>"))
    told = selftest(browse(file, "", "--dump-dom", f"--window-size={size[0]},{size[1]}"))
    assert not told.pop("covers")
    assert min(told.values()) >= 0
