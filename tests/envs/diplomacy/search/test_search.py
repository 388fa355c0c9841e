"""The search finds known best moves, keeps its budget, and is reproducible."""

from itertools import product

import numpy as np
import pytest
import torch

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.batch import DiplomacyBatch, position
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, find_location, standard_board
from sparring.envs.diplomacy.board.tensors import power_of
from sparring.envs.diplomacy.orders.notation import read_order
from sparring.envs.diplomacy.search.changes import OwnOrders, apply, unions
from sparring.envs.diplomacy.search.player import SearchOrders
from sparring.envs.diplomacy.search.regret import Table, distinct
from sparring.envs.diplomacy.search.score import moves_to_centres
from sparring.envs.diplomacy.search.search import NO_HINTS, Hints, OrderSearch, SearchedGame, SearchTurn
from sparring.envs.diplomacy.search.settings import SearchSettings, read_settings
from sparring.envs.diplomacy.search.simulator import Simulator
from tests.envs.diplomacy.scenes import unit_row

DUMBBOT = codes.BOTS.index("dumbbot")


@pytest.fixture(scope="module")
def batch():
    batch = DiplomacyBatch(4, last_year=1910, threads=1)
    yield batch
    batch.close()


def place(batch, units, centres, *, phase):
    """Set every game to a position; centres of unnamed powers are unowned."""
    owner = np.full((1, codes.NUM_CENTRES), -1)
    for power, names in centres.items():
        owner[0, [standard_board().centre_of[find_location(name)] for name in names.split()]] = POWERS.index(power)
    batch.load(position(unit_row(units)[None], owner, year=1905, phase=phase))


def searched(batch, power, *, rows=(0,), **settings):
    player = SearchOrders(SearchSettings(**{"opponents": "dumbbot", "seed": 0} | settings))
    return player.searched(batch, torch.tensor(rows), torch.full((len(rows),), POWERS.index(power)))


def orders_of(game):
    return {place: int(game.orders[place]) for place in np.flatnonzero(game.orders)}


def packed(*texts):
    return {read_order(text).province: read_order(text).order for text in texts}


def test_attack_is_supported(batch):
    place(
        batch,
        {"FRANCE": "A BUR, A RUH", "GERMANY": "A MUN"},
        {"FRANCE": "PAR MAR BEL HOL KIE", "GERMANY": "MUN BER"},
        phase=codes.FALL,
    )
    orders = orders_of(searched(batch, "FRANCE", positions=4000, opponents="defensive")[0])
    one, other = packed("A BUR - MUN", "A RUH S A BUR - MUN"), packed("A RUH - MUN", "A BUR S A RUH - MUN")
    assert orders in (one, other)


def test_army_is_convoyed_to_second_centre(batch):
    """In spring the fleet convoys the army, and in fall takes its own centre."""
    place(batch, {"ENGLAND": "A YOR, F NTH"}, {"ENGLAND": "LON LVP EDI"}, phase=codes.SPRING)
    orders = orders_of(searched(batch, "ENGLAND", positions=8000)[0])
    nth, yor = find_location("NTH"), find_location("YOR")
    assert codes.unpack(orders[nth])[0] == codes.CONVOY
    kind, goal, _, via = codes.unpack(orders[yor])
    assert (kind, via) == (codes.MOVE, True)
    assert standard_board().centre_of[goal] >= 0


def test_threatened_centres_are_defended():
    """In the last fall only centres count: better than holds and DumbBot, in fresh draws."""
    last = DiplomacyBatch(1, last_year=1905, threads=1)
    units = {"FRANCE": "A PAR, A GAS", "GERMANY": "A BUR, A PIC"}
    place(last, units, {"FRANCE": "PAR BRE MAR SPA POR", "GERMANY": "MUN BER KIE"}, phase=codes.FALL)
    game = searched(last, "FRANCE", positions=20_000)[0]
    holds = np.where(game.orders > 0, codes.HOLD, 0).astype(np.int32)
    kept = [centres_after(last, orders) for orders in (game.orders, holds, None)]
    last.close()
    assert kept[0] > max(kept[1:]) + 0.05


def centres_after(batch, orders):
    """Return France's mean centres after a fall with `orders` int32 [75], or DumbBot's for None, over 400 draws."""
    games = DiplomacyBatch(400, last_year=1910, threads=1)
    games.load({name: values[:1] for name, values in batch.state.items()})
    games.players.fill_(DUMBBOT)
    games.draw_orders(99)
    if orders is not None:
        own = power_of(games.units) == POWERS.index("FRANCE")
        games.orders.copy_(torch.where(own, torch.from_numpy(orders), games.orders))
    games.process()
    centres = (games.owner == POWERS.index("FRANCE")).sum(dim=1).double().mean()
    games.close()
    return float(centres)


