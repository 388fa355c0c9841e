"""Legal orders of positions written as text and of bot games, for tests of prompts and answers."""

import numpy as np

from sparring.envs.diplomacy.batch import STATE, DiplomacyBatch, position
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, find_location, standard_board
from sparring.envs.diplomacy.orders.choices import choices
from sparring.envs.diplomacy.orders.notation import read_unit
from tests.envs.diplomacy.scenes import owner_row, unit_row


def scene(units, *, owner=None, phase=codes.SPRING, year=1901, dislodged=None, contested=()):
    """A game's rows from `units` ({power: "A PAR, F BRE"}), `dislodged` ({"FRANCE A BUR": "MUN"}) and provinces."""
    state = position(unit_row(units)[None], owner_row(owner)[None], year=year, phase=phase)
    row = {name: values[0].numpy().copy() for name, values in state.items()}
    for text, origin in (dislodged or {}).items():
        power, _, unit = text.partition(" ")
        province, code = read_unit(unit, POWERS.index(power))
        row["dislodged"][province] = code
        row["origin"][province] = standard_board().provinces.index(origin)
    for place in contested:
        row["origin"][find_location(place)] = codes.CONTESTED
    return row


def ask(row, power):
    """Return the choices of a power, given by name or number."""
    batch = DiplomacyBatch(1, threads=1, last_year=1950)
    for name in STATE:
        getattr(batch, name)[0] = getattr(batch, name).new_tensor(row[name])
    listed = batch.legal_orders(0)
    batch.close()
    return choices(row, listed, POWERS.index(power) if isinstance(power, str) else power)


def random_decisions(games=3, last_year=1905, bot="dumbbot", seed=0):
    """Return every decision of bot games: rows, choices and the bots' orders [75]."""
    batch = DiplomacyBatch(games, threads=1, last_year=last_year)
    batch.players.fill_(codes.BOTS.index(bot))
    phase = 0
    while not bool(batch.done.all()):
        batch.draw_orders(seed + phase)
        for game in np.flatnonzero(batch.done.numpy() == 0).tolist():
            row = {name: getattr(batch, name)[game].numpy().copy() for name in STATE}
            listed, orders = batch.legal_orders(game), batch.orders[game].numpy().copy()
            asked = [choices(row, listed, power) for power in range(codes.NUM_POWERS)]
            yield from ((row, asking, orders) for asking in asked if asking.lines)
        batch.process()
        phase += 1
    batch.close()


def draw(asked, rng):
    """Return a random complete answer."""
    chosen, last = [], -1
    for line in range(asked.lines):
        menu = asked.menu(line, last)
        chosen.append(menu[rng.integers(len(menu))])
        last = chosen[-1].slot
    return tuple(chosen)
