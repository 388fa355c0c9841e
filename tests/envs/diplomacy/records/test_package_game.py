"""Games that the package `diplomacy` saved: read as they were played."""

import copy
import json
from itertools import pairwise
from pathlib import Path

import torch

from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, standard_board
from sparring.envs.diplomacy.orders.notation import write_order
from sparring.envs.diplomacy.records.saved_game import read_game, write_game

BOARD = standard_board()
PACKAGE = json.loads(Path(__file__).with_name("package_game.json").read_text(encoding="utf-8"))


def test_a_game_of_the_package_is_read_and_plays_as_it_says():
    game = read_game(copy.deepcopy(PACKAGE))
    assert [(int(r.position["year"]), int(r.position["phase"]), int(r.position["done"])) for r in game] == [
        *((1905, phase, 0) for phase in (codes.SPRING, codes.SPRING_RETREATS, codes.FALL, codes.WINTER)),
        (1905, codes.WINTER, 1),
    ]
    batch = DiplomacyBatch(1, threads=1, last_year=1905)
    for record, after in pairwise(game):
        batch.set_position(0, record.position)
        batch.orders[0] = torch.from_numpy(record.orders)
        before = batch.legal_orders(0)
        batch.process()
        for name in ("units", "owner"):
            assert torch.equal(getattr(batch, name), after.position[name]), name
        if int(record.position["phase"]) == codes.SPRING_RETREATS:
            munich = BOARD.provinces.index("MUN")
            unit = int(record.position["dislodged"][0, munich])
            found = {write_order(order, munich, unit)[6:] for order in before[munich].tolist()}
            assert found == {
                "D",
                *(f"R {place}" for place in PACKAGE["phases"][1]["state"]["retreats"]["GERMANY"]["A MUN"]),
            }
    assert bool(batch.done[0])
    assert int(game[-1].position["winner"]) == -1
    words = write_game(game)["phases"]
    assert words[0]["results"]["MUN"] == ["done", "dislodged"]
    assert words[2]["results"]["MUN"] == ["bounced"]
    batch.close()


def test_a_solo_in_the_package_has_a_winner():
    data = copy.deepcopy(PACKAGE)
    centres = [BOARD.provinces[province] for province in BOARD.centres]
    data["phases"][-1]["state"]["centers"] = {"TURKEY": centres[:18], "FRANCE": centres[18:]}
    assert int(read_game(data)[-1].position["winner"]) == POWERS.index("TURKEY")


def test_retreats_of_the_package_say_what_was_contested():
    """Two units dislodged: the attacker of Munich came from Burgundy, as the moves say; other closed places count as
    contested."""
    data = copy.deepcopy(PACKAGE)
    state = data["phases"][1]["state"]
    state["units"] = {"FRANCE": ["A MUN", "A RUH", "A SIL"], "GERMANY": ["*A MUN"], "RUSSIA": ["*A SIL"]}
    state["retreats"] = {"GERMANY": {"A MUN": ["BER", "KIE", "TYR"]}, "RUSSIA": {"A SIL": ["BER", "GAL", "PRU"]}}
    data["phases"][1]["orders"] = {}
    position = read_game(data)[1].position
    marks = {
        BOARD.provinces[place]: int(mark) for place, mark in enumerate(position["origin"][0]) if mark != codes.NOTHING
    }
    assert marks == {"BOH": codes.CONTESTED, "MUN": BOARD.provinces.index("BUR"), "WAR": codes.CONTESTED}
    batch = DiplomacyBatch(1, threads=1)
    batch.set_position(0, position)
    for name, goals in (("MUN", "BER KIE TYR"), ("SIL", "BER GAL PRU")):
        listed = batch.legal_orders(0)[BOARD.provinces.index(name)]
        assert [BOARD.provinces[codes.unpack(order)[1]] for order in listed[1:].tolist()] == goals.split()
    batch.close()
