"""Impossible positions are rejected without changes."""

import numpy as np
import pytest
import torch

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.batch import STATE, DiplomacyBatch, opening
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, standard_board
from sparring.envs.diplomacy.board.positions import check_position
from sparring.envs.diplomacy.interfaces.parallel_env import parallel_env
from sparring.envs.diplomacy.records.history import GameHistory
from sparring.envs.diplomacy.records.saved_game import read_game, write_game

PARIS = standard_board().provinces.index("PAR")
FRANCE = POWERS.index("FRANCE")


@pytest.fixture(scope="module")
def batch():
    games = DiplomacyBatch(2, threads=1)
    yield games
    games.close()


def number_at(name, place, value):
    """Return a change of a position: a number in one province, or of the game."""

    def change(state):
        state[name][(0, standard_board().provinces.index(place)) if place else 0] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.update(dislodged=state["dislodged"].numpy()), "dislodged: ndarray is not a tensor of"),
        (lambda state: state.update(done=[0]), "done: list is not a tensor of whole numbers"),
        (lambda state: state.update(winner=None), "winner: NoneType is not a tensor of whole numbers"),
        (lambda state: state.update(owner=state["owner"].double()), "owner: torch.float64 is not a tensor of whole"),
        (lambda state: state.update(year=state["year"] + 0.9), "year: torch.float32 is not a tensor of whole numbers"),
        (lambda state: state.update(phase=state["phase"].cfloat()), "phase: torch.complex64 is not a tensor of whole"),
        (lambda state: state.update(units=state["units"][0]), r"units: shape \(75,\) is not \(1, 75\)"),
        (lambda state: state.pop("owner"), "owner: missing from the position"),
        (number_at("units", "PAR", 30), r"units\[\d+\]=30: must be in \[0, 28\]"),
        (number_at("units", "NTH", 1), r"units\[\d+\] \(NTH\): an army cannot stand at sea"),
        (number_at("units", "PAR", 8), r"units\[\d+\] \(PAR\): no fleet of form 1 can stand there"),
        (number_at("units", "STP", 8), r"units\[\d+\] \(STP\): no fleet of form 1"),
        (number_at("units", "LON", 15), r"units\[\d+\] \(LON\): no fleet of form 2"),
        (number_at("origin", "LON", 78), r"origin\[\d+\]=78: must be in \[0, 77\]"),
        (number_at("dislodged", "LON", 1), r"dislodged\[\d+\] \(LON\): no unit has to retreat in spring"),
        (number_at("year", None, 1900), r"year=1900: must be in \[1901, 30000\]"),
        (number_at("phase", None, 5), r"phase=5: must be in \[0, 4\]"),
        (number_at("winner", None, 7), r"winner=7: must be in \[-1, 6\]"),
        (number_at("done", None, 2), r"done=2: must be in \[0, 1\]"),
    ],
)
def test_impossible_position_changes_nothing(batch, change, message):
    """The units, which are checked first, differ from the board and must not be loaded either."""
    batch.reset()
    batch.draw_orders(1)
    before = {field: getattr(batch, field).clone() for field in (*STATE, "orders")}
    state = opening()
    state["units"][0, PARIS] = 0
    change(state)
    with pytest.raises(InputError, match=message):
        batch.set_position(1, state)
    assert all(torch.equal(getattr(batch, field), values) for field, values in before.items())


@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.int16])
def test_integers_of_any_type_are_accepted(batch, kind):
    batch.set_position(1, {name: values.to(kind) for name, values in opening().items()})
    assert {name: getattr(batch, name).dtype for name in STATE} == {name: dtype for name, (_, dtype) in STATE.items()}
    assert torch.equal(batch.units[1:], opening()["units"])


@pytest.mark.parametrize("position", [None, 5, [opening()]])
def test_position_is_named_tensors(position):
    with pytest.raises(InputError, match=r"position=.*: give a snapshot of one game, tensors by name"):
        check_position(position)


def test_only_loaded_game_clears_orders_and_results(batch):
    batch.reset()
    for _ in range(2):
        batch.draw_orders(3)
        batch.process()
    batch.draw_orders(4)
    orders, results = batch.orders.clone(), batch.results.clone()
    assert orders.any(dim=1).all()
    assert results.any(dim=1).all()
    batch.set_position(1, opening())
    assert not batch.orders[1].any()
    assert not batch.results[1].any()
    assert torch.equal(batch.orders[0], orders[0])
    assert torch.equal(batch.results[0], results[0])


def test_loading_snapshot_clears_orders_of_all_games(batch):
    batch.reset()
    state = batch.snapshot()
    batch.draw_orders(0)
    assert batch.orders.any(dim=1).all()
    batch.load(state)
    assert not batch.orders.any()


def test_environment_rejects_start_after_end():
    env = parallel_env()
    with pytest.raises(InputError, match="position: the game is over; give one that goes on"):
        env.reset(options={"position": {**opening(), "done": torch.tensor([1])}})
    env.close()


@pytest.mark.parametrize("phase", codes.RETREATS)
def test_environment_rejects_retreats_without_dislodged_unit(phase):
    env = parallel_env()
    with pytest.raises(InputError, match=f"position: {codes.PHASES[phase]}, and no unit has to retreat"):
        env.reset(options={"position": {**opening(), "phase": torch.tensor([phase])}})
    env.close()


