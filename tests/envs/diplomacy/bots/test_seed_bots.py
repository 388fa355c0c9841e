"""Bot variants against the recorded choices of the original system's bots."""

from collections import Counter
from itertools import islice, permutations, product

import numpy as np
import pytest

from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import find_location, standard_board
from sparring.envs.diplomacy.bots.seed_choice import ARROWS, HELP, TERRITORY, VALUE
from sparring.envs.diplomacy.bots.seed_dumbbot_values import neighbour_lists
from sparring.envs.diplomacy.orders.notation import read_order
from tests.envs.diplomacy.bots.seed_choices import TURNS, best_orders
from tests.envs.diplomacy.bots.seed_rows import facts, key, key_of_text, rows

CHUNK = 1000
POSITIONS = {"M": 400, "R": 90, "A": 120}


@pytest.fixture(scope="module")
def games():
    """Return batches with the recorded positions, by phase type, and the rows of all powers."""
    found = {}
    for kind in POSITIONS:
        state, all_rows = rows(kind)
        batch = DiplomacyBatch(len(state["year"]), threads=1)
        batch.load(state)
        found[kind] = batch, all_rows
    yield found
    for batch, _ in found.values():
        batch.close()


def asked(batch, jobs):
    """Yield per job (row, aim, goal, units in turn, orders taken) the best orders' keys and values."""
    for start in range(0, len(jobs), CHUNK):
        part = jobs[start : start + CHUNK]
        turns, taken = (np.full((len(part), TURNS), fill) for fill in (-1, codes.HOLD))
        for number, (row, _, _, order, given) in enumerate(part):
            turns[number, : len(order)] = [row.units[unit].province for unit in order]
            taken[number, : len(given)] = given
        numbers = [[row.game, row.power, int(aim), goal] for row, aim, goal, _, _ in part]
        found, values = best_orders(batch, *np.array(numbers).T, turns, taken)
        keys = iter(key(np.concatenate([orders for one in found for orders in one])).tolist())
        yield from zip(
            part, ([list(islice(keys, len(orders))) for orders in one] for one in found), values, strict=True
        )


def agree(row, unit, found, wanted):
    """Check a unit's choice set, orders that the package does not list aside: convoys off the shortest routes.

    Return False where all are such convoys, so that nothing can be compared.
    """
    listed = row.units[unit].listed
    known = sorted(order for order in found if order in listed)
    assert all(order & codes.KIND_MASK == codes.CONVOY for order in found if order not in listed)
    assert not known or known == wanted, (row.game, row.power, unit)
    return bool(known)


def test_positions_cover_all_phase_types(games):
    seen = Counter(place["name"][-1] for place in facts()["positions"])
    assert seen == POSITIONS
    assert sum(seen.values()) >= 500


def test_neighbours_match_package():
    board = standard_board()
    matrix, number = neighbour_lists(board)
    for place, code in enumerate(board.provinces):
        names = facts()["adjacent"][code]
        found = [board.provinces[other] for other in np.flatnonzero(matrix[place])]
        assert sorted(found) == sorted(name for name in names if name in board.provinces)
        assert number[place] == len(names)


@pytest.mark.parametrize("kind", ["M", "R"])
@pytest.mark.parametrize(("bot", "aim"), [("Chaos", ARROWS), ("Territorial", TERRITORY)])
def test_chaos_and_territorial_choice_sets(games, kind, bot, aim):
    batch, all_rows = games[kind]
    jobs = [(row, aim, -1, range(len(row.units)), []) for row in all_rows]
    compared = Counter(
        agree(row, unit, found[unit], row.chosen(unit, row.facts[bot][unit]))
        for (row, _, _, order, _), found, _ in asked(batch, jobs)
        for unit in order
    )
    assert compared[True] >= (5000 if kind == "M" else 90)
    assert compared[False] <= 5


def test_coordinated_attacker_choice_set(games):
    batch, all_rows = games["M"]
    jobs = [(row, ARROWS, -1, range(len(row.units)), []) for row in all_rows]
    for (row, _, _, order, _), found, _ in asked(batch, jobs):
        for unit in order:  # Any unit may be the attacker.
            assert agree(row, unit, found[unit], row.chosen(unit, row.facts["Coordinated"]["attack"][unit]))


