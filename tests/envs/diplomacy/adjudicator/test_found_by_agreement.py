"""Bugs found by comparison with other adjudicators, each as a minimal position."""

import numpy as np
import pytest
import torch

from sparring.envs.diplomacy.batch import DiplomacyBatch, position
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, find_location, standard_board
from sparring.envs.diplomacy.orders.notation import read_order, read_unit

AUSTRIA, ENGLAND, FRANCE, GERMANY = (POWERS.index(name) for name in ("AUSTRIA", "ENGLAND", "FRANCE", "GERMANY"))


@pytest.fixture(scope="module")
def batch():
    games = DiplomacyBatch(256, threads=1)
    yield games
    games.close()


def place(batch, units, *, owner=(), phase=codes.SPRING):
    """Start every game from `units` (power, unit) with `owner` (power, centres)."""
    rows, centres = np.zeros((1, 75), dtype=np.uint8), np.full((1, 34), -1)
    for power, unit in units:
        province, code = read_unit(unit, power)
        rows[0, province] = code
    for power, names in owner:
        centres[0, [standard_board().centre_of[find_location(name)] for name in names]] = power
    batch.load(position(rows, centres, year=1901, phase=phase))


def order(batch, *lines):
    """Give the same orders in every game."""
    for line in lines:
        read = read_order(line)
        batch.orders[:, read.province] = read.order


def result(batch, name):
    return int(batch.results[0, find_location(name)])


def test_fleet_draws_no_support_for_move_only_it_could_convoy(batch):
    place(batch, [(ENGLAND, "F ENG"), (ENGLAND, "A WAL"), (FRANCE, "F MAO")])
    drawn = {"ENG": set(), "MAO": set()}
    for seed in range(8):
        batch.draw_orders(seed)
        for name, orders in drawn.items():
            orders |= set(batch.orders[:, find_location(name)].tolist())
    carried = {read_order(f"F ENG S A WAL - {goal}").order for goal in ("PIC", "BRE")}
    assert not carried & drawn["ENG"]
    assert read_order("F MAO S A WAL - BRE").order in drawn["MAO"]


def test_result_does_not_outlast_its_phase(batch):
    place(batch, [(FRANCE, "A PAR")])
    order(batch, "A PAR - BUR")
    batch.process()
    order(batch, "A BUR - MUN")
    batch.process()
    assert result(batch, "BUR") == codes.DONE
    assert result(batch, "PAR") == codes.UNORDERED


@pytest.mark.parametrize("intruder", [AUSTRIA, FRANCE])
def test_home_vacated_in_winter_is_not_free_yet(batch, intruder):
    """It was, if the leaving power preceded the building one alphabetically."""
    place(batch, [(intruder, "F KIE")], owner=[(GERMANY, ["KIE", "BER"])], phase=codes.WINTER)
    order(batch, "F KIE B", "A BER B")
    batch.process()
    assert result(batch, "KIE") == codes.VOID
    assert torch.equal(batch.units[0].nonzero().flatten(), torch.tensor([find_location("BER")]))


@pytest.mark.parametrize("intruder", [AUSTRIA, FRANCE])
def test_disband_in_foreign_home_is_reported(batch, intruder):
    """The home power reported it as void while building elsewhere."""
    place(batch, [(intruder, "F KIE")], owner=[(GERMANY, ["KIE", "BER"])], phase=codes.WINTER)
    order(batch, "F KIE D", "A BER B")
    batch.process()
    assert result(batch, "KIE") == result(batch, "BER") == codes.DONE
