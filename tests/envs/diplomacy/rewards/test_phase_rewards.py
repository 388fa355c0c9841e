"""Rewards against hand calculations."""

import numpy as np
import pytest
import torch

from sparring.configs.core.errors import UnknownNameError
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, standard_board
from sparring.envs.diplomacy.orders.notation import read_unit
from sparring.envs.diplomacy.rewards import scoring
from sparring.envs.diplomacy.rewards.scoring import Scorer, reward_weights

BOARD = standard_board()


def units_of(**held):
    units = torch.zeros((1, 75), dtype=torch.uint8)
    for power, names in held.items():
        for name in names.split(", "):
            province, code = read_unit(name, number_of(power))
            units[0, province] = code
    return units


def number_of(name):
    return POWERS.index(name.upper())


def owners(**held):
    owner = torch.full((1, 34), -1, dtype=torch.int8)
    for power, names in held.items():
        owner[0, [BOARD.centre_of[BOARD.provinces.index(name)] for name in names.split()]] = number_of(power)
    return owner


def test_standing_by_hand():
    units = units_of(austria="A VIE, A TYR, F ADR", italy="A VEN, F ION")
    owner = owners(austria="VIE BUD TRI", italy="VEN NAP TUN", france="PAR")
    # Austria: 3 centres, 3 units, 2 abroad, Trieste threatened from Venice. Italy: 3 centres, 2 units, 1 abroad; Venice
    # is threatened by Tyrolia and by the Adriatic, and counts once; its own fleet threatens no centre.
    found = scoring.standing(units, owner)[0]
    np.testing.assert_allclose(found[[0, 2, 4]], [6 + 0.9 + 0.2 - 0.3, 2.0, 6 + 0.6 + 0.1 - 0.3])


def test_strategic_standing_by_hand():
    units = units_of(austria="A VIE", italy="A VEN")
    owner = owners(austria="VIE BUD", italy="VEN NAP ROM TUN", turkey="CON ANK SMY BUL")
    found = scoring.strategic_standing(units, owner)[0]
    balance = 1 - np.std([2, 4, 4]) / np.mean([2, 4, 4])
    assert scoring.balance(owner).tolist() == pytest.approx([balance])
    assert scoring.centres_behind(owner).tolist() == [[2, 4, 4, 4, 0, 4, 0]]
    np.testing.assert_allclose(found[0], 0.5 + 0.5 - 0.3 * 2 + 0.5 * balance)
    np.testing.assert_allclose(found[[4, 6]], [0.5 + 0.5 + 2.0, 0.5 + 2.0])
    np.testing.assert_allclose(found[1], 0.5 - 0.3 * 4)  # without a centre there is no part in the balance


def test_balance_is_never_negative():
    uneven = torch.tensor([[0] * 30 + [1, 2, 3, 4]])
    assert scoring.balance(uneven).tolist() == [0.0]
    assert scoring.balance(torch.full((1, 34), -1)).tolist() == [1.0]


@pytest.mark.parametrize(
    ("unit", "there", "expected"),
    [
        *(("A VEN", "TRI", 1), ("F VEN", "TRI", 1), ("F ROM", "VEN", 1), ("F SPA/NC", "MAR", 1)),
        *(("F ADR", "VIE", 0), ("A PAR", "MAR", 0), ("F NTH", "HOL", 1)),
    ],
)
def test_adjacent_unit_threatens_centre_even_if_it_cannot_enter(unit, there, expected):
    units, owner = units_of(italy=unit), owners(france=there)
    assert scoring.tactical(units, owner)[0, 2] == pytest.approx(-0.3 * expected)


def test_events_by_hand():
    before = units_of(france="A BUR, A RUH", germany="A MUN, A BER")
    after = units_of(france="A MUN, A RUH", germany="A BER")
    results = torch.zeros((1, 75), dtype=torch.uint8)
    results[0, BOARD.provinces.index("MUN")] = codes.DONE + codes.DISLODGED_FLAG
    results[0, BOARD.provinces.index("BUR")] = codes.DONE
    influence = scoring.first_influence(before)
    assert influence[0, BOARD.provinces.index("LON")] == 1
    # France dislodged one and has Munich for the first time; Germany lost one; Burgundy stays France's.
    position = state(before, owners())
    found = scoring.events(position, after, results, influence)[0]
    np.testing.assert_allclose(found, [0, 0, 0.7, -0.5, 0, 0, 0])
    again = scoring.influence_after(influence, position, after)
    assert scoring.events(state(after, owners()), after, torch.zeros_like(results), again).tolist() == [[0.0] * 7]


def state(units, owner, done=0, phase=codes.SPRING):
    done, phase = torch.tensor([done], dtype=torch.uint8), torch.tensor([phase], dtype=torch.int8)
    return {"units": units, "owner": owner, "done": done, "phase": phase}


