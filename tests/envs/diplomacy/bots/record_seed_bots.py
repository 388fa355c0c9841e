"""Record what the bots of the seed's system may order: `python tests/envs/diplomacy/bots/record_seed_bots.py CHECKOUT`.

CHECKOUT is a folder with that system's code, which is no part of this project; the package `diplomacy` has to be
installed. Its bots play games against each other there. In sampled positions its code is run with a generator that
writes down every list it is asked to choose from. Only the facts are kept, in seed_bots.json.xz: positions, the legal
orders the package lists, for each bot which of these a unit may get (bit k of a hexadecimal number: order k), and the
province values and scores of its DumbBot. About a minute.
"""

from __future__ import annotations

import inspect
import json
import lzma
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

PLACE = Path(__file__).with_name("seed_bots.json.xz")
QUOTA = {"M": 400, "R": 90, "A": 120}
SHARE = {"M": 0.2, "R": 1.0, "A": 0.5}
"""Probability that a position of a phase type is kept, until the quota is full."""
LAST_YEAR = 1914
NAMES = ("Random", "Chaos", "Defensive", "Territorial", "Coordinated", "Dumb")


class Chooser:
    """Stands in for `random` in the module of the bots: records lists, and answers with `wanted` or the first."""

    def __init__(self) -> None:
        self.lists: list[list[Any]] = []
        self.wanted: list[Any] = []
        self.order = random.Random(0)

    def choice(self, options: list[Any]) -> Any:
        self.lists.append(list(options))
        return self.wanted.pop(0) if self.wanted else options[0]

    def shuffle(self, options: list[Any]) -> None:
        self.lists.append(list(options))
        self.order.shuffle(options)


def mask(chosen: Any, options: list[str]) -> str:
    """Return the hexadecimal number whose bit k says whether option k is chosen."""
    return f"{sum(1 << options.index(order) for order in set(chosen)):x}"


def listed(bot: Any, game: Any, power: str, chooser: Chooser, wanted: tuple[Any, ...] = ()) -> list[list[Any]]:
    """Return the lists that a bot asked the chooser about, and keep the answers to `wanted`."""
    chooser.lists, chooser.wanted = [], list(wanted)
    bot.get_orders(game, power)
    return chooser.lists


def simple_sets(bot: Any, game: Any, power: str, moves: dict[str, list[str]], chooser: Chooser) -> list[str]:
    """Return the choice set of each unit of a bot that asks once a unit."""
    lists = listed(bot, game, power, chooser)
    assert len(lists) == len(moves)
    return [mask(chosen, options) for chosen, options in zip(lists, moves.values(), strict=True)]


def defensive_sets(bot: Any, game: Any, power: str, moves: dict[str, list[str]], chooser: Chooser) -> list[str]:
    """Return the choice sets of the bot that takes the first hold, whichever that is: every rotation of the lists."""
    found = [set[str]() for _ in moves]
    for turn in range(max(len(options) for options in moves.values())):
        game.turn = turn
        chooser.lists = []
        orders = bot.get_orders(game, power)
        asked = {tuple(sorted(options)) for options in chooser.lists}
        for unit, (order, options) in enumerate(zip(orders, moves.values(), strict=True)):
            found[unit] |= next((set(some) for some in asked if order in some and set(some) <= set(options)), {order})
    game.turn = 0
    return [mask(chosen, options) for chosen, options in zip(found, moves.values(), strict=True)]


def coordinated(bot: Any, game: Any, power: str, moves: dict[str, list[str]], chooser: Chooser) -> dict[str, Any]:
    """Return the attacks of each attacker, and for every goal the sets of the others; "" for a unit without one."""
    units, lists = list(moves), listed(bot, game, power, chooser)
    attackers = lists[0]
    attacks = {unit: listed(bot, game, power, chooser, (unit,))[1] for unit in attackers}
    helps: dict[str, dict[int, str]] = {}
    for attacker, orders in attacks.items():
        for order in orders:
            goal = order.split(" - ")[-1].split()[0]
            sets = helps.setdefault(goal, {})
            others = [number for number, unit in enumerate(units) if unit != attacker]
            if set(others) <= set(sets):
                continue
            given = listed(bot, game, power, chooser, (attacker, order))[2:]
            for number, chosen in zip(others, given, strict=True):
                sets[number] = mask(chosen, moves[units[number]])
    common = [Counter(sets[n] for sets in helps.values() if n in sets).most_common(1) for n in range(len(units))]
    otherwise = [found[0][0] if found else "" for found in common]
    rare = {
        goal: {number: found for number, found in sorted(sets.items()) if found != otherwise[number]}
        for goal, sets in sorted(helps.items())
    }
    asked = {str(number): goals for number, goals in _unknown(helps, len(units)).items() if goals}
    attack = [mask(attacks[unit], moves[unit]) if unit in attacks else "" for unit in units]
    return {"attack": attack, "otherwise": otherwise, "goals": rare, "unasked": asked}


def _unknown(helps: dict[str, dict[int, str]], units: int) -> dict[int, list[str]]:
    """Return the goals for which a unit's set is unknown, because it alone could attack there."""
    return {number: sorted(goal for goal, sets in helps.items() if number not in sets) for number in range(units)}


class Scores:
    """Reads the scores of DumbBot's orders when it takes the best of them."""

    def __init__(self, function: Any) -> None:
        lines, first = inspect.getsourcelines(function)
        self.line = first + next(n for n, line in enumerate(lines) if "move_scores[0]" in line)
        self.code, self.seen = function.__code__, list[tuple[str, list[Any]]]()

    def __call__(self, frame: Any, event: str, _: Any) -> Any:
        if frame.f_code is not self.code:
            return None
        if event == "line" and frame.f_lineno == self.line:
            self.seen.append((frame.f_locals["unit"], list(frame.f_locals["move_scores"])))
        return self