@pytest.mark.parametrize(("every", "helps"), [(8, 2_000), pytest.param(1, 20_000, marks=pytest.mark.slow)])
def test_coordinated_supporter_choice_sets(games, every, helps):
    batch, all_rows = games["M"]
    seen = Counter()
    jobs = []
    for row in all_rows[::every]:
        for goal in row.facts["Coordinated"]["goals"]:
            jobs.append((row, HELP, find_location(goal), range(len(row.units)), [], goal))
    for (job, found, _), (*_, goal) in zip(asked(batch, [job[:5] for job in jobs]), jobs, strict=True):
        row, recorded = job[0], job[0].facts["Coordinated"]
        for unit in job[3]:
            if goal not in recorded["unasked"].get(str(unit), ()):
                rare = recorded["goals"][goal].get(str(unit))
                assert agree(row, unit, found[unit], row.chosen(unit, rare or recorded["otherwise"][unit]))
                seen["helps" if rare else "otherwise"] += 1
    assert seen["helps"] > helps


def test_coordinated_takes_any_retreat_order(games):
    batch, all_rows = games["R"]
    for (row, _, _, order, _), found, _ in asked(
        batch, [(row, ARROWS, -1, range(len(row.units)), []) for row in all_rows]
    ):
        for unit in order:
            agree(row, unit, found[unit], row.chosen(unit, row.facts["Coordinated"][unit]))


@pytest.mark.parametrize("kind", ["M", "R"])
def test_dumbbot_values_and_best_orders(games, kind):
    batch, all_rows = games[kind]
    provinces = standard_board().provinces
    jobs = []
    for row in all_rows:
        dumb = row.facts["Dumb"]
        taken = [int(row.units[unit].keys[number]) for unit, number in zip(dumb["turns"], dumb["taken"], strict=True)]
        jobs.append((row, VALUE, -1, dumb["turns"], taken))
    valued = 0
    for (row, _, _, order, _), found, values in asked(batch, jobs):
        dumb = row.facts["Dumb"]
        for turn, unit in enumerate(order):
            assert agree(row, unit, found[turn], row.chosen(unit, dumb["sets"][turn]))
        if "values" in dumb:
            valued += 1
            wanted = np.array([dumb["values"].get(code, 0.0) for code in provinces])
            np.testing.assert_allclose(values, wanted, rtol=1e-8, atol=1e-7)
    assert valued >= 80


def test_dumbbot_values_of_france_in_opening():
    """The recorded example of the specification."""
    wanted = {
        "PAR": 1000, "BRE": 1000, "MAR": 0, "BEL": 1564.62, "SPA": 2384.17, "POR": 500, "MUN": -610.05,
        "VEN": -43.21, "ROM": 34.17, "TRI": 1260.91,
    }  # fmt: skip
    batch = DiplomacyBatch(1, threads=1)
    turns = np.full((1, TURNS), -1)
    _, values = best_orders(batch, [0], [2], [int(VALUE)], [-1], turns, turns)
    assert {code: round(float(values[0, find_location(code)]), 2) for code in wanted} == wanted
    batch.close()


def drawn(batch, game, bot, games=2000, seed=3):
    """Return the orders [games, 75] a bot gives every power in one position, drawn repeatedly."""
    copies = DiplomacyBatch(games, threads=1)
    copies.load({name: values[game : game + 1] for name, values in batch.snapshot().items()})
    copies.players.fill_(codes.BOTS.index(bot))
    copies.draw_orders(seed)
    orders = copies.orders.numpy().copy()
    copies.close()
    return orders


def check_frequencies(seen, chances, draws):
    """Check outcome counts against probabilities, within five standard errors."""
    assert set(seen) <= set(chances)
    assert sum(chances.values()) == pytest.approx(1.0)
    for outcome, chance in chances.items():
        assert abs(seen[outcome] / draws - chance) < 5 * np.sqrt(chance * (1 - chance) / draws) + 1e-9, outcome


