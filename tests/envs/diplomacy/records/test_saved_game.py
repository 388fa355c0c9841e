"""Saved games round-trip exactly; inconsistent ones are rejected with the field named."""

import copy
import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.batch import STATE, DiplomacyBatch, opening
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import standard_board
from sparring.envs.diplomacy.orders.notation import read_order
from sparring.envs.diplomacy.records.history import GameHistory, PhaseRecord
from sparring.envs.diplomacy.records.saved_game import (
    KEYS,
    LARGEST,
    load,
    load_lines,
    load_players,
    read_game,
    save,
    save_lines,
    write_game,
)

BOARD = standard_board()
ROOT = Path(__file__).resolve().parents[4]
PAGE = (ROOT / "docs" / "envs" / "diplomacy_saved_games.md").read_text(encoding="utf-8")
PACKAGE = json.loads(Path(__file__).with_name("package_game.json").read_text(encoding="utf-8"))


def same(one, other):
    """Return whether two games are equal in every array."""
    assert len(one) == len(other)
    for here, there in zip(one, other, strict=True):
        assert {name: values.tolist() for name, values in here.position.items()} == {
            name: values.tolist() for name, values in there.position.items()
        }
        assert all(values.dtype == there.position[name].dtype for name, values in here.position.items())
        for name in ("orders", "results"):
            first, second = getattr(here, name), getattr(there, name)
            assert (first is None) == (second is None)
            assert first is None or (first.dtype == second.dtype and np.array_equal(first, second))
    return True


@pytest.fixture(scope="module")
def played():
    """Return twenty random games to the end of 1906, one of them forked from another."""
    batch = DiplomacyBatch(20, threads=1, last_year=1906)
    history = GameHistory(batch)
    for step in range(45):
        batch.draw_orders(step)
        history.process()
        if step == 6:
            history.copy([0], [5])
    assert bool((batch.done == 1).all())
    yield history
    batch.close()


def test_random_games_round_trip_exactly(played, tmp_path):
    seen = set()
    for number in range(3, 20, 5):
        game = played.game(number)
        assert same(read_game(json.loads(json.dumps(write_game(game)))), game)
        save(tmp_path / "game.json", game)
        assert same(load(tmp_path / "game.json"), game)
        seen |= {int(record.position["phase"]) for record in game}
        assert int(game[-1].position["done"]) == 1
    assert seen == {0, 1, 2, 3, 4}


def test_loaded_game_plays_on_identically(played):
    game = read_game(write_game(played.game(3)))
    batch = DiplomacyBatch(2, threads=1, last_year=1906)
    for record, after in pairwise(game):
        batch.set_position(1, record.position)
        batch.orders[1] = torch.from_numpy(record.orders)
        batch.process()
        assert all(torch.equal(getattr(batch, name)[1:], after.position[name]) for name in STATE)
        assert np.array_equal(batch.results[1].numpy(), record.results)
    batch.close()


def test_fork_has_history_of_its_origin(played):
    one, other = played.game(0), played.game(5)
    assert same(one[:7], other[:7])
    assert not torch.equal(one[8].position["units"], other[8].position["units"])


def test_recorded_arrays_are_indexed_by_phase(played):
    arrays = played.arrays()
    assert arrays["units"].shape == (len(played), 20, 75)
    assert arrays["owner"].shape == (len(played), 20, 34)
    assert arrays["year"].shape == (len(played), 20)
    assert arrays["orders"].dtype == np.int32
    game = played.game(2)
    assert np.array_equal(arrays["results"][4, 2], game[4].results)
    assert GameHistory(played.batch).arrays() == {}


def test_every_result_and_order_has_text():
    """Every result of a hold order, and those possible without an order."""
    vienna, holds = BOARD.provinces.index("VIE"), codes.pack(codes.HOLD)
    for order, result in [*((holds, result) for result in (*range(1, 7), *range(8, 15))), (0, 0), (0, 8)]:
        orders, results = np.zeros(75, dtype=np.int32), np.zeros(75, dtype=np.uint8)
        orders[vienna], results[vienna] = order, result
        game = [PhaseRecord(opening(), orders, results), PhaseRecord(in_phase(1901, codes.FALL))]
        assert same(read_game(write_game(game)), game)