def dumbbot(bot: Any, game: Any, power: str, moves: dict[str, list[str]], chooser: Chooser) -> dict[str, Any]:
    """Return values, the order of the units, and for each the best score, the orders that have it, and the one taken.

    A unit without a score is left out of `scores`: then every order may be taken.
    """
    values = bot._calculate_province_values(game, power)
    scores = Scores(type(bot)._generate_movement_orders)
    chooser.lists, chooser.wanted = [], []
    sys.settrace(scores)
    try:
        orders = bot.get_orders(game, power)
    finally:
        sys.settrace(None)
    units, seen = list(moves), dict(scores.seen)
    turns = [order.split()[0] + " " + order.split()[1] for order in orders]
    found: dict[str, Any] = {"turns": [units.index(unit) for unit in turns], "best": [], "sets": [], "taken": []}
    for unit, order in zip(turns, orders, strict=True):
        options, best = moves[unit], seen[unit][0][1] if unit in seen else None
        ties = [move for move, score, _ in seen[unit] if score == best] if unit in seen else options
        found["best"].append(None if best is None else float(f"{best:.10g}"))
        found["sets"].append(mask(ties, options))
        found["taken"].append(options.index(order))
    return {"values": {place: float(f"{value:.10g}") for place, value in sorted(values.items())}, **found}


def winter(bot: Any, game: Any, power: str, moves: dict[str, list[str]], chooser: Chooser) -> dict[str, Any]:
    """Return the orders DumbBot shuffles, and how many of them it submits."""
    chooser.lists = []
    submitted = bot.get_orders(game, power)
    return {"shuffled": chooser.lists[0], "submitted": len(submitted)}


def rows_of(bots: dict[str, Any], game: Any, power: str, chooser: Chooser) -> dict[str, Any]:
    """Return the facts about one power in a position; empty without orders."""
    moves = game.get_valid_moves(power)
    if not moves:
        return {}
    row: dict[str, Any] = {"orders": {unit: "|".join(options) for unit, options in moves.items()}}
    row |= {name: simple_sets(bots[name], game, power, moves, chooser) for name in ("Chaos", "Territorial")}
    row["Defensive"] = defensive_sets(bots["Defensive"], game, power, moves, chooser)
    if game.get_phase_type() == "M":
        row["Coordinated"] = coordinated(bots["Coordinated"], game, power, moves, chooser)
    else:
        lists = listed(bots["Coordinated"], game, power, chooser)[1:]
        row["Coordinated"] = [mask(chosen, options) for chosen, options in zip(lists, moves.values(), strict=True)]
    measure = winter if game.get_phase_type() == "A" else dumbbot
    return row | {"Dumb": measure(bots["Dumb"], game, power, moves, chooser)}


def record(checkout: str) -> dict[str, Any]:
    """Play games in the system at `checkout` and return the facts of sampled positions."""
    sys.path.insert(0, checkout)
    from src.agents import baselines
    from src.engine.wrapper import DiplomacyWrapper

    class Game(DiplomacyWrapper):
        """The seed's game with sorted orders, `turn` of them rotated to the end, and with those of dislodged units."""

        turn = 0

        def get_valid_moves(self, power_name: str) -> dict[str, list[str]]:
            """Return the legal orders by unit."""
            found = super().get_valid_moves(power_name)
            if self.get_phase_type() == "R":  # The seed's own table lacks the dislodged units.
                retreating = self.game.powers[power_name].retreats
                found = {unit: self._get_possible_orders()[unit.split()[1]] for unit in retreating}
            turned = {}
            for unit, options in sorted(found.items()):
                options, turn = sorted(options), self.turn % len(options)
                turned[unit] = options[turn:] + options[:turn]
            return turned

    bots = {name: getattr(baselines, f"{name}Bot")() for name in NAMES}
    chooser, chance, left, positions = Chooser(), random.Random(1), dict(QUOTA), []
    while any(left.values()):
        game = Game(horizon=99)
        players = {power: bots[chance.choice(NAMES)] for power in game.game.powers}
        while any(left.values()) and not game.is_done() and game.get_year() <= LAST_YEAR:
            kind = game.get_phase_type()
            if left[kind] and chance.random() < SHARE[kind]:
                left[kind] -= 1
                baselines.random = chooser
                powers = {power: rows_of(bots, game, power, chooser) for power in game.game.powers}
                state = game.game.get_state()
                kept = {"units": state["units"], "centers": state["centers"]}
                kept |= {"retreats": state["retreats"]} if kind == "R" else {}
                positions.append(
                    {"name": state["name"], "state": kept, "powers": {k: v for k, v in powers.items() if v}}
                )
            baselines.random = chance
            orders = {power: bot.get_orders(game, power) for power, bot in players.items()}
            for power, lines in orders.items():
                game.game.set_orders(power, lines)
            game.game.process()
            game._orders_cache = None
    adjacent = {place: game.game.map.abut_list(place) for place in sorted({p[:3].upper() for p in game.game.map.locs})}
    return {"adjacent": adjacent, "positions": thinned(positions)}


def thinned(positions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep the values of one power a position, each power in turn."""
    for number, position in enumerate(positions):
        rows = [row for row in position["powers"].values() if "values" in row["Dumb"]]
        for row in rows[: number % max(len(rows), 1)] + rows[number % max(len(rows), 1) + 1 :]:
            del row["Dumb"]["values"], row["Dumb"]["best"]
    return positions


if __name__ == "__main__":
    text = json.dumps(record(sys.argv[1]), separators=(",", ":"))
    PLACE.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{PLACE}: {PLACE.stat().st_size} bytes")