def units_to_draw(batch, all_rows, games):
    """Yield rows of some positions whose legal orders match the package's."""
    for game in games:
        listed = batch.legal_orders(game)
        rows_here = [row for row in all_rows if row.game == game]
        if all(set(key(listed[unit.province]).tolist()) <= unit.listed for row in rows_here for unit in row.units):
            yield game, rows_here


@pytest.mark.parametrize(("bot", "name"), [("chaos_seed", "Chaos"), ("territorial_seed", "Territorial")])
def test_every_order_text_is_equally_likely(games, bot, name):
    batch, all_rows = games["M"]
    seen = 0
    for game, rows_here in units_to_draw(batch, all_rows, range(0, 400, 40)):
        orders = drawn(batch, game, bot)
        for row in rows_here:
            for number, unit in enumerate(row.units):
                chosen = row.chosen(number, row.facts[name][number])
                counts = Counter(key(orders[:, unit.province]).tolist())
                check_frequencies(counts, dict.fromkeys(chosen, 1 / len(chosen)), len(orders))
                seen += 1
    assert seen > 50


def goal_word(order):
    """Return the recorded word for an attack's goal."""
    return standard_board().locations[order >> codes.TARGET_SHIFT & codes.LOCATION_MASK]


def test_coordinated_attack_and_support_rates_match_records(games):
    batch, all_rows = games["M"]
    seen = 0
    for game, rows_here in units_to_draw(batch, all_rows, range(0, 400, 40)):
        orders = drawn(batch, game, "coordinated_seed")
        for row in rows_here:
            recorded = row.facts["Coordinated"]
            attacks = [row.chosen(unit, recorded["attack"][unit]) for unit in range(len(row.units))]
            chances = [Counter() for _ in row.units]
            for attacker, own in enumerate(attacks):
                for attack in own:
                    chance = 1 / (len(attacks) * len(own))
                    chances[attacker][attack] += chance
                    for unit in set(range(len(attacks))) - {attacker}:
                        rare = recorded["goals"][goal_word(attack)].get(str(unit))
                        helps = row.chosen(unit, rare or recorded["otherwise"][unit])
                        for order in helps:
                            chances[unit][order] += chance / len(helps)
            for unit, wanted in zip(row.units, chances, strict=True):
                check_frequencies(Counter(key(orders[:, unit.province]).tolist()), wanted, len(orders))
                seen += 1
    assert seen > 50


def test_dumbbot_orders_units_randomly(games):
    """Joint orders of a power by the bot's kernel, and unit by unit in shuffled order."""
    batch, all_rows = games["M"]
    chance, draws = np.random.default_rng(0), 400
    for row in [row for row in all_rows if 3 <= len(row.units) <= 4][::120]:
        joint = Counter(map(tuple, drawn(batch, row.game, "dumbbot_seed")[:, [u.province for u in row.units]].tolist()))
        turns = np.full((draws, TURNS), -1)
        turns[:, : len(row.units)] = chance.permuted([[u.province for u in row.units]] * draws, axis=1)
        taken = np.full((draws, TURNS), codes.HOLD)
        for turn in range(len(row.units)):
            job = np.array([[row.game, row.power, int(VALUE), -1]] * draws).T
            for number, found in enumerate(best_orders(batch, *job, turns, taken)[0]):
                taken[number, turn] = chance.choice(found[turn])
        sorting = np.argsort(turns[:, : len(row.units)], axis=1)
        again = Counter(map(tuple, np.take_along_axis(taken[:, : len(row.units)], sorting, axis=1).tolist()))
        in_order = np.argsort([u.province for u in row.units])
        joint = Counter({tuple(orders[unit] for unit in in_order): count for orders, count in joint.items()})
        for orders in joint | again:
            share = (joint[orders] + again[orders]) / (2000 + draws)
            error = np.sqrt(share * (1 - share) * (1 / 2000 + 1 / draws))
            assert abs(joint[orders] / 2000 - again[orders] / draws) < 5 * error + 1e-9