def in_phase(year, phase, **values):
    """Return the opening's units and owners in another phase."""
    changed = {"year": year, "phase": phase, **values}
    return {**opening(), **{name: torch.tensor([value], dtype=STATE[name][1]) for name, value in changed.items()}}


@pytest.mark.parametrize(
    ("order", "where", "message"),
    [
        (codes.pack(codes.MOVE, 100), "PAR", "order 1602 in PAR: this order cannot be written"),
        (codes.pack(codes.HOLD), "BUR", "order 1 in BUR: no power can have given it"),
        (12, "PAR", "order 12 in PAR: this order cannot be written"),
        (-1, "PAR", "order -1 in PAR: this order cannot be written"),
        (codes.pack(codes.HOLD, 3), "PAR", "order 49 in PAR: this order cannot be written"),
        (codes.pack(codes.BUILD, BOARD.provinces.index("PAR"), 3), "PAR", "this order cannot be written"),
    ],
)
def test_orders_without_text_are_rejected_by_phase_before_writing(order, where, message, tmp_path):
    orders, results, path = np.zeros(75, dtype=np.int32), np.zeros(75, dtype=np.uint8), tmp_path / "game.json"
    first, last = PhaseRecord(opening(), orders, results), PhaseRecord(in_phase(1902, codes.SPRING))
    save(path, [first, PhaseRecord(in_phase(1901, codes.FALL), orders, results), last])
    before = path.read_bytes()
    wrong = orders.copy()
    wrong[BOARD.provinces.index(where)] = order
    with pytest.raises(InputError, match=rf"^phases\[1\]\.orders: .*{message}"):
        save(path, [first, PhaseRecord(in_phase(1901, codes.FALL), wrong, results), last])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_order_of_wrong_season_has_text():
    """A build ordered in spring and a move in winter are void, but still orders."""
    paris, words = BOARD.provinces.index("PAR"), ("A PAR B", "A PAR - BUR")
    for phase, text in zip((codes.SPRING, codes.WINTER), words, strict=True):
        orders, results = np.zeros(75, dtype=np.int32), np.zeros(75, dtype=np.uint8)
        orders[paris], results[paris] = read_order(text).order, codes.VOID
        game = [PhaseRecord(in_phase(1901, phase), orders, results)]
        assert write_game(game)["phases"][0]["orders"] == {"FRANCE": [text]}
        assert same(read_game(write_game(game)), game)


def test_page_shows_example_and_names_every_field_and_result():
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    game = read_game(json.loads(example))
    assert write_game(game)["phases"][0]["results"] == json.loads(example)["phases"][0]["results"]
    batch = DiplomacyBatch(1, threads=1)
    batch.set_position(0, game[0].position)
    batch.orders[0] = torch.from_numpy(game[0].orders)
    batch.process()
    assert all(torch.equal(getattr(batch, name), game[1].position[name]) for name in STATE)
    assert np.array_equal(batch.results[0].numpy(), game[0].results)
    batch.close()
    rows = re.findall(r"^\| (\w+) \| (?:(\w+) \| )?", PAGE, re.MULTILINE)
    names = {row[0] for row in rows}
    assert names >= {*KEYS, *codes.RESULTS, "name", "state", "orders", "results", "done", "winner"}
    assert names >= {"units", "dislodged", "origin", "centres"}


def test_python_on_page_runs(tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(code, "diplomacy_saved_games.md", "exec"), names)
    assert torch.equal(names["batch"].units[:1], names["history"].game(2)[5].position["units"])
    names["batch"].close()


# What is refused