def two_unit_powers(batch):
    """Return DumbBot movement states where a power has two units, and that power."""
    games = DiplomacyBatch(64, last_year=1910, threads=1)
    games.players.fill_(DUMBBOT)
    rows, powers = [], []
    for seed in range(24):
        units = (power_of(games.units).unsqueeze(-1) == torch.arange(7)).sum(1)
        moving = (games.phase == codes.SPRING) | (games.phase == codes.FALL)
        for game in torch.nonzero(moving & (games.done == 0) & (units == 2).any(1)).flatten().tolist():
            if len(rows) < 12 and game % 5 == seed % 5:
                rows.append({name: values[game].clone() for name, values in games.state.items()})
                powers.append(int((units[game] == 2).nonzero()[0]))
        games.draw_orders(seed)
        games.process()
    games.close()
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}, torch.tensor(powers)


def test_two_units_find_best_joint_order(batch):
    """For one phase, the ascent's orders equal the best of all pairs that help no other power."""
    state, powers = two_unit_powers(batch)
    view = DiplomacyBatch(len(powers), last_year=1910, threads=1)
    view.load(state)
    listed = [view.legal_orders(game) for game in range(len(powers))]
    settings = SearchSettings(positions=100_000, opponents="dumbbot")
    search = OrderSearch(settings, last_year=1910, rollouts=False)
    search.samples = 16
    ids = torch.arange(len(powers))
    games = search.choose(view.state, powers, listed, ids)
    turn = SearchTurn(search, view.state, powers, ids, games, 0.0)
    turn.sample(NO_HINTS, listed)
    owners = power_of(view.units).numpy()
    candidates = {}
    for number, game in enumerate(games):
        choices = [[(place, order) for order in listed[number][place].tolist()] for place in game.legal.places]
        own = [
            [one for one in unit if not helps_others(one[1], owners[number], int(powers[number]))] for unit in choices
        ]
        candidates[number] = apply(np.zeros_like(game.orders), product(*own))
    for number, values in turn._values(candidates, 16).items():
        assert values.max() <= games[number].value + search_tolerance(), POWERS[int(powers[number])]
    view.close()


def search_tolerance():
    """Stop the ascent at gains below `LEAST_GAIN`."""
    return 0.0101


def helps_others(order, owners, power):
    kind, target, other, _ = codes.unpack(order)
    helped = {codes.SUPPORT: target, codes.SUPPORT_MOVE: other, codes.CONVOY: other}.get(kind)
    return helped is not None and owners[standard_board().province_of[helped]] != power


def test_position_budget_is_reproducible_and_respected(batch):
    batch.reset()
    batch.players.fill_(DUMBBOT)
    for _ in range(3):
        batch.draw_orders(1)
        batch.process()
    batch.phase.fill_(codes.SPRING)
    batch.dislodged.zero_()
    first = searched(batch, "FRANCE", rows=(0, 1, 2), positions=3000)
    again = searched(batch, "FRANCE", rows=(0, 1, 2), positions=3000)
    alone = searched(batch, "FRANCE", rows=(1,), positions=3000)
    for one, other in zip(first, again, strict=True):
        assert np.array_equal(one.orders, other.orders)
        assert one.value == other.value
    assert np.array_equal(alone[0].orders, first[1].orders)
    assert all(0 < game.positions <= 3000 for game in first)
    assert all(game.positions <= 200 for game in searched(batch, "TURKEY", rows=(0, 1), positions=200))


def test_best_orders_stay_without_draw(batch):
    """Orders that are better by less than the search's least gain replace them if it draws, at near=0 never."""
    batch.reset()
    best, other = np.zeros(75, np.int32), np.ones(75, np.int32)
    kept = {}
    for near in (0.0, 0.001):
        search = OrderSearch(SearchSettings(near=near, positions=100, opponents="dumbbot"), last_year=1910)
        compared = [(1.0, best), (1.004, other), (1.009, other + 1)]
        game = SearchedGame(OwnOrders({}, batch.units[0].numpy(), 0), best, 1.0, compared=compared)
        state = {name: values[:1] for name, values in batch.state.items()}
        with np.errstate(all="raise"):
            SearchTurn(search, state, torch.tensor([0]), torch.tensor([0]), [game], 0.0).settle()
        kept[near] = game.orders is best
    assert kept == {0.0: True, 0.001: False}


