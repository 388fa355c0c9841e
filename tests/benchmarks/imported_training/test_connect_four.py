"""Connect four by search, against PettingZoo's rules and a plain search."""

import numpy as np
import pytest
import torch

from benchmarks.imported_training.connect_four import (
    COLUMNS,
    Searcher,
    SearchPlayer,
    drop,
    has_four,
    legal_columns,
    observation,
    optimal_moves,
    positions,
    shares,
    sides,
)


def test_rules_are_those_of_pettingzoo():
    module = pytest.importorskip("pettingzoo.classic.connect_four_v3")
    env, random = module.env(), np.random.default_rng(0)
    ends = []
    for game in range(30):
        env.reset(seed=game)
        own = other = 0
        while True:
            shown, reward, over, _, _ = env.last()
            if over:
                break
            assert sides(shown["observation"].ravel()) == (own, other)
            assert np.array_equal(observation(own, other), shown["observation"].ravel())
            assert sorted(legal_columns(own | other)) == np.flatnonzero(shown["action_mask"]).tolist()
            column = int(random.choice(legal_columns(own | other)))
            env.step(column)
            own, other = other, own | drop(own | other, column)
        assert (reward == -1) == has_four(other)
        ends.append(reward)
    assert -1 in ends


def plain_value(own, other):
    moves = [drop(own | other, column) for column in legal_columns(own | other)]
    if any(has_four(own | move) for move in moves):
        return 1
    return max((-plain_value(other, own | move) for move in moves), default=0)


def test_values_are_those_of_a_plain_search():
    search, boards = Searcher(), positions(7, seed=1)
    seen = set()
    for _ in range(40):
        own, other = next(boards)
        for column, value in search.moves(own, other, 7).items():
            after = own | drop(own | other, column)
            assert value == (1 if has_four(after) else -plain_value(other, after))
            seen.add(value)
    assert seen == {-1, 0, 1}


def test_a_player_takes_its_win_and_prevents_the_others():
    three = sum(1 << height for height in range(3))  # three cells of the first column
    elsewhere = 1 << 14 | 1 << 28 | 1 << 42
    boards = np.stack([observation(three, elsewhere), observation(elsewhere, three)])
    assert SearchPlayer().act(boards, np.ones((2, COLUMNS), dtype=bool)).tolist() == [0, 0]


class Perfect:
    memory_size = 0

    def act(self, obs, memory):
        search = Searcher()
        chosen = []
        for row in obs.numpy():
            values = search.moves(*sides(row[:84]), 10)
            chosen.append(max(values, key=values.get))
        return torch.tensor(chosen).unsqueeze(1), memory


def test_perfect_play_keeps_every_value():
    hits, chance = shares(Perfect(), 10, 10, seed=2)
    boards, kept = optimal_moves(10, 10, seed=2)
    assert hits == 10
    assert 0.1 < chance < 0.9
    assert all(best < set(legal_columns(own | other)) for (own, other), best in zip(boards, kept, strict=True))