def first_of(orders, due):
    """Return the orders of places in alphabetical order, truncated by the engine to the first `due`."""
    given = [place for place, order in enumerate(orders) if order][: abs(due)]
    return tuple(order if place in given else 0 for place, order in enumerate(orders))


def due_of(row, state):
    """Return the builds due to a power; disbands are negative."""
    units = codes.power_of(state["units"][row.game].numpy()) == row.power
    return int((state["owner"][row.game] == row.power).sum()) - int(units.sum())


@pytest.mark.parametrize(
    ("bot", "name"), [("chaos_seed", "Chaos"), ("territorial_seed", "Territorial"), ("coordinated_seed", "Coordinated")]
)
def test_winter_orders_are_drawn_per_place(games, bot, name):
    batch, all_rows = games["A"]
    kinds = set()
    for row in all_rows[::8]:
        due = due_of(row, batch.state)
        kinds.add(due > 0)
        sets = [row.chosen(unit, row.facts[name][unit]) for unit in range(len(row.units))]
        chances = Counter()
        for orders in product(*sets):
            chances[first_of(orders, due)] += 1 / np.prod([len(chosen) for chosen in sets])
        orders = drawn(batch, row.game, bot)[:, [unit.province for unit in row.units]]
        check_frequencies(Counter(map(tuple, orders.tolist())), chances, len(orders))
    assert kinds == {True, False}


def test_dumbbot_winter_orders_are_shuffled(games):
    batch, all_rows = games["A"]
    kinds = set()
    for row in all_rows[::8]:
        dumb, due = row.facts["Dumb"], due_of(row, batch.state)
        assert dumb["submitted"] == min(abs(due), len(dumb["shuffled"]))
        kinds.add(due > 0)
        provinces = [unit.province for unit in row.units]
        outcomes = Counter()
        for submitted in permutations(dumb["shuffled"], dumb["submitted"]):
            given = {}
            for text in submitted:  # The first order for a place counts.
                given.setdefault(read_order(text).province, key_of_text(text))
            outcomes[tuple(given.get(province, 0) for province in provinces)] += 1
        chances = {outcome: count / outcomes.total() for outcome, count in outcomes.items()}
        orders = drawn(batch, row.game, "dumbbot_seed")[:, provinces]
        check_frequencies(Counter(map(tuple, orders.tolist())), chances, len(orders))
    assert kinds == {True, False}


def test_excess_disbands_never_count_in_package(games):
    """The package, like `first_of`, carries out the first orders of too many."""
    from diplomacy import Game

    for place in [place for place in facts()["positions"] if place["name"][-1] == "A"][:20]:
        game = Game()
        game.set_current_phase(place["name"])
        game.clear_units()
        game.clear_centers()
        for power, units in place["state"]["units"].items():
            game.set_units(power, units)
            game.set_centers(power, place["state"]["centers"][power])
        wanted = {}
        for power, row in place["powers"].items():
            orders = [next(text for text in texts.split("|") if text != "WAIVE") for texts in row["orders"].values()]
            due = len(place["state"]["centers"][power]) - len(place["state"]["units"][power])
            chosen = [" ".join(order.split()[:2]) for order in orders[: abs(due)]]
            before = set(place["state"]["units"][power])
            wanted[power] = before | set(chosen) if due > 0 else before - set(chosen)
            game.set_orders(power, orders)
        game.process()
        assert {power: set(game.get_units(power)) for power in wanted} == wanted


def test_defensive_supports_or_holds_as_recorded(games):
    """The default bot's orders are among those recorded: without a support, all that contain " H"."""
    batch, all_rows = games["M"]
    seen = 0
    for game, rows_here in units_to_draw(batch, all_rows, range(0, 400, 20)):
        orders = drawn(batch, game, "defensive", games=100)
        for row in rows_here:
            for number, unit in enumerate(row.units):
                given = set(key(orders[:, unit.province]).tolist())
                assert given <= set(row.chosen(number, row.facts["Defensive"][number]))
                seen += 1
    assert seen > 100