def test_player_orders_moves_only(batch):
    batch.reset()
    player, seats = SearchOrders(SearchSettings(positions=500, opponents="chaos")), torch.zeros(4, 7, dtype=torch.bool)
    seats[:3, POWERS.index("ITALY")] = True
    batch.players.fill_(codes.ACTIONS)
    player.write(batch, seats)
    own = power_of(batch.units) == POWERS.index("ITALY")
    assert (batch.orders[:3][own[:3]] > 0).all()
    assert not batch.orders[3].any()
    assert not batch.orders[~own].any()
    batch.process()
    assert not (batch.results[:3][own[:3]] == codes.VOID).any()
    batch.phase.fill_(codes.WINTER)
    player.write(batch, seats)
    assert not batch.orders.any()
    batch.reset()


def test_distance_to_nearest_unowned_centre_costs_before_last_year(batch):
    moves, centre_of = moves_to_centres(), standard_board().centre_of

    def away(kind, start, goal):
        return int(moves[kind, find_location(start), centre_of[find_location(goal)]])

    assert [away(0, "PAR", "BRE"), away(0, "PAR", "MUN"), away(0, "LON", "BEL")] == [1, 2, 2]
    assert [away(1, "BRE", "LON"), away(1, "BUL/EC", "GRE"), away(1, "BUL/SC", "GRE")] == [2, 3, 1]
    place(batch, {"FRANCE": "A PAR"}, {"FRANCE": "PAR MAR BRE"}, phase=codes.SPRING)
    state, power = {name: values[:1].clone() for name, values in batch.state.items()}, torch.tensor([2])
    for last_year, value in ((1910, 2.5), (1905, 3.0)):
        simulator = Simulator(last_year=last_year, weights=(0.0,) * 6 + (0.5,), chunk=1)
        holds = torch.zeros(1, codes.NUM_PROVINCES, dtype=torch.int32)
        values, _ = simulator.screen(state, torch.tensor([0]), power, holds)
        assert values.tolist() == [value]  # Belgium is two moves away


def test_unions_combine_changes_of_different_units():
    changes = [((1, 10), (2, 20)), ((2, 21),), ((3, 30),), ((4, 40),)]
    assert unions(changes, 9) == [((1, 10), (2, 20), (3, 30)), ((1, 10), (2, 20), (3, 30), (4, 40))]
    assert len(unions(changes, 1)) == 1


def test_fork_takes_rows_and_ends_others(batch):
    batch.reset()
    batch.draw_orders(3)
    batch.process()
    other = DiplomacyBatch(3, threads=1)
    other.fork(batch.state, torch.tensor([2, 0]))
    assert torch.equal(other.units[:2], batch.units[[2, 0]])
    assert other.done.tolist() == [0, 0, 1]
    other.close()
    batch.reset()


def test_name_states_settings():
    assert read_settings("search") == SearchSettings(seconds=0.1)
    assert read_settings("search:positions=4000,seed=3") == SearchSettings(positions=4000, seed=3)
    assert read_settings("search:opponents=chaos,seconds=2").opponents == "chaos"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("search:position=4", "unknown key of search.* 'position': .*did you mean 'positions'"),
        ("search:positions=9", r"positions=9 must be in \[100, 100000000\]"),
        ("search:seconds=fast", "seconds=fast is not a number"),
        ("search:seconds=1,positions=100", "two budgets; leave one out"),
        ("search:opponents=dumbbot+", "opponents is empty"),
        ("search:form=regrets", "unknown form 'regrets'.*did you mean 'regret'"),
        ("search:opponents=level1,positions=1000", "power, which takes positions=1400 or seconds=0.014 at least"),
        ("search:form=regret,seconds=0.01", "takes positions=1400"),
        ("search:form=regret,opponents=chaos+level1", "form=regret takes one bot as opponents, and no proposals"),
        ("search:proposals=", "proposals is empty"),
        ("search:seed", "give seed once, as in search:seed=VALUE"),
    ],
)
def test_wrong_settings_are_named(text, message):
    with pytest.raises(InputError, match=message):
        read_settings(text)


MODELS = ["opponents=level1+dumbbot", "opponents=chaos+defensive", "form=regret", "form=regret,opponents=chaos"]


