"""Recording one game of a batch while other code plays it, and saving it with player names."""

import pytest
import torch

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.batch import DiplomacyBatch, opening
from sparring.envs.diplomacy.records.history import GameHistory, WatchedBatch
from sparring.envs.diplomacy.records.saved_game import load, load_players, read_players, save, write_game
from tests.envs.diplomacy.records.test_saved_game import PACKAGE, same


@pytest.fixture(scope="module")
def game():
    """Return game 2 of four to the end of 1903, after another one that must be dropped."""
    batch = WatchedBatch(4, watched=2, threads=1, last_year=1903)
    for _ in range(2):
        batch.reset()
        while not bool(batch.done.all()):
            batch.draw_orders(4)
            batch.process()
    yield batch.past()
    batch.close()


def test_watched_game_has_same_history(game):
    batch = DiplomacyBatch(4, threads=1, last_year=1903)
    history = GameHistory(batch)
    for _ in range(len(game) + 3):
        batch.draw_orders(4)
        history.process()
    assert int(game[-1].position["done"]) == 1
    assert same(game, history.game(2))
    batch.close()


def test_waiting_game_is_not_recorded():
    """`done` sets games aside while others retreat, as in the learner's table."""
    batch = WatchedBatch(1, threads=1)
    batch.done.fill_(1)
    batch.process()
    batch.done.zero_()
    assert len(batch.past()) == 1
    batch.process()
    assert torch.equal(batch.past()[0].position["units"], batch.units)
    assert len(batch.past()) == 2
    batch.close()


@pytest.mark.parametrize(
    ("change", "forgets"),
    [
        (lambda batch: batch.reset(), True),
        (lambda batch: batch.load(opening()), True),
        (lambda batch: batch.set_position(1, opening()), True),
        (lambda batch: batch.set_position(0, opening()), False),
        (lambda batch: batch.copy([0], torch.tensor([1])), True),
        (lambda batch: batch.copy([1, 1], [0, 2]), False),
        (lambda batch: batch.copy([1], [1]), False),
    ],
)
def test_recording_belongs_to_one_game(change, forgets):
    """A game that is set from outside has not come to where it is by what was played before; it can be saved all the
    same, which two games after one another cannot."""
    batch = WatchedBatch(3, watched=1, threads=1)
    for _ in range(2):
        batch.draw_orders(4)
        batch.process()
    change(batch)
    batch.draw_orders(5)
    batch.process()
    assert len(batch.past()) == (2 if forgets else 4)
    assert write_game(batch.past())
    batch.close()


def test_only_game_of_batch_can_be_watched():
    with pytest.raises(InputError, match=r"game=4: must be a whole number in \[0, 3\]"):
        WatchedBatch(4, watched=4, threads=1)


def test_known_players_are_saved_with_game(game, tmp_path):
    path = tmp_path / "game.json"
    names = ("dumbbot", "", 'a "b" \n', "dumbbot", "", "", "x")
    save(path, game, players=names)
    assert load_players(path) == names
    assert same(load(path), game)
    save(path, game)
    assert load_players(path) == ("",) * 7
    assert "players" not in write_game(game)
    assert read_players(PACKAGE) == ("",) * 7
