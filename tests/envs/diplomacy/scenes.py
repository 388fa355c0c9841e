"""Phases played from text positions and orders, for tests of records and drawings."""

import numpy as np

from sparring.envs.diplomacy.batch import position
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, standard_board
from sparring.envs.diplomacy.orders.notation import read_unit
from sparring.envs.diplomacy.orders.submit import submit
from sparring.envs.diplomacy.records.history import WatchedBatch
from sparring.envs.diplomacy.records.timeline import phases_of


def play(units, *orders, owner=None, phase=codes.SPRING, last_year=1950):
    """Record a game from `units` ({power: "A PAR, F BRE"}), one phase for each of the `orders`, in the same form."""
    batch = WatchedBatch(1, threads=1, last_year=last_year)
    batch.load(position(unit_row(units)[None], owner_row(owner)[None], year=1901, phase=phase))
    for sheet in orders:
        for power, text in sheet.items():
            row = batch.orders[0].numpy()
            submit(row, lines(text), power=POWERS.index(power.upper()), **rows(batch))
        batch.process()
    batch.close()
    return phases_of(batch.past())


def drawn_game(*, seed=3, last_year, games=1, game=0):
    """Return one of several random games, phase by phase."""
    batch = WatchedBatch(games, watched=game, threads=1, last_year=last_year)
    while not batch.done.all():
        batch.draw_orders(seed)
        batch.process()
    batch.close()
    return phases_of(batch.past())


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
    """Return the centre owners: the initial ones, except those in `owner` ({power: "PAR, BRE"})."""
    board = standard_board()
    row = board.home[board.centres].copy()
    for power, text in (owner or {}).items():
        for code in lines(text):
            row[board.centre_of[board.provinces.index(code)]] = POWERS.index(power.upper())
    return row