@pytest.mark.parametrize("options", MODELS)
def test_models_and_forms_repeat_within_budget(batch, options):
    """Three games in parallel equal single ones, within the position budget."""
    batch.reset()
    settings = read_settings(f"search:positions=1500,seed=0,{options}")
    players = [SearchOrders(settings) for _ in range(3)]
    powers = torch.tensor([POWERS.index("FRANCE"), POWERS.index("TURKEY")])
    rows = torch.tensor([0, 1])
    first, again = (player.searched(batch, rows, powers) for player in players[:2])
    (alone,) = players[2].searched(batch, rows[1:], powers[1:])
    for one, other in zip([*first, first[1]], [*again, alone], strict=True):
        assert np.array_equal(one.orders, other.orders)
        assert (one.value, one.positions) == (other.value, other.positions)
    assert all(0 < game.positions <= 1500 for game in first)
    assert players[0].positions == sum(game.positions for game in first)
    for game, power in zip(first, powers, strict=True):
        own = (power_of(batch.units[0]) == power).numpy()
        assert (game.orders[own] > 0).all()
        assert not game.orders[~own].any()


class Fixed:
    """A player with fixed orders that counts its calls."""

    bot = ""

    def __init__(self, *texts):
        self.orders, self.asked = packed(*texts), 0

    def write(self, batch, seats):
        self.asked += 1
        assert not batch.orders.any()
        for place, order in self.orders.items():
            batch.orders[:, place] = order


def test_model_predicts_orders_of_others(batch):
    """One model leaves Munich, the other supports it: only the first attack is worthwhile."""
    units = {"FRANCE": "A RUH", "GERMANY": "A MUN, A BER"}
    place(batch, units, {"FRANCE": "PAR MAR BEL HOL KIE", "GERMANY": "MUN BER"}, phase=codes.FALL)
    leaves, stays = Fixed("A MUN - TYR", "A BER - PRU"), Fixed("A MUN H", "A BER S A MUN")
    seats = torch.zeros(4, 7, dtype=torch.bool)
    seats[0, POWERS.index("FRANCE")] = True
    found = {}
    for name, model in (("leaves", leaves), ("stays", stays)):
        batch.orders.zero_()
        batch.orders[0, find_location("MUN")] = packed("A MUN H")[find_location("MUN")]
        SearchOrders(SearchSettings(positions=2000, opponents=name), models={name: model}).write(batch, seats)
        found[name] = int(batch.orders[0, find_location("RUH")])
        assert model.asked == 1
        assert batch.orders[0, find_location("MUN")] == packed("A MUN H")[find_location("MUN")]
    batch.orders.zero_()
    attack = packed("A RUH - MUN")[find_location("RUH")]
    assert found["leaves"] == attack
    assert found["stays"] != attack


def test_models_are_sampled_by_belief(batch):
    """Of eight samples, six use one model for England and two the other; France always has the other."""
    batch.reset()
    names = {"a": Fixed("F LON H", "F BRE H"), "b": Fixed("F LON - ENG", "F BRE - ENG")}
    search = OrderSearch(SearchSettings(positions=4000, opponents="a+b", seed=0), last_year=1910)
    written = {}
    for name, model in names.items():
        batch.orders.zero_()
        model.write(batch, None)
        written[name] = batch.orders[:1].clone()
    batch.orders.zero_()
    shares = torch.tensor([0.5, 0.5], dtype=torch.float64).repeat(1, 7, 1)
    shares[0, 1], shares[0, 2] = torch.tensor([[0.75, 0.25], [0.0, 1.0]], dtype=torch.float64)
    state = {name: values[:1] for name, values in batch.state.items()}
    searched = [SearchedGame(None, None)]
    turn = SearchTurn(search, state, torch.tensor([0]), torch.tensor([0]), searched, 0.0)
    turn.sample(Hints(foretold=written, shares=shares), [batch.legal_orders(0)])
    for place, holding in (("LON", 6), ("BRE", 0)):
        orders = turn._others[0, :, find_location(place)].tolist()
        expected = [int(written[name][0, find_location(place)]) for name in "ab"]
        assert sorted(map(expected.index, orders)) == [0] * holding + [1] * (8 - holding)


def test_regret_matching_finds_better_candidate():
    """With fixed values of 1 and 0 for the candidates, nearly all draws are of the first."""
    row = np.zeros(75, np.int32)
    table = Table([distinct([(0.0, row), (1.0, row + 1), (0.5, row)]) for _ in range(7)], (1, 2))
    assert [len(rows) for rows in table.rows] == [2] * 7
    assert table.rows[0][0, 0] == 1  # the best of the search below comes first
    for _ in range(50):
        table.learn(np.tile([1.0, 0.0], 7) if len(table.joint()) == 14 else None)
    assert table.strategy(0).tolist() == [1.0, 0.0]
    assert table.sums[0] == pytest.approx([49.5, 0.5])
    choices = [table.choice() for _ in range(100)]
    assert sum(choice == (0, 1.0) for choice in choices) > 90
