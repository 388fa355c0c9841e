"""Language models in Diplomacy: names, games, output, replay odds, and the league table."""

import json
import re
import shutil
from functools import partial

import pytest
import torch

from sparring.agents.language.grpo.matchmaking import reference_table
from sparring.agents.opponents import players
from sparring.agents.opponents.players import find_player, results_place
from sparring.curriculum.league.file import LeagueFile
from sparring.curriculum.league.league import enter_checkpoint, new_league, record
from sparring.curriculum.ratings import GameResult
from sparring.envs.diplomacy import GAME
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.evaluation.games import OddsKeeper, note
from sparring.envs.diplomacy.evaluation.options import DiplomacyOptions
from sparring.envs.diplomacy.evaluation.page import encode, write_replay
from sparring.envs.diplomacy.rollouts.games import seats_of_pairs
from sparring.envs.diplomacy.training.opponents import LanguageOptions, LanguagePlayer, open_player
from sparring.eval.options import parse
from sparring.eval.run import main as run_main
from tests.agents.language.grpo.toy_folder import toy_folder
from tests.agents.language.toys import llama, word_tokenizer
from tests.envs.diplomacy.evaluation.language_players import make_run
from tests.envs.diplomacy.scenes import play
from tests.envs.dogfight.evaluation.test_replay import HOSTILE
from tests.eval.browser.browser import browse, dom_of, needs_chromium, selftest

main = partial(run_main, env="diplomacy")

QUICK = ["--games", "7", "--last-year", "1901", "--threads", "1", "--device", "cpu"]


