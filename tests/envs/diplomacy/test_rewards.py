"""Rewards against sums done by hand."""

import numpy as np
import pytest

from configs.names import UnknownNameError
from envs.diplomacy import codes, rewards
from envs.diplomacy.board import POWERS, standard_board
from envs.diplomacy.notation import read_unit
from envs.diplomacy.scorer import Scorer, reward_weights

BOARD = standard_board()
NOBODY = np.array([-1], dtype=np.int8)


def units_of(**held):
    units = np.zeros((1, 75), dtype=np.uint8)
    for power, names in held.items():
        for name in names.split(", "):
            province, code = read_unit(name, number_of(power))
            units[0, province] = code
    return units


def number_of(name):
    return POWERS.index(name.upper())


def owners(**held):
    owner = np.full((1, 34), -1, dtype=np.int8)
    for power, names in held.items():
        owner[0, [BOARD.centre_of[BOARD.provinces.index(name)] for name in names.split()]] = number_of(power)
    return owner


THREE = owners(austria="BUD VIE TRI", france="PAR", italy="ROM NAP")


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (rewards.sum_of_squares, [9 / 14, 0, 1 / 14, 0, 4 / 14, 0, 0]),
        (rewards.draw_size, [1 / 3, 0, 1 / 3, 0, 1 / 3, 0, 0]),
        (rewards.centres, [3 / 34, 0, 1 / 34, 0, 2 / 34, 0, 0]),
        (rewards.solo, [0] * 7),
    ],
)
def test_final_scores_of_a_draw(score, expected):
    np.testing.assert_allclose(score(THREE, NOBODY)[0], expected)
    if score not in (rewards.centres, rewards.solo):
        assert score(THREE, NOBODY).sum() == pytest.approx(1.0)


def test_a_solo_takes_all():
    for name, score in rewards.FINAL.items():
        found = score(np.repeat(THREE, 2, axis=0), np.array([-1, 2]))
        np.testing.assert_allclose(found[0], score(THREE, NOBODY)[0])
        if name != "centres":
            assert found[1].tolist() == [0, 0, 1, 0, 0, 0, 0]


def test_nobody_owning_anything_is_no_division_by_zero():
    nothing = np.full((1, 34), -1)
    assert all(not score(nothing, NOBODY).any() for score in rewards.FINAL.values())


def test_standing_by_hand():
    units = units_of(austria="A VIE, A TYR, F ADR", italy="A VEN, F ION")
    owner = owners(austria="VIE BUD TRI", italy="VEN NAP TUN", france="PAR")
    # Austria: 3 centres, 3 units, 2 abroad, Trieste threatened from Venice. Italy: 3 centres, 2 units, 1 abroad; Venice
    # is threatened by Tyrolia and by the Adriatic, and counts once; its own fleet threatens nobody.
    found = rewards.standing(units, owner)[0]
    np.testing.assert_allclose(found[[0, 2, 4]], [6 + 0.9 + 0.2 - 0.3, 2.0, 6 + 0.6 + 0.1 - 0.3])


def test_strategic_standing_by_hand():
    units = units_of(austria="A VIE", italy="A VEN")
    owner = owners(austria="VIE BUD", italy="VEN NAP ROM TUN", turkey="CON ANK SMY BUL")
    found = rewards.strategic_standing(units, owner)[0]
    balance = 1 - np.std([2, 4, 4]) / np.mean([2, 4, 4])
    assert rewards.balance(rewards.count_centres(owner).astype(float))[0] == pytest.approx(balance)
    np.testing.assert_allclose(found[0], 0.5 + 0.5 - 0.3 * 2 + 0.5 * balance)
    np.testing.assert_allclose(found[[4, 6]], [0.5 + 0.5 + 2.0, 0.5 + 2.0])
    np.testing.assert_allclose(found[1], 0.5 - 0.3 * 4 + 0.5 * balance)


def test_balance_is_never_below_zero():
    held = np.array([[30.0, 1, 1, 1, 1, 0, 0]])
    assert rewards.balance(held).tolist() == [0.0]
    assert rewards.balance(np.zeros((1, 7))).tolist() == [1.0]


@pytest.mark.parametrize(
    ("unit", "there", "expected"),
    [("A VEN", "TRI", 1), ("F VEN", "TRI", 1), ("F ROM", "VEN", 0), ("F SPA/NC", "MAR", 0), ("F SPA/SC", "MAR", 1)],
)
def test_threats_are_moves_the_unit_could_make(unit, there, expected):
    units, owner = units_of(italy=unit), owners(france=there)
    assert rewards.tactical(units, owner)[0, 2] == pytest.approx(-0.3 * expected)


def test_events_by_hand():
    before = units_of(france="A BUR, A RUH", germany="A MUN, A BER")
    after = units_of(france="A MUN, A RUH", germany="A BER")
    results = np.zeros((1, 75), dtype=np.uint8)
    results[0, BOARD.provinces.index("MUN")] = codes.DONE + codes.DISLODGED_FLAG
    results[0, BOARD.provinces.index("BUR")] = codes.DONE
    influence = rewards.first_influence(before)
    assert influence[0, BOARD.provinces.index("LON")] == 1
    # France dislodged one and has Munich for the first time; Germany lost one; Burgundy stays France's.
    found = rewards.events(before, after, results, influence)[0]
    np.testing.assert_allclose(found, [0, 0, 0.7, -0.5, 0, 0, 0])
    again = rewards.influence_after(influence, after)
    assert rewards.events(after, after, np.zeros_like(results), again).tolist() == [[0.0] * 7]


def rows(units, owner, done=0, winner=-1):
    return {
        "units": units[0],
        "owner": owner[0],
        "done": np.array(done, dtype=np.uint8),
        "winner": np.array(winner, dtype=np.int8),
    }


def test_the_scorer_adds_terms_and_pays_final_scores_once():
    units, owner = units_of(france="A PAR"), owners(france="PAR")
    more = owners(france="PAR BRE")
    scorer = Scorer(reward_weights({"dense": 0.5, "sum_of_squares": 10.0}))
    scorer.begin(rows(units, owner))
    quiet = np.zeros(75, dtype=np.uint8)
    assert scorer.score(rows(units, owner), rows(units, more), quiet).tolist() == [0, 0, 1.0, 0, 0, 0, 0]
    assert scorer.score(rows(units, more), rows(units, more, 1), quiet).tolist() == [0, 0, 10.0, 0, 0, 0, 0]


def test_reward_terms_are_checked():
    assert reward_weights("solo") == {"solo": 1.0}
    with pytest.raises(UnknownNameError, match=r"unknown reward 'sum_of_square'.*did you mean 'sum_of_squares'"):
        reward_weights("sum_of_square")
    with pytest.raises(ValueError, match=r"reward\['dense'\]=nan: give a finite number"):
        reward_weights({"dense": float("nan")})
