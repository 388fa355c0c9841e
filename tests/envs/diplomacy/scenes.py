"""Phases played from positions and orders written as text, for tests of what is told and drawn of them."""

import numpy as np

from envs.diplomacy import codes
from envs.diplomacy.batch import DiplomacyBatch, position
from envs.diplomacy.board import POWERS, standard_board
from envs.diplomacy.notation import read_unit
from envs.diplomacy.recording import record_game
from envs.diplomacy.submit import submit


def play(units, *orders, owner=None, phase=codes.SPRING):
    """Record a game from `units` ({power: "A PAR, F BRE"}) on, one phase for each of the `orders`, in that form."""
    batch = DiplomacyBatch(1, threads=1, last_year=1950)
    batch.load(position(unit_row(units)[None], owner_row(owner)[None], year=1901, phase=phase))
    sheets = iter(orders)

    def give_orders(batch):
        for power, text in next(sheets).items():
            row = batch.orders[0].numpy()
            submit(row, lines(text), power=POWERS.index(power.upper()), **rows(batch))

    phases = record_game(batch, give_orders, most=len(orders))
    batch.close()
    return phases


def rows(batch):
    board = {name: getattr(batch, name)[0].numpy() for name in ("units", "dislodged", "owner")}
    return {**board, "phase": int(batch.phase[0])}


def lines(text):
    return [line.strip() for line in text.split(",") if line.strip()]


def unit_row(units):
    row = np.zeros(codes.NUM_PROVINCES, dtype=np.uint8)
    for power, text in units.items():
        for unit in lines(text):
            province, code = read_unit(unit, POWERS.index(power.upper()))
            row[province] = code
    return row


def owner_row(owner):
    """Who owns the centres: home centres as at the start, but for those that `owner` ({power: "PAR, BRE"}) names."""
    board = standard_board()
    row = board.home[board.centres].copy()
    for power, text in (owner or {}).items():
        for code in lines(text):
            row[board.centre_of[board.provinces.index(code)]] = POWERS.index(power.upper())
    return row