@pytest.fixture(scope="module")
def adapter(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def evaluated(adapter):
    """Run the command with all options: a bot, the base model, a replay, results beside the checkpoint."""
    page = adapter.parent / "game.html"
    arguments = ["--ckpt", str(adapter), "--opponents", "dumbbot,base_model", *QUICK, "--replay", str(page), "--quiet"]
    assert run_main(["--env", "diplomacy", *arguments]) == 0
    return json.loads((adapter.parent / "eval.json").read_text()), page.read_text()


def data_of(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


# ---- who plays


def test_every_power_is_played_equally_often():
    seats = seats_of_pairs([("policy", "dumbbot"), ("dumbbot", "policy")], 14)
    assert torch.equal(seats["policy"], torch.cat([torch.eye(7), torch.eye(7), 1 - torch.eye(7), 1 - torch.eye(7)]) > 0)
    assert torch.equal(seats["dumbbot"], ~seats["policy"])


def test_names_resolve_to_players(adapter, tmp_path, monkeypatch):
    monkeypatch.setattr(players, "CHECKPOINTS", tmp_path)
    (tmp_path / "cloned" / "final").mkdir(parents=True)
    shutil.copytree(adapter.parent.parent / "model", tmp_path / "cloned" / "final", dirs_exist_ok=True)
    assert find_player("tiny", GAME) == "tiny"
    assert results_place("tiny") is None
    assert find_player("cloned", GAME) == (tmp_path / "cloned" / "final").resolve()
    assert results_place(find_player("cloned", GAME)) == ((tmp_path / "cloned").resolve(), "eval")
    assert results_place(find_player(str(adapter), GAME)) == (adapter.parent.resolve(), "eval")
    assert results_place(adapter.with_name("step_000010.pt"))[1] == "eval.step_000010"


def test_cloned_model_plays_with_its_options_and_is_its_base(adapter, tmp_path):
    final = toy_folder(tmp_path / "final")
    (tmp_path / "config.yaml").write_text(
        (adapter.parent / "config.yaml").read_text().replace("show_map_windows: false", "show_map_windows: true")
    )
    player = open_player(final, language=LanguageOptions())
    assert isinstance(player, LanguagePlayer)
    assert player.rules.show_map_windows
    assert main(["--ckpt", str(final), "--opponents", "base_model", "--protocol", "alone", *QUICK, "--quiet"]) == 0
    (found,) = json.loads((tmp_path / "eval.json").read_text())["records"]
    assert (found["one"], found["six"], found["games"]) == (str(final), "base_model", 7)


# ---- what is refused


def test_other_base_model_is_rejected(adapter, error_line, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(adapter.parent, run)
    other = toy_folder(tmp_path / "other")
    llama(word_tokenizer(), seed=5).save_pretrained(other)
    path = run / "config.yaml"
    path.write_text(path.read_text().replace(str(adapter.parent.parent / "model"), str(other)))
    assert "was trained on another base model" in error_line(main, ["--ckpt", str(run), *QUICK])
    shutil.rmtree(other)
    assert f"model.name={other}: is not tiny" in error_line(main, ["--ckpt", str(run), *QUICK])
    path.unlink()
    assert "has no config.yaml next to it" in error_line(main, ["--ckpt", str(run), *QUICK])


# ---- what is played and written


def test_both_protocols_are_played_and_written(evaluated, adapter):
    content, _ = evaluated
    ckpt = str(adapter)
    pairs = [(record["one"], record["six"]) for record in content["records"]]
    assert pairs == [(ckpt, "dumbbot"), ("dumbbot", ckpt), (ckpt, "base_model"), ("base_model", ckpt)]
    for found in content["records"]:
        assert tuple(found["alone_by_power"]) == POWERS
        for side in (found["alone"], found["together"]):
            assert sum(side[name]["value"] for name in ("solos", "draws", "losses")) == pytest.approx(1)
        assert found["alone"]["squares"]["value"] + 6 * found["together"]["squares"]["value"] == pytest.approx(1)
    assert content["language_model"]["temperature"] == 0
    assert content["language_model"]["training"]["step"] == 3
    text = (adapter.parent / "eval.md").read_text()
    assert f"## {ckpt} against six dumbbot, power by power" in text
    assert f"## Six {ckpt} against base_model, power by power" in text


def test_adapter_and_base_model_play_separately(evaluated, adapter, tmp_path):
    """The model, which is its own base, gets the base model's result of the adapter's games."""
    assert main(["--ckpt", str(adapter), "--opponents", "dumbbot", *QUICK, "--out", str(tmp_path), "--quiet"]) == 0
    again = json.loads((tmp_path / "diplomacy.json").read_text())["records"]
    assert again == evaluated[0]["records"][:2]
    model = str(adapter.parent.parent / "model")
    assert main(["--ckpt", model, "--opponents", "dumbbot", *QUICK, "--out", str(tmp_path), "--quiet"]) == 0
    base = json.loads((tmp_path / "diplomacy.json").read_text())["records"]
    assert [record["alone"] for record in base] != [record["alone"] for record in again]


def test_one_protocol_matches_its_part_of_both(evaluated, adapter, tmp_path):
    for protocol, kept in {"alone": [0, 2], "six": [1, 3]}.items():
        page = tmp_path / f"{protocol}.html"
        arguments = ["--opponents", "dumbbot,base_model", "--protocol", protocol, *QUICK, "--quiet"]
        assert main(["--ckpt", str(adapter), *arguments, "--out", str(tmp_path), "--replay", str(page)]) == 0
        records = json.loads((tmp_path / "diplomacy.json").read_text())["records"]
        assert records == [evaluated[0]["records"][number] for number in kept]
        assert data_of(page.read_text())["players"].count(str(adapter)) == {"alone": 1, "six": 6}[protocol]


def test_draws_depend_on_temperature_and_seed(adapter):
    told = {}
    for name, more in {"a": ["--temperature", "1"], "b": ["--temperature", "1"], "c": ["--temperature", "1.5"]}.items():
        out = adapter.parent / name
        arguments = ["--ckpt", str(adapter), "--opponents", "random", *QUICK, *more, "--out", str(out), "--quiet"]
        assert main(arguments) == 0
        told[name] = json.loads((out / "diplomacy.json").read_text())["records"]
    assert told["a"] == told["b"]
    assert told["a"] != told["c"]


# ---- the replay


def test_replay_shows_probability_of_each_policy_order(evaluated, adapter):
    game = data_of(evaluated[1])
    assert game["players"] == [str(adapter), *["base_model"] * 6]
    assert "at temperature 1; in the game the likeliest token was taken each time" in game["note"]
    spring = game["phases"][0]["outcomes"]
    assert len(spring) == 22
    for outcome in spring:  # all seven are language models
        shares = [share for _, share in outcome["others"]]
        assert shares == sorted(shares, reverse=True)
        assert outcome["text"] not in [text for text, _ in outcome["others"]]
        assert outcome["p"] + sum(shares) + outcome["rest"][1] == pytest.approx(1, abs=1e-3)
    # F LON may hold, go to ENG, NTH, WAL or YOR, support EDI to NTH or YOR, LVP to WAL or YOR and F BRE to ENG.
    (london,) = (outcome for outcome in spring if outcome["text"].startswith("F LON"))
    assert 1 + len(london["others"]) + london["rest"][0] == 10
    assert game["phases"][-1]["outcomes"] == []


def test_other_replays_have_no_odds(tmp_path):
    page = tmp_path / "game.html"
    assert main(["--bot", "dumbbot", "--opponents", "random", *QUICK, "--replay", str(page), "--quiet"]) == 0
    game = data_of(page.read_text())
    assert "note" not in game
    assert all(
        "idle" not in phase and all("p" not in outcome for outcome in phase["outcomes"]) for phase in game["phases"]
    )


# ---- the league


def test_fixed_references_of_run_are_printed_and_written(printed, tmp_path, monkeypatch):
    monkeypatch.setattr(players, "CHECKPOINTS", tmp_path)
    (tmp_path / "run").mkdir()
    league = enter_checkpoint(new_league(("random", "dumbbot"), "base"), step=2, path="step_000002.pt")
    league = record(league, [GameResult(("checkpoint_000002", "base_model"), (1, 2))])
    LeagueFile(tmp_path / "run").restore(league)
    out = printed(main, ["--league", "run", "--out", str(tmp_path / "out")])
    rows = {cells[1].strip(): cells[2].strip() for cells in (line.split("|") for line in out.splitlines()) if cells[1:]}
    # Both at 1000, the winner takes K / 2 = 24 from the loser.
    assert rows["checkpoint_000002 minus base_model"] == "+48"
    assert (rows["base_model"], rows["dumbbot"], rows["random"]) == ("976", "1000", "920")
    written = json.loads((tmp_path / "out" / "references.json").read_text())["rows"]
    assert [row["figure"] for row in written] == [row.figure for row in reference_table(league)]
    assert parse(DiplomacyOptions, ["--league", "run"]).cells


# ---- odds on the page

PLAYERS = ("policy", *["random"] * 6)
OTHERS = [("F LON - NTH", 0.25), ("F LON - YOR", 0.125), ("F LON H", 0.06), ("F LON - WAL", 0.05), (HOSTILE, 0.0001)]
LONDON = {"power": 1, "text": "F LON - ENG", "probability": 0.5, "others": OTHERS, "rest": (3, 0.0149)}
WAIVED = {"power": 1, "text": "WAIVE", "probability": 0.75, "others": [("F LON B", 0.25)], "rest": (0, 0.0)}


@pytest.fixture(scope="module")
def told():
    """Return one year in which England's odds are known in spring and winter."""
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


def test_odds_stay_with_their_order(told):
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


def test_phases_without_decision_have_no_odds():
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
const first = () => document.querySelector("#orders li[aria-describedby]");
note("started");
send(first(), "pointerenter"); note("hovered"); send(first(), "pointerleave"); note("left");
send(document.querySelector("#marks .mark.told"), "click"); note("tapped");
send(document.body, "click"); note("tappedElsewhere");
first().focus(); note("focused"); replay.seek(1); note("moved");
told.places = document.querySelectorAll("#orders li[aria-describedby]").length;
replay.seek(replay.state().phases - 2); note("winter"); send(first(), "pointerenter"); note("waived");
const out = document.createElement("pre");
out.id = "selftest"; out.textContent = JSON.stringify(told); document.body.append(out);
</script>
"""


@needs_chromium
def test_hovering_over_order_shows_odds(file):
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
const item = document.querySelector("#orders li[aria-describedby]");
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
def test_tooltip_stays_in_window_beside_order(file, size):
    file.write_text(file.read_text().replace("</body>", POINT + "</body>"))
    told = selftest(dom_of(file, size=size))
    assert not told.pop("covers")
    assert min(told.values()) >= 0
