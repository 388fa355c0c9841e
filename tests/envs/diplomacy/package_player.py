"""Games played and saved by the `diplomacy` package, with independent or coordinated random orders."""

import json
import random

import numpy as np

from benchmarks.diplomacy_peers.orders import STYLES, Weaver
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.orders.notation import read_order, read_unit

LEFT_OUT = 0.03


def played(style, *, seed, phases):
    """Return the JSON the package saves after at most this many phases, in a style of `STYLES`, or "alike"."""
    from diplomacy import Game

    game, chance = Game(), random.Random(f"{style} {seed}")
    for _ in range(phases):
        if not game.is_game_done:
            give_orders(game, style, chance)
            game.process()
    return saved(game)


def saved(game):
    """Return the package's saved game, read back."""
    from diplomacy.utils.export import to_saved_game_format

    return json.loads(json.dumps(to_saved_game_format(game)))


def give_orders(game, style, chance):
    """Give random orders to all units except a few."""
    legal = {place: sorted(set(orders)) for place, orders in sorted(game.get_all_possible_orders().items()) if orders}
    if game.phase_type == "M" and style in STYLES:
        chosen = woven(game, legal, style, chance)
    else:
        chosen = {place: chance.choice(orders) for place, orders in legal.items()}
    for power in POWERS:
        own = [chosen[place] for place in sorted(game.get_orderable_locations(power)) if place in chosen]
        game.set_orders(power, [order for order in own if chance.random() > LEFT_OUT])


def woven(game, legal, style, chance):
    """Return an order for every unit, by its location in the package's notation."""
    texts = {place: {read_order(text).order: text for text in orders} for place, orders in legal.items()}
    units, place_of = np.zeros(codes.NUM_PROVINCES, dtype=np.uint8), {}
    for power in POWERS:
        for unit in game.powers[power].units:
            province, units[read_unit(unit, POWERS.index(power))[0]] = read_unit(unit, POWERS.index(power))
            place_of[province] = unit[2:]
    listed = {province: sorted(texts[place_of[province]]) for province in sorted(place_of)}
    orders = Weaver(listed, units, STYLES[style], chance).weave()
    return {place_of[province]: texts[place_of[province]][order] for province, order in orders.items()}