def ours():
    return {
        "format": "sparring-diplomacy",
        "version": 1,
        "map": "standard",
        "phases": [
            {
                "name": "F1902M",
                "state": {
                    "units": {"FRANCE": ["A PAR", "F BRE"], "ITALY": ["F STP/NC"]},
                    "centres": {"FRANCE": ["PAR", "BRE"]},
                },
                "orders": {"FRANCE": ["A PAR - BUR", "F BRE H"]},
                "results": {"PAR": ["done"]},
            },
            {
                "name": "F1902R",
                "state": {"units": {"FRANCE": ["A BUR"]}, "dislodged": {"ITALY": ["A BUR"]}, "centres": {}},
            },
        ],
    }


FIRST, SECOND = ("phases", 0), ("phases", 1)
UNITS = (*FIRST, "state", "units")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("format",), "chess", r"format: must be 'sparring-diplomacy', not 'chess'"),
        (("version",), 2, r"version: must be 1, not 2"),
        (("version",), True, r"version: must be 1, not True"),
        (("map",), "ancient", r"map: must be 'standard', not 'ancient'"),
        (("extra",), 1, r"unknown key 'extra': choose from format, version, map, phases"),
        (("players",), {"SWEDEN": "x"}, r"players\.SWEDEN: unknown power 'SWEDEN'"),
        (("players",), {"FRANCE": 3}, r"players\.FRANCE: must be a text, not 3"),
        (("phases",), [], r"phases: must hold at least one phase"),
        (("phases",), "S1901M", r"phases: must be a list, not 'S1901M'"),
        (("phases",), None, r"'phases' is missing"),
        (FIRST, 7, r"phases\[0\]: must be an object, not 7"),
        ((*FIRST, "name"), "X1901M", r"phases\[0\]\.name: 'X1901M' is not a phase; write S1901M"),
        ((*FIRST, "name"), "W1901M", r"phases\[0\]\.name: 'W1901M' is not a phase"),
        ((*FIRST, "name"), "S1901M\n", r"phases\[0\]\.name: 'S1901M.n' is not a phase"),
        ((*FIRST, "name"), "S1900M", r"phases\[0\]\.name: 'S1900M': the year must be in \[1901, 30000\]"),
        ((*FIRST, "name"), 1901, r"phases\[0\]\.name: must be a text, not 1901"),
        ((*FIRST, "stat"), {}, r"phases\[0\]: unknown key 'stat'.*did you mean 'state'"),
        ((*FIRST, "state", "unit"), {}, r"phases\[0\]\.state: unknown key 'unit'.*did you mean 'units'"),
        ((*FIRST, "state", "centres"), None, r"phases\[0\]\.state: 'centres' is missing"),
        ((*UNITS, "FRANK"), [], r"phases\[0\]\.state\.units: unknown power 'FRANK'.*did you mean 'FRANCE'"),
        ((*UNITS, "FRANCE"), "A PAR", r"phases\[0\]\.state\.units\.FRANCE: must be a list, not 'A PAR'"),
        ((*UNITS, "FRANCE", 1), 3, r"units\.FRANCE\[1\]: must be a text, not 3"),
        ((*UNITS, "FRANCE", 1), "F PAR", r"units\.FRANCE\[1\]: unit 'F PAR': a fleet stands at sea or on a coast"),
        ((*UNITS, "FRANCE", 1), "A PAR", r"units\.FRANCE\[1\]: there is a unit in PAR already"),
        ((*UNITS, "ITALY", 0), "A PAR", r"units\.ITALY\[0\]: there is a unit in PAR already"),
        ((*UNITS, "ITALY", 0), "F STP", r"units\.ITALY\[0\]: unit 'F STP': say which coast, F STP/NC or F STP/SC"),
        ((*UNITS, "ITALY", 0), "A NTH", r"units\.ITALY\[0\]: unit 'A NTH': an army stands on land"),
        ((*UNITS, "ITALY", 0), "F PARR", r"units\.ITALY\[0\]: unknown province 'PARR'.*did you mean 'PAR'"),
        ((*UNITS, "ITALY", 0), "PAR", r"units\.ITALY\[0\]: unit 'PAR': write A or F and a place"),
        ((*FIRST, "state", "centres", "FRANCE", 0), "BUR", r"centres\.FRANCE\[0\]: BUR is not a supply centre"),
        ((*FIRST, "state", "centres", "ITALY"), ["PAR"], r"centres\.ITALY\[0\]: PAR has an owner already, FRANCE"),
        ((*FIRST, "state", "centres", "ITALY"), ["STP/NC"],
         r"centres\.ITALY\[0\]: 'STP/NC': name the province without a"),
        ((*FIRST, "state", "dislodged"), {"ITALY": ["A PAR"]},
         r"state: dislodged\[\d+\] \(PAR\): no unit has to retreat in"),
        ((*SECOND, "state", "dislodged"), {"ITALY": ["A MUN"]},
         r"phases\[1\]\.state: dislodged\[39\] \(MUN\): no unit of"),
        ((*SECOND, "state", "dislodged"), {"FRANCE": ["A BUR"]},
         r"dislodged\[\d+\] \(BUR\): no unit of another power"),
        ((*SECOND, "state", "origin"), {"BUR": "XYZ"}, r"phases\[1\]\.state\.origin\.BUR: unknown province 'XYZ'"),
        ((*FIRST, "orders", "FRANCE", 0), "A PAR = BUR",
         r"phases\[0\]\.orders\.FRANCE\[0\]: (order 'A PAR = BUR'|unknown)"),
        ((*FIRST, "orders", "FRANCE", 0), "A MAR H", r"orders\.FRANCE\[0\]: FRANCE has nothing in MAR that could"),
        ((*FIRST, "orders", "ITALY"), ["A PAR H"], r"orders\.ITALY\[0\]: ITALY has nothing in PAR"),
        ((*FIRST, "orders", "FRANCE", 1), "A PAR H", r"orders\.FRANCE\[1\]: there is an order for PAR already"),
        ((*FIRST, "results", "PAR"), ["bouncy"],
         r"phases\[0\]\.results\.PAR\[0\]: unknown result 'bouncy'.*'bounced'"),
        ((*FIRST, "results", "PAR"), ["done", "cut"], r"phases\[0\]\.results\.PAR: must be one result"),
        ((*FIRST, "done"), 1, r"phases\[0\]\.done: must be true or false, not 1"),
        ((*FIRST, "winner"), "SWEDEN", r"phases\[0\]\.winner: unknown power 'SWEDEN'"),
    ],
)  # fmt: skip
def test_inconsistent_game_is_rejected_by_path(path, value, message):
    data = ours()
    assert len(read_game(data)) == 2
    spot = data
    for step in path[:-1]:
        spot = spot[step]
    spot[path[-1]] = value
    with pytest.raises(InputError, match=message):
        read_game(data)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("map",), "modern", r"map: must be 'standard', not 'modern'"),
        (("phases", 0, "name"), "SPRING 1901", r"phases\[0\]\.name: 'SPRING 1901' is not a phase"),
        (("phases", 0, "name"), "COMPLETED", r"phases\[0\]: COMPLETED needs a phase before it"),
        (("phases", 1, "name"), "COMPLETED", r"phases\[2\]: follows phases\[1\], with which the game was over"),
        (("phases", 0, "state"), None, r"phases\[0\]: 'state' is missing"),
        (("phases", 0, "state", "units", "GERMANY", 1), "F STP",
         r"phases\[0\]\.state\.units\.GERMANY\[1\]: unit 'F STP'"),
        (("phases", 0, "state", "units", "GERMANY", 1), "*F BOT",
         r"phases\[0\]\.state.*: 'A MUN'|phases\[0\]\.state"),
        (("phases", 1, "state", "retreats"), None, r"phases\[1\]\.state: 'retreats' is missing"),
        (("phases", 1, "state", "retreats"), {"GERMANY": {"A BER": []}},
         r"retreats\.GERMANY\.A BER: no unit of GERMANY was"),
        (("phases", 1, "state", "retreats", "GERMANY", "A MUN", 0), "PAR",
         r"retreats\.GERMANY\.A MUN\[0\]: A MUN cannot go"),
        (("phases", 0, "orders", "FRANCE", 0), "A BUR MUN", r"phases\[0\]\.orders\.FRANCE\[0\]: "),
        (("phases", 0, "results", "A MUN", 0), "lost", r"phases\[0\]\.results\.A MUN\[0\]: unknown result 'lost'"),
    ],
)  # fmt: skip
def test_inconsistent_package_game_is_rejected(path, value, message):
    data = copy.deepcopy(PACKAGE)
    spot = data
    for step in path[:-1]:
        spot = spot[step]
    spot[path[-1]] = value
    with pytest.raises(InputError, match=message):
        read_game(data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no JSON: Expecting"),
        ("{}\n{}\n", "no JSON: Extra data.*; a file holds one game; load_lines reads one on every line"),
        ("[" * 100_000, "no JSON"),
        ("[]", "must be an object, not "),
        ('{"format": "sparring-diplomacy", "format": "x"}', "key 'format' is there twice"),
        ('{"format": "sparring-diplomacy", "version": NaN}', "version: must be 1, not nan"),
        ("\\xff", "no JSON"),
    ],
)
def test_invalid_saved_games_are_rejected(text, message, tmp_path):
    path = tmp_path / "game.json"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"game\.json: {message}"):
        load(path)


