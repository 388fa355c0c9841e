"""Every DATC case, phase by phase: resulting position, dislodgements, and order results."""

import numpy as np
import pytest
import torch

from sparring.envs.diplomacy.batch import DiplomacyBatch, position
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, find_location, standard_board
from sparring.envs.diplomacy.orders.notation import read_order, read_unit, write_unit
from sparring.envs.diplomacy.orders.submit import submit
from tests.envs.diplomacy.adjudicator import datc

CASES = datc.load().cases
PHASES = {letters: number for number, letters in enumerate(codes.PHASE_LETTERS)}
MARKS = {
    "ok": {codes.DONE},
    "fails": {codes.BOUNCED, codes.DISRUPTED, codes.FAILED},
    "cut": {codes.CUT},
    "broken": {codes.DISRUPTED, codes.DONE},
    "idle": {codes.FAILED},
    "void": {codes.VOID},
}


@pytest.fixture(scope="module")
def batch():
    games = DiplomacyBatch(1, threads=1)
    yield games
    games.close()


def place(batch, phase):
    """Return the initial position of a case."""
    board = standard_board()
    units = np.zeros((1, 75), dtype=np.uint8)
    for power, names in phase.units.items():
        for name in names:
            province, code = read_unit(name, POWERS.index(power))
            units[0, province] = code
    owner = np.full((1, 34), -1)
    for power, names in phase.centres.items():
        owner[0, [board.centre_of[find_location(name)] for name in names]] = POWERS.index(power)
    kind = PHASES[phase.name[0], phase.name[-1]]
    batch.load(position(units, owner, year=int(phase.name[1:5]), phase=kind))


def standing(codes_, power):
    """Return names of a power's units in a row of unit codes [75]."""
    found = [write_unit(int(code), province) for province, code in enumerate(codes_) if code]
    powers = [(int(code) - 1) % 7 for code in codes_ if code]
    return sorted(name for name, owner in zip(found, powers, strict=True) if POWERS[owner] == power)


def hand_in(batch, phase):
    """Submit every power's orders as written; return each with its problem."""
    rows = {name: getattr(batch, name)[0].numpy() for name in ("units", "dislodged", "owner")}
    answers = []
    for power in POWERS:
        written = [order for order in phase.orders if order.power == power]
        lines = [order.text for order in written]
        number = POWERS.index(power)
        done = submit(batch.orders[0].numpy(), lines, power=number, phase=int(batch.phase[0]), **rows)
        answers += list(zip(written, done, strict=True))
    return answers


def check_mark(order, line, result):
    """Check that an order ended as the file says."""
    if line.problem:
        assert order.result in (None, "void"), (order, line.problem)
    elif order.result:
        assert result % 8 in MARKS[order.result], (order, codes.RESULTS[result % 8])
    if order.result == "broken":
        assert result // 8 == 1 or result % 8 == codes.DISRUPTED, order


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_datc(batch, case):
    place(batch, case.phases[0])
    for phase in case.phases:
        before, answers = batch.units[0].clone(), hand_in(batch, phase)
        batch.process()
        batch.check()
        results = batch.results[0]
        lost = torch.where(results >= codes.DISLODGED_FLAG, before, 0)
        for power in POWERS:
            assert standing(batch.units[0], power) == sorted(phase.after.get(power, ())), (phase.name, power)
            assert standing(lost, power) == sorted(phase.dislodged.get(power, ())), (phase.name, power)
        for order, line in answers:
            check_mark(order, line, int(results[read_order(order.text).province]))
