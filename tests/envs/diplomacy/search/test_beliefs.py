"""Beliefs of the search about other players: by hand, from games of known players, and in new games."""

import math

import numpy as np
import pytest
import torch

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, find_location
from sparring.envs.diplomacy.rollouts.games import play_to_end
from sparring.envs.diplomacy.search import beliefs, candidates
from sparring.envs.diplomacy.search.beliefs import Beliefs, described, picked
from sparring.envs.diplomacy.search.player import SearchOrders
from sparring.envs.diplomacy.search.settings import SearchSettings, read_settings, with_seed
from sparring.envs.diplomacy.training.opponents import open_player

FRANCE, ITALY = POWERS.index("FRANCE"), POWERS.index("ITALY")


def test_beliefs_match_hand_posterior():
    """Two candidates, priors 1/2 each; orders with probabilities 0.9 and 0.1 in one movement, 0.4 and 0.4 in the next.

    With temperature T the odds are (0.9 * 0.4 / (0.1 * 0.4)) ** (1 / T) = 9 ** (1 / T); of share 0.95 (floor 0.05).
    """
    believed, game = Beliefs(3, 2), torch.tensor([1])
    for one, other in ((0.9, 0.1), (0.4, 0.4)):
        evidence = torch.zeros(1, 7, 2, dtype=torch.float64)
        evidence[0, FRANCE] = torch.tensor([one, other]).log()
        believed.learn(game, evidence)
    odds = 9 ** (1 / beliefs.TEMPERATURE)
    shares = believed.shares(torch.arange(3))
    assert shares[1, FRANCE, 0] == pytest.approx(0.95 * odds / (1 + odds) + 0.05 / 2, abs=1e-6)
    assert shares[0].flatten().tolist() == shares[1, ITALY].repeat(7).tolist() == [0.5] * 14
    believed.forget(torch.tensor([False, True, False]))
    assert believed.shares(game)[0, FRANCE].tolist() == [0.5, 0.5]


def test_candidates_are_never_certain():
    believed = Beliefs(1, 4)
    believed.learn(torch.tensor([0]), torch.tensor([0.0, -1e6, -1e6, -1e6], dtype=torch.float64).expand(1, 7, 4))
    shares = believed.shares(torch.tensor([0]))[0]
    assert shares.min() == pytest.approx(beliefs.FLOOR * (1 - beliefs.FIRST) / 3)
    assert shares.sum(1).tolist() == pytest.approx([1.0] * 7)


def test_candidate_has_its_share_of_samples():
    shares = torch.tensor([0.25, 0.5, 0.25], dtype=torch.float64).expand(1, 7, 3)
    chosen = picked(shares, 8, torch.rand(1, 7, 9, generator=torch.Generator().manual_seed(1)))
    assert [sorted(power) for power in chosen[0].T.tolist()] == [[0, 0, 1, 1, 1, 1, 2, 2]] * 7
    assert len({tuple(power) for power in chosen[0].T.tolist()}) > 1  # powers do not go together


def test_order_share_matches_exact_probabilities(monkeypatch):
    """Chaos moves each unit uniformly: A VEN of 1901 has five moves, F NAP three, and a hold is an error."""
    monkeypatch.setattr(candidates, "DRAWS", 1000)
    search = SearchOrders(SearchSettings(positions=500, opponents="chaos+random", seed=0))
    batch = DiplomacyBatch(1, last_year=1910, threads=1)
    orders = np.zeros(75, np.int32)
    ven, nap, tyr = (find_location(name) for name in ("VEN", "NAP", "TYR"))
    orders[ven], orders[nap] = codes.pack(codes.MOVE, tyr), codes.HOLD
    state = {name: values.clone() for name, values in batch.state.items()}
    past = candidates.Movements(torch.tensor([0]), state, torch.from_numpy(orders).unsqueeze(0))
    found = search._opened(batch).candidates.log_likelihoods(past, torch.tensor([0]), 1)[0, ITALY, 0]
    moves = sum(order & codes.KIND_MASK == codes.MOVE for order in batch.legal_orders(0)[ven].tolist())
    error = candidates.ERROR / candidates.ORDERS
    rome = error  # A ROM got no order, which nobody gives
    expected = math.log((1 - candidates.ERROR) / moves + error) + math.log(error) + math.log(rome)
    assert float(found) == pytest.approx(expected, abs=0.1)
    batch.close()


NAMES = ["dumbbot", "chaos", "released/diplomacy_student", "dumbbot", "search:positions=100", "random", "territorial"]


def play(ids, seed=3):
    """Play to 1902 with a search as Italy among known players; return the batch and the search."""
    batch, players = DiplomacyBatch(len(ids), last_year=1902, threads=1), [open_player(name) for name in NAMES]
    batch.game_id.copy_(torch.tensor(ids))
    play_to_end(batch, list(zip(players, torch.eye(7).bool().split(1), strict=True)), seed=seed)
    return batch, players[ITALY]


@pytest.fixture(scope="module")
def played():
    batch, search = play([0, 1])
    yield batch, search
    batch.close()