def test_rebuilt_unit_adds_influence_only_after_moving():
    """A German army passed through Paris; France builds there, holds and leaves, and another army returns."""
    positions = [units_of(france=army, germany="A GAS") for army in ("A MAR", "A PAR", "A PAR", "A BUR", "A PAR")]
    phases = [codes.WINTER, codes.SPRING, codes.FALL, codes.SPRING]
    paris, influence = BOARD.provinces.index("PAR"), scoring.first_influence(positions[0])
    influence[0, paris] = number_of("germany")
    earned, holders = [], []
    for before, after, phase in zip(positions[:-1], positions[1:], phases, strict=True):
        position = state(before, owners(), phase=phase)
        earned.append(scoring.events(position, after, QUIET, influence)[0, 2].item())
        influence = scoring.influence_after(influence, position, after)
        holders.append(influence[0, paris].item())
    assert earned == pytest.approx([0.0, 0.0, 0.2, 0.2])  # Burgundy is new, then Paris
    assert holders == [3, 3, 3, 2]


QUIET = torch.zeros((1, 75), dtype=torch.uint8)


def test_scorer_adds_terms_and_pays_final_scores_once():
    units, owner = units_of(france="A PAR"), owners(france="PAR")
    more = owners(france="PAR BRE")
    scorer = Scorer(reward_weights({"dense": 0.5, "sum_of_squares": 10.0}))
    scorer.begin(state(units, owner))
    assert scorer.score(state(units, owner), state(units, more), QUIET).tolist() == [[0, 0, 1.0, 0, 0, 0, 0]]
    assert scorer.score(state(units, more), state(units, more, 1), QUIET).tolist() == [[0, 0, 10.0, 0, 0, 0, 0]]
    assert not scorer.score(state(units, more, 1), state(units, more, 1), QUIET).any()


def test_finished_game_earns_nothing_beside_running_one():
    before = units_of(france="A BUR, A RUH", germany="A MUN")
    after = units_of(france="A MUN, A RUH")
    results = QUIET.clone()
    results[0, BOARD.provinces.index("MUN")] = codes.DONE + codes.DISLODGED_FLAG
    owner = owners(france="PAR", germany="MUN")
    pair = [torch.cat([rows, rows]) for rows in (before, after, owner, results)]
    done = torch.tensor([0, 1], dtype=torch.uint8)
    spring = torch.zeros(2, dtype=torch.int8)
    games = [{"units": units, "owner": pair[2], "done": done, "phase": spring} for units in pair[:2]]
    influence = scoring.first_influence(pair[0])
    # France dislodged one, has a province more, and threatens Munich from within as before; Germany lost its unit.
    found = scoring.step_rewards(*games, pair[3], influence)
    assert found[0].tolist() == pytest.approx([0, 0, 0.5 + 0.2, -0.5 - 0.3, 0, 0, 0])
    assert found[1].tolist() == [0.0] * 7
    assert found.dtype == torch.float64


def test_batch_scores_equal_single_scores():
    batch = DiplomacyBatch(7, last_year=1902, threads=1)
    weights = reward_weights({"dense": 1.0, "strategic": 0.5, "sum_of_squares": 10.0})
    together, alone = Scorer(weights), [Scorer(weights) for _ in range(7)]
    for scorer, game in [(together, slice(None)), *((scorer, slice(i, i + 1)) for i, scorer in enumerate(alone))]:
        scorer.begin({name: rows[game] for name, rows in batch.state.items()})
    while not batch.done.all():
        before = batch.snapshot()
        batch.draw_orders(1)
        batch.process()
        found = together.score(before, batch.state, batch.results)
        for game, scorer in enumerate(alone):
            one = [{name: rows[game : game + 1] for name, rows in state.items()} for state in (before, batch.state)]
            assert torch.equal(scorer.score(*one, batch.results[game : game + 1]), found[game : game + 1])
    assert found.abs().sum() > 1.0
    batch.close()


def test_step_rewards_of_both_kinds_by_hand():
    before, after = units_of(france="A PAR"), units_of(france="A PAR, F BRE")
    owner, more = owners(france="PAR BRE", italy="ROM"), owners(france="PAR BRE", italy="ROM NAP VEN")
    games = state(before, owner), state(after, more)
    influence = scoring.first_influence(before)
    # A unit and no centre for France; two centres for Italy.
    dense = scoring.step_rewards(*games, QUIET, influence)[0]
    assert dense.tolist() == pytest.approx([0, 0, 0.3, 0, 4.0, 0, 0])
    # France led by 2 to 1 and is 1 behind; the others were 2 behind, with no part in the balance, which was
    # 1 - 0.5 / 1.5 and is 1 - 0.5 / 2.5.
    strategic = scoring.step_rewards(*games, QUIET, influence, strategic=True)[0]
    others = -0.3
    france, italy = 0.5 - 0.3 + 0.5 * 0.8 - 2.0, 2.0 + 0.3 - 0.5 * (2 / 3)
    assert strategic.tolist() == pytest.approx([others, others, france, others, italy, others, others])


def test_reward_terms_are_validated():
    assert reward_weights("solo") == {"solo": 1.0}
    with pytest.raises(UnknownNameError, match=r"unknown reward 'sum_of_square'.*did you mean 'sum_of_squares'"):
        reward_weights("sum_of_square")
    with pytest.raises(ValueError, match=r"reward\['dense'\]=nan: give a finite number"):
        reward_weights({"dense": float("nan")})
