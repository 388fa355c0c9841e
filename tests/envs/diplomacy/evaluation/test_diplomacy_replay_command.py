"""The replay command of Diplomacy: rejected arguments, output, and kept files."""

import json
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

from sparring.agents.opponents import players
from sparring.agents.policies.checkpoint import save_checkpoint
from sparring.configs.core.status import COMPILING
from sparring.configs.schema import NetworkConfig
from sparring.envs.diplomacy.batch import opening
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, standard_board
from sparring.envs.diplomacy.board.codes import ENV_ID
from sparring.envs.diplomacy.evaluation.page import encode
from sparring.envs.diplomacy.orders.notation import read_order
from sparring.envs.diplomacy.records.history import PhaseRecord
from sparring.envs.diplomacy.records.saved_game import save
from sparring.envs.diplomacy.training.order_network import OrderNetwork
from sparring.envs.launcher import Launcher
from sparring.eval import diplomacy_replay
from sparring.eval.diplomacy_replay import ReplayOptions, main
from sparring.eval.options import parse
from tests.configs import messages
from tests.envs.diplomacy.evaluation.test_diplomacy_replay import PLAYERS, data_of
from tests.envs.diplomacy.scenes import drawn_game, play


def test_command_writes_page_and_log(tmp_path, capsys, printed):
    page_file, log = tmp_path / "a" / "game.html", tmp_path / "game.txt"
    arguments = ["--out", str(page_file), "--log", str(log), "--seed", "3", "--last-year", "1901"]
    assert f"Wrote {page_file}, {log}" in printed(main, arguments)
    assert data_of(page_file.read_text())["phases"][0]["name"] == "S1901M"
    assert log.read_text().startswith('[Austria "random"]')
    before = page_file.read_bytes()
    assert main([*arguments, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert page_file.read_bytes() == before


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_replay"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, check_row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").touch()
    check_row(main, row)
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_players_are_assigned_to_powers():
    options = parse(ReplayOptions, ["--log", "a", "--players", "france=b.pt,Turkey=chaos", "dumbbot"])
    names = dict(zip(POWERS, options.lineup, strict=True))
    assert (names.pop("FRANCE"), names.pop("TURKEY")) == ("b.pt", "chaos")
    assert set(names.values()) == {"dumbbot"}
    assert parse(ReplayOptions, ["--log", "a"]).lineup == PLAYERS
    seven = [f"{power}=p{number}" for number, power in enumerate(POWERS)]
    assert parse(ReplayOptions, ["--log", "a", "--players", *seven]).lineup == tuple(
        f"p{number}" for number in range(7)
    )


def run(capsys, *arguments):
    code = main([*map(str, arguments), "--quiet"])
    return code, capsys.readouterr().err


@pytest.fixture
def checkpoint(tmp_path):
    """Save an untrained Diplomacy policy."""
    network = OrderNetwork(NetworkConfig(hidden=4, blocks=1))
    contract = {"id": ENV_ID, "version": 1, "obs_dim": network.obs_dim, "continuous": 0, "binary": 0}
    save_checkpoint(tmp_path / "policy.pt", network, contract=contract, training={})
    return tmp_path / "policy.pt"


def test_kernel_compilation_is_announced(monkeypatch, capsys, tmp_path):
    """This covers all kernels: nothing is loaded once the game has started."""
    within, loaded = [], []

    @contextmanager
    def said(text, *, enabled):
        within.append((text, enabled))
        yield
        within.clear()

    def load(launcher, module):
        loaded.append((module.__name__.split(".")[-1], *within))

    monkeypatch.setattr(diplomacy_replay, "said_if_long", said)
    monkeypatch.setattr(Launcher, "load", load)
    for quiet in ([], ["--quiet"]):
        loaded.clear()
        assert main(["--log", str(tmp_path / "a"), "--last-year", "1901", *quiet]) == 0
        assert loaded == [(module, (COMPILING, not quiet)) for module in ("phase", "simple", "dumbbot", "seed_bots")]


def test_played_and_saved_game_shows_identically(capsys, tmp_path, checkpoint):
    files = [tmp_path / name for name in ("a.html", "a.txt", "a.json", "b.html", "b.txt", "b.json")]
    page_file, log, game, *again = files
    players = f"FRANCE={checkpoint},RUSSIA=chaos,dumbbot"
    written = ["--out", page_file, "--log", log, "--save", game]
    assert run(capsys, *written, "--players", players, "--last-year", "1903") == (0, "")
    shown = data_of(page_file.read_text())["players"]
    assert shown == ["dumbbot", "dumbbot", str(checkpoint), "dumbbot", "dumbbot", "chaos", "dumbbot"]
    assert run(capsys, "--game", game, "--out", again[0], "--log", again[1], "--save", again[2]) == (0, "")
    for one, other in zip(files[:3], again, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_unfinished_saved_game_is_shown_as_unfinished(capsys, tmp_path):
    record = PhaseRecord(opening())
    save(tmp_path / "game.json", [record])
    assert run(capsys, "--game", tmp_path / "game.json", "--out", tmp_path / "a.HTML", "--log", tmp_path / "b") == (
        0,
        "",
    )
    shown = data_of((tmp_path / "a.HTML").read_text())
    assert (shown["title"], shown["players"]) == ("Diplomacy: game.json · unfinished", [""] * 7)
    assert [phase["name"] for phase in shown["phases"]] == ["S1901M"]
    assert shown["phases"][0]["outcomes"] == []
    assert (tmp_path / "b").read_text() == '[Result "unfinished"]\n\nS1901M  Spring 1901, movement\n  is next\n'


class _Scripts(HTMLParser):
    """Script contents and title of a page, as a browser separates them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self._open = [], {"script": [], "title": []}, None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._open = tag

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        if self._open in self.texts:
            self.texts[self._open].append(data)


OPENING = {"format": "sparring-diplomacy", "version": 1, "map": "standard"}
SPRING = {"name": "S1905M", "state": {"units": {"ENGLAND": ["A FIN"]}, "centres": {"RUSSIA": ["STP"]}}}
PACKAGE = {"name": "S1905M", "state": {"units": {"ENGLAND": ["A FIN"]}, "centers": {"RUSSIA": ["STP"]}}}
ODD = "\x00\x1b[31m\u202e\n[Result"
BREAKING = "</script><script>alert('x')</script><!--\"<b>"


@pytest.mark.parametrize(
    "game",
    [
        OPENING | {"phases": [SPRING], "players": {"FRANCE": BREAKING, "ITALY": BREAKING + "&amp;"}},
        OPENING | {"phases": [SPRING], "players": {"FRANCE": "half a pair \ud800", "ITALY": ODD}},
        {"id": BREAKING, "phases": [PACKAGE | {"messages": [{"message": BREAKING, "time_sent": 10**400}]}]},
    ],
    ids=["tags", "characters", "package"],
)
def test_saved_game_text_stays_text_in_page(capsys, tmp_path, game):
    (tmp_path / "game.json").write_text(json.dumps(game))
    written = ["--out", tmp_path / "a.html", "--log", tmp_path / "a.txt"]
    assert run(capsys, "--game", tmp_path / "game.json", *written) == (0, "")
    (tmp_path / "plain.json").write_text(json.dumps(OPENING | {"phases": [SPRING]}))
    run(capsys, "--game", tmp_path / "plain.json", "--out", tmp_path / "plain.html")
    shown, plain = (_Scripts((tmp_path / name).read_text()) for name in ("a.html", "plain.html"))
    assert shown.tags == plain.tags
    assert shown.texts["script"][1:] == plain.texts["script"][1:]
    names = game.get("players", {})
    players = json.loads(shown.texts["script"][0])["players"]
    assert [players[POWERS.index(power)] for power in names] == [*names.values()]
    assert "".join(shown.texts["title"]).isprintable()
    assert [line for line in (tmp_path / "a.txt").read_text().splitlines() if line.startswith("[Result")] == [
        '[Result "unfinished"]'
    ]


def test_error_names_saved_game_that_cannot_be_shown(error_line, tmp_path):
    fall = {**opening(), "phase": torch.tensor([codes.FALL], dtype=torch.int8)}
    save(tmp_path / "game.json", [PhaseRecord(opening()), PhaseRecord(fall)])
    err = error_line(main, ["--game", str(tmp_path / "game.json"), "--out", str(tmp_path / "a.html")])
    assert f"{tmp_path / 'game.json'}: phases[0]: orders missing; only the last phase" in err


def test_diplomacy_package_game_is_replayed(capsys, tmp_path):
    package = Path(__file__).parents[1] / "records" / "package_game.json"
    assert run(capsys, "--game", package, "--out", tmp_path / "a.html", "--save", tmp_path / "b.json") == (0, "")
    shown = data_of((tmp_path / "a.html").read_text())
    assert [phase["name"] for phase in shown["phases"]] == ["S1905M", "S1905R", "F1905M", "W1905A", "END"]
    assert run(capsys, "--game", tmp_path / "b.json", "--out", tmp_path / "c.html") == (0, "")
    assert data_of((tmp_path / "c.html").read_text())["phases"] == shown["phases"]


# ---- nothing is lost

NOTES = {"void": 2, "no effect": 3, "another went there too": 3, "bounced": 4, "cut": 5, "no convoy": 6}


def told_again(data):
    """Return the phases in a page's data, read from its text."""
    board = standard_board()
    for shown in data["phases"]:
        phase = {name: [0] * 75 for name in ("units", "dislodged", "orders", "results")}
        for name in ("units", "dislodged"):
            for location, power, fleet in shown[name]:
                province = int(board.province_of[location])
                coasts = board.coasts_of[province]
                form = 1 + coasts.index(location) + 1 if fleet and coasts else fleet
                phase[name][province] = codes.unit_code(power, form)
        for outcome in shown["outcomes"]:
            notes = outcome.get("note", "").split(", ")
            order = read_order(outcome["text"])
            if not {"not ordered", "civil disorder"} & {*notes}:
                ended = [NOTES[note] for note in notes if note in NOTES]
                phase["orders"][order.province] = order.order
                phase["results"][order.province] = ended[0] if ended else codes.DONE
            if outcome.get("lost"):
                phase["results"][order.province] += codes.DISLODGED_FLAG
        yield {"name": shown["name"], "owner": shown["owner"], "winner": data["winner"], **phase}


def test_page_shows_everything_of_saved_game():
    """Every unit, owner, order and result of a long game with many failures, and of one with missing orders."""
    units = {"France": "A PAR, A BUR", "Germany": "A MUN, A RUH, A BER", "Italy": "F SPA/SC", "Russia": "A GAL, A WAR"}
    attack = {"Germany": "A MUN - BUR, A RUH S A MUN - BUR", "Italy": "F SPA/SC - POR", "Russia": "A GAL S WAR - UKR"}
    scene = play(units, attack, {"France": "A BUR R GAS"}, last_year=1902)
    assert {0, codes.DONE, codes.FAILED, codes.DISLODGED_FLAG} <= {
        result for phase in scene for result in phase["results"]
    }
    for phases in (drawn_game(last_year=1920), scene):
        told = json.loads(json.dumps(encode(phases, PLAYERS, "x")))
        assert list(told_again(told)) == [{**phase, "winner": phases[-1]["winner"]} for phase in phases]


@pytest.mark.parametrize("trainer", ["grpo", "clone"])
def test_language_model_is_rejected_with_right_command(tmp_path, error_line, monkeypatch, trainer):
    monkeypatch.setattr(players, "CHECKPOINTS", tmp_path)
    (tmp_path / "wolf").mkdir()
    (tmp_path / "wolf" / "config.yaml").write_text(f"trainer: {trainer}")
    (tmp_path / "wolf" / "step_000010.pt").touch()
    for name in ("wolf", "wolf/step_000010.pt"):
        line = error_line(main, ["--out", str(tmp_path / "game.html"), "--players", f"FRANCE={name}", "dumbbot"])
        assert f"--players {name}: is a language model" in line
        assert f"python eval/run.py --env diplomacy --ckpt {name} --opponents dumbbot --replay game.html" in line