def test_powers_are_identified_correctly(played):
    batch, search = played
    present = [search.beliefs(batch, game) for game in range(2)]
    for game in present:
        likeliest = [max(power, key=power.get) for power in game]
        right = sum(likely == name for likely, name in zip(likeliest, NAMES, strict=True))
        assert right >= 5, likeliest
        assert described(game, {4})[1].startswith("ENGLAND: ")


def test_game_depends_only_on_seed_of_its_bots(played):
    """The search's name has no seed, so the games' seed decides."""
    batch, search = played
    alone, again = play([1])
    assert again.seed == search.seed
    assert again.beliefs(alone, 0) == search.beliefs(batch, 1)
    assert torch.equal(alone.units[0], batch.units[1])
    alone.close()


def test_samples_of_candidates_depend_on_their_ids_only(played):
    batch, search = played
    batch.reset()
    drawing, ids = search._opened(batch).candidates, torch.arange(8).view(2, 4) * 100
    state = batch.snapshot()
    second = {name: values[1:] for name, values in state.items()}
    for number in range(len(drawing.names)):
        picks = torch.full((2, 4, 7), number)
        both, alone = drawing.draw(state, picks, ids, 5), drawing.draw(second, picks[1:], ids[1:], 5)
        assert torch.equal(both[1:], alone), drawing.names[number]
        assert (both > 0).sum(2).tolist() == [[22] * 4] * 2


def test_new_game_starts_without_knowledge(played):
    batch, search = played
    before = search.beliefs(batch, 0)
    batch.reset()
    search.write(batch, torch.arange(7).unsqueeze(0).expand(2, 7) == ITALY)
    after = search.beliefs(batch, 0)
    assert after != before
    assert [power["dumbbot"] for power in after] == pytest.approx([beliefs.FIRST] * 7)


def test_unseeded_search_has_secret_seed_revealed_later():
    first, second = (SearchOrders(SearchSettings(positions=200, opponents="chaos")) for _ in range(2))
    assert first.seed != second.seed
    first.reseed(7)
    assert first.seed == 7
    known = SearchOrders(SearchSettings(positions=200, opponents="chaos", seed=3))
    known.reseed(7)
    assert known.seed == 3
    assert read_settings(with_seed("search", 5)) == read_settings("search:seed=5")
    assert with_seed("search:positions=200,seed=3", 5) == "search:positions=200,seed=3"
    assert with_seed("released/diplomacy_search", 5) == "search:seconds=0.35,opponents=dumbbot,near=0,seed=5"


def test_attack_with_known_seed_predicts_every_order():
    """The attack's model orders what six searches of that seed order, in every movement of a year."""
    target = "search:positions=100,opponents=dumbbot,seed=4"
    attack, batch = open_player(f"exploit:{target}"), DiplomacyBatch(1, last_year=1901, threads=1)
    (model,) = attack._writers.values()
    foreseen, own = [], torch.arange(7).unsqueeze(0) == ITALY

    class Six:
        bot = "dumbbot"

        def __init__(self):
            self.player = open_player(target)

        def write(self, batch, seats):
            blank = batch.orders.clone()
            model.write(batch, seats)
            told = batch.orders.clone()
            batch.orders.copy_(blank)
            self.player.write(batch, seats)
            foreseen.append(torch.equal(told, batch.orders))

    play_to_end(batch, [(attack, own), (Six(), ~own)], seed=1)
    batch.close()
    assert len(foreseen) >= 2
    assert all(foreseen)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("search:opponents=dumbbot+nobody", "^search:opponents=nobody: unknown opponent .* choose from"),
        ("search:proposals=no_module:It", "^search:proposals=no_module:It: .*no_module"),
        ("search:opponents=tiny", "^search:opponents=tiny: "),
        (
            "search:opponents=released/dogfight_quickstart",
            "^search:opponents=released/dogfight_quickstart: .* plays sparring/Dogfight",
        ),
        ("exploit:", "name the player that the others are"),
        ("exploit:search:positions=1", r"positions=1 must be in \[100"),
    ],
)
def test_unknown_candidates_are_named(name, message):
    with pytest.raises(InputError, match=message):
        open_player(name)


def test_a_search_learns_among_models_without_a_bot():
    names = ("released/diplomacy_student", "stochastic:released/diplomacy_student")
    search = open_player(f"search:positions=100,seed=1,opponents={'+'.join(names)}")
    batch, own = DiplomacyBatch(1, last_year=1901, threads=1), torch.arange(7).unsqueeze(0) == ITALY
    play_to_end(batch, [(search, own), ("dumbbot", ~own)], seed=1)
    assert search.beliefs(batch, 0)[FRANCE][names[0]] < beliefs.FIRST  # a DumbBot does not order as the policy would
    batch.close()


def test_a_search_in_python_names_the_model_that_is_missing():
    with pytest.raises(InputError, match="opponents=released/diplomacy_student: missing in `models`"):
        SearchOrders(read_settings("search:positions=500"))