@pytest.mark.parametrize("kind", [str, Path])
def test_missing_folder_is_named(played, tmp_path, kind):
    folder = tmp_path / "games"
    path = kind(folder / "one.json")
    for attempt in (lambda: save(path, played.game(1)), lambda: load(path), lambda: load_players(path)):
        with pytest.raises(InputError, match=rf"one\.json: .*missing folder '{folder}'"):
            attempt()
    assert not folder.exists()


def test_unwritable_path_is_rejected_in_one_line(played, tmp_path):
    with pytest.raises(InputError, match=rf"{tmp_path}: cannot be written \(Is a directory\); give another place"):
        save(tmp_path, played.game(1))


def test_json_lines_games_are_read_one_by_one(played, tmp_path):
    place = tmp_path / "games.jsonl"
    save_lines(place, [played.game(3), played.game(8)])
    with place.open("a", encoding="utf-8") as file:
        file.write("\n" + json.dumps(PACKAGE) + "\n")
    first, second, package = load_lines(place)
    assert same(first, played.game(3))
    assert same(second, played.game(8))
    assert same(package, read_game(PACKAGE))


def test_error_names_line_that_is_not_a_game(played, tmp_path):
    place = tmp_path / "games.jsonl"
    save_lines(place, [played.game(3)])
    good = place.read_text(encoding="utf-8")
    for line, words in (
        ("{", "line 2: no JSON: "),
        ("[" * 100_000, "line 2: no JSON: "),
        ('{"phases": []}', "line 2: phases: must hold at least one phase"),
        ("1" * (LARGEST + 1), "line 2: has more than 16,777,216 bytes; a game has fewer"),
    ):
        place.write_text(good + line + "\n", encoding="utf-8")
        games = load_lines(place)
        assert same(next(games), played.game(3))
        with pytest.raises(InputError, match=re.escape(words)):
            next(games)
    with pytest.raises(InputError, match="nowhere: No such file"):
        next(load_lines(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="game 1: phases: must hold at least one phase"):
        save_lines(place, [played.game(3), []])


@pytest.mark.parametrize("key", ["centres", "centers"])
def test_power_with_null_centres_is_rejected(key):
    state = {"units": {"FRANCE": ["A PAR"]}, key: {"FRANCE": None}}
    game = {"phases": [{"name": "S1901M", "state": state}]}
    if key == "centres":
        game |= {"format": "sparring-diplomacy", "version": 1, "map": "standard"}
    with pytest.raises(InputError, match=rf"{key}.FRANCE: is null; write \[\] for a power without centres"):
        read_game(game)