def test_game_won_after_retreats_round_trips(batch):
    """The phase stays the one in which it ended, and no unit must retreat any more."""
    state = won(18)
    state["phase"][:] = codes.FALL_RETREATS
    batch.set_position(1, state)
    game = read_game(write_game(GameHistory(batch).game(1)))
    assert {name: values.tolist() for name, values in game[0].position.items()} == {
        name: values.tolist() for name, values in state.items()
    }


def unit_at(field, code, value, game=1):
    """Return a change of a snapshot of two games: a number in one province of one."""

    def change(state):
        state[field][game, standard_board().provinces.index(code)] = value

    return change


def crowd(state):
    state["units"][1, standard_board().terrain != 2] = 1  # 56 armies of Austria on every land province


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.clear() or state.update(units=1), "units: int is not a tensor of whole numbers"),
        (lambda state: state.pop("origin"), "origin: missing from the position"),
        (lambda state: state.update(unit=state["units"]), "unknown field of a snapshot 'unit'.*did you mean 'units'"),
        (lambda state: state.update(units=torch.tensor(1)), r"units: shape \(\) is not \(1, 75\) or \(2, 75\)"),
        (lambda state: state.update(year=torch.tensor([1901] * 3)), r"year: shape \(3,\) is not \(1,\) or \(2,\)"),
        (lambda state: state.update(done=state["done"][:1]), "state: tensors of 1 and 2 games; give as many of each"),
        (unit_at("units", "PAR", 200), r"game 1: units\[46\]=200: must be in \[0, 28\]"),
        (unit_at("units", "PAR", 10), r"game 1: units\[46\] \(PAR\): no fleet of form 1 can stand there"),
        (unit_at("units", "NTH", 3, game=0), r"game 0: units\[43\] \(NTH\): an army cannot stand at sea"),
        (unit_at("dislodged", "PAR", 1), r"game 1: dislodged\[46\] \(PAR\): no unit has to retreat in spring"),
        (crowd, "game 1: units: .* of them; there are never more than 34"),
    ],
)
def test_impossible_snapshot_changes_nothing(batch, change, message):
    """An invalid unit number once reached the kernels, which then read out of bounds and crashed."""
    batch.reset()
    before, state = batch.snapshot(), batch.snapshot()
    state["year"] += 1
    change(state)
    with pytest.raises(InputError, match=message):
        batch.load(state)
    assert all(torch.equal(getattr(batch, field), values) for field, values in before.items())


def test_every_position_of_played_games_can_be_loaded(batch):
    """From spring to winter, retreats included: a batch accepts its own positions."""
    games = DiplomacyBatch(64, threads=1, last_year=1904)
    phases = set()
    while not bool(games.done.all()):
        games.draw_orders(5)
        games.process()
        phases |= set(games.phase.tolist())
        games.load(games.snapshot())
    assert phases == {codes.SPRING, codes.SPRING_RETREATS, codes.FALL, codes.FALL_RETREATS, codes.WINTER}
    games.close()


def won(held, winner=FRANCE, done=1):
    state = opening()
    state["owner"][:], state["winner"][:], state["done"][:] = -1, winner, done
    state["owner"][0, :held] = FRANCE
    return state


def test_winner_has_required_centres_and_ended_game(batch):
    batch.set_position(1, won(18))
    with pytest.raises(InputError, match="winner: FRANCE has 17 centres; it takes 18 to win"):
        batch.set_position(1, won(17))
    with pytest.raises(InputError, match="winner: TURKEY has 0 centres; it takes 18 to win"):
        batch.set_position(1, won(18, winner=6))
    with pytest.raises(InputError, match="winner: FRANCE, but done is not true"):
        batch.set_position(1, won(18, done=0))


def test_environment_rejects_start_already_won():
    env = parallel_env()
    env.reset()
    before = env.text()
    with pytest.raises(InputError, match="position: FRANCE has 18 centres and has won, but done and winner are not"):
        env.reset(options={"position": won(18, winner=-1, done=0)})
    assert env.text() == before
    env.close()


@pytest.mark.parametrize("game", [-1, 2])
def test_history_of_unknown_game_is_rejected(batch, game):
    history = GameHistory(batch)
    batch.reset()
    history.process()
    with pytest.raises(InputError, match=rf"game={game}: must be in \[0, 1\]"):
        history.game(game)


def test_board_without_units_continues_and_powers_build(batch):
    state = opening()
    state["units"][:] = 0
    batch.set_position(0, state)
    for _ in range(3):
        assert bool(batch.legal_orders(0)) == (int(batch.phase[0]) == codes.WINTER)
        batch.draw_orders(0)
        batch.process()
    batch.check()
    assert (int(batch.year[0]), int(batch.phase[0])) == (1902, codes.SPRING)
    assert np.count_nonzero(batch.units[0].numpy()) == 22


def test_last_year_ends_game():
    batch = DiplomacyBatch(1, threads=1, last_year=30_000)
    batch.set_position(0, {**opening(), "year": torch.tensor([30_000]), "phase": torch.tensor([codes.WINTER])})
    batch.process()
    assert (int(batch.year[0]), bool(batch.done[0]), int(batch.winner[0])) == (30_000, True, -1)
    batch.close()
