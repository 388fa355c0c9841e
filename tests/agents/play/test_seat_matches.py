"""Matches of imported games: balanced seats, memory per episode, and results."""

import numpy as np
import pytest
import torch

from sparring.agents.play import seat_matches
from sparring.agents.play.seat_matches import play, results_of, usual_batch_size
from sparring.configs.core.errors import InputError
from sparring.envs.imported.training.opponents import open_seat_player
from tests.agents.play.toy_matches import ToyBatch


def highest(obs, mask):
    return np.where(mask, np.arange(3), -1).argmax(1)


def lowest(obs, mask):
    return mask.argmax(1)


class Counter:
    """Count the decisions of an episode in memory, and check them against the episode's length."""

    name, memory_size = "counter", 1

    def __init__(self, seats):
        self.seats, self.seen = seats, []

    def reseed(self, seed):
        self.seed = seed

    def act(self, obs, memory):
        assert torch.equal(memory[:, 0], torch.div(obs[:, 0], self.seats, rounding_mode="floor"))
        self.seen.append(obs[:, 1].unique().tolist())
        return torch.tensor(lowest(None, (obs[:, 2:] > 0).numpy())).float().unsqueeze(1), memory + 1


@pytest.mark.parametrize("seats", [2, 3])
def test_player_takes_every_seat_equally_and_better_one_wins(seats):
    batch = ToyBatch(4, seats)
    players = [open_seat_player(x, batch.contract) for x in (highest, lowest)]
    results = play(batch, tuple(players), games=6 * seats, seed=0)
    assert np.bincount(results.seat).tolist() == [6] * seats
    assert results.win_rate == 1.0
    assert results.by_seat == [(6, 0, 0)] * seats
    assert (results.reward == results.rewards.max(1)).all()
    np.testing.assert_array_equal(results.length, 2 * seats + np.arange(6 * seats) % 4 % 3)
    swapped = play(ToyBatch(4, seats), tuple(players[::-1]), games=6 * seats, seed=0)
    assert swapped.by_seat == [(0, 0, 6)] * seats


def test_memory_resets_each_episode_and_is_per_player():
    batch, player, opponent = ToyBatch(5, 3), Counter(3), Counter(3)
    play(batch, (player, opponent), games=30, seed=4)
    assert player.seed, opponent.seed == (8, 9)
    assert {seat for seen in player.seen for seat in seen} == {0.0, 1.0, 2.0}


def test_random_games_repeat_by_seed():
    results = []
    for seed in (1, 1, 2):
        batch = ToyBatch(8)
        players = [open_seat_player("random", batch.contract) for _ in range(2)]
        results.append(play(batch, tuple(players), games=40, seed=seed))
    np.testing.assert_array_equal(results[0].rewards, results[1].rewards)
    assert (results[0].rewards != results[2].rewards).any()
    assert results[0].distinct > 35


def test_deterministic_players_play_few_distinct_games():
    batch = ToyBatch(3)
    players = tuple(open_seat_player(x, batch.contract) for x in (lowest, lowest))
    assert play(batch, players, games=12, seed=0).distinct == 6  # three lengths from both seats
    assert usual_batch_size(12) == 12


def test_outcomes_are_counted_per_seat():
    outcome, seat = torch.tensor([0, 1, 2, 3, 4, 6]), torch.tensor([0, 0, 0, 0, 2, 0])
    assert results_of(outcome, seat).tolist() == [0, 1, -1, 0, 1, -1]


def test_endless_match_is_rejected(monkeypatch):
    """ToyBatch's matches of two seats have at most 6 moves."""
    batch = ToyBatch(4)
    players = tuple(open_seat_player("random", batch.contract) for _ in range(2))
    monkeypatch.setattr(seat_matches, "LONGEST_GAME", 6)
    play(batch, players, games=12, seed=0)
    monkeypatch.setattr(seat_matches, "LONGEST_GAME", 5)
    with pytest.raises(InputError, match="a match did not end within 5 moves; let the game end, or set a limit"):
        play(batch, players, games=12, seed=0)


def test_number_of_games_must_be_multiple_of_seats():
    batch = ToyBatch(2, 3)
    with pytest.raises(ValueError, match="games=4: must be a multiple of 3"):
        play(batch, (Counter(3), Counter(3)), games=4, seed=0)
