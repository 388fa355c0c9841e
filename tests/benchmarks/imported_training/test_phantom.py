"""Phantom games: rows and rules against OpenSpiel, and 2x2 values against a plain search of histories."""

import shutil

import numpy as np
import pytest
import torch

from benchmarks.imported_training import phantom
from benchmarks.imported_training.phantom import GAMES, PhantomGame, information_states, moves_of, winning_sets
from sparring.configs.core.errors import InputError

CELLS = 0b000011011
"""A square, on which nobody can win."""
LINE = 0b000010111
"""The first row and the centre: wins for both in tic-tac-toe, and for the second player in dark hex."""
LANES = 2
"""Policies that are evaluated at once."""


def played(history, player):
    """Return a player's sequence as a number, from (player, cell, taken) moves."""
    key = 0
    for who, cell, taken in history:
        if who == player:
            key = key << 5 | (cell + 1) << 1 | taken
    return key


@pytest.mark.parametrize(("game", "version"), [(game, name) for game in GAMES for name in ("classical", "abrupt")])
def test_rows_match_openspiel(game, version):
    pyspiel = pytest.importorskip("pyspiel")
    names = {"phantom_ttt": version, "dark_hex": {"classical": "cdh", "abrupt": "adh"}[version]}
    size = {"board_size": 3} if game == "dark_hex" else {}
    spiel = pyspiel.load_game(game, {"gameversion": names[game], **size})
    wins, random = winning_sets(game), np.random.default_rng(0)
    for _ in range(12):
        state, history, stones = spiel.new_initial_state(), [], [0, 0]
        while not state.is_terminal():
            player = state.current_player()
            keys = np.array([played(history, player)], dtype=np.uint64)
            assert np.array_equal(information_states(game, player, keys)[0], state.information_state_tensor(player))
            cell = int(random.choice(state.legal_actions()))
            taken = not stones[1 - player] >> cell & 1
            stones[player] |= taken << cell
            history.append((player, cell, taken))
            state.apply_action(cell)
            assert state.is_terminal() == bool(wins[player, stones[player]] or stones[0] | stones[1] == 511)
        assert int(wins[0, stones[0]]) - int(wins[1, stones[1]]) == state.returns()[0]


class Plain:
    """Plain search of histories; policies map sequences to probabilities of cells."""

    def __init__(self, game, abrupt, cells, policies):
        self.wins, self.abrupt, self.cells, self.policies = winning_sets(game), abrupt, cells, policies

    def leaves(self, stones=(0, 0), tried=(0, 0), keys=(0, 0), p=0, plays=()):
        """Yield every history: its decisions (player, sequence, cell), and the first player's return."""
        for cell in range(9):
            if not self.cells & ~tried[p] & 1 << cell:
                continue
            taken = not stones[1 - p] >> cell & 1
            now, seen, known = list(stones), list(tried), list(keys)
            now[p] |= taken << cell
            seen[p] |= 1 << cell
            known[p] = keys[p] << 5 | (cell + 1) << 1 | taken
            made = (*plays, (p, keys[p], cell))
            if self.wins[p, now[p]]:
                yield made, 1 - 2 * p
            elif now[0] | now[1] == self.cells:
                yield made, 0
            else:
                after = 1 - p if taken or self.abrupt else p
                yield from self.leaves(now, seen, known, after, made)

    def reached(self, plays, players):
        return np.prod([self.policies[p][key][cell] for p, key, cell in plays if p in players])

    def value(self):
        return sum(self.reached(plays, (0, 1)) * won for plays, won in self.leaves())

    def response(self, player):
        """Return the value of a best response, from the player's longest sequences to the empty one."""
        sums = {}
        for plays, won in self.leaves():
            own = [(key, cell) for p, key, cell in plays if p == player]
            weight = self.reached(plays, (1 - player,)) * (won if player == 0 else -won)
            if own:
                sums.setdefault(own[-1][0], {}).setdefault(own[-1][1], 0.0)
                sums[own[-1][0]][own[-1][1]] += weight
            for key, cell in own:
                sums.setdefault(key, {}).setdefault(cell, 0.0)
        for key in sorted(sums, reverse=True):
            if key:
                sums[key >> 5][(key & 31) // 2 - 1] += max(sums[key].values())
        return max(sums[0].values())


def test_missing_compiler_gives_one_line_fix(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(InputError, match=r"^no C\+\+ compiler: install g\+\+, or name one in .* CXX$"):
        PhantomGame("phantom_ttt", abrupt=False, cells=CELLS, flags=("-O1",))


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize("game", GAMES)
def test_values_match_plain_search(game):
    random = np.random.default_rng(1)
    for abrupt, cells in ((False, CELLS), (True, LINE)):
        tree = PhantomGame(game, abrupt=abrupt, cells=cells, lanes=LANES, flags=("-O0",))
        tables, policies = [], [[] for _ in range(LANES)]
        for player in (0, 1):
            keys, legal = tree.sequences(player)
            table = random.random((*legal.shape, LANES)) * legal[..., None]
            table /= table.sum(1, keepdims=True)
            for lane, policy in enumerate(policies):
                policy.append(dict(zip(keys.tolist(), table[..., lane].copy(), strict=True)))
            tables.append(table)
        found = tree.evaluate(tables)
        tree.close()
        assert len(found) == LANES
        for values, policy in zip(found, policies, strict=True):
            plain = Plain(game, abrupt, cells, policy)
            assert values.first == pytest.approx(plain.value(), abs=1e-12)
            assert values.responses == pytest.approx([plain.response(player) for player in (0, 1)], abs=1e-12)
            assert values.exploitability >= 0


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize("game", GAMES)
def test_set_policy_values_match_plain_search(game):
    """Probabilities differ for each pair of a player's stones and tried cells."""
    for abrupt, cells in ((False, LINE), (True, CELLS)):
        chances = phantom.uniform_chances(cells) * np.random.default_rng(cells).random((2, 512, 512, 9))
        chances /= np.maximum(chances.sum(3, keepdims=True), 1e-300)
        tree = PhantomGame(game, abrupt=abrupt, cells=cells, flags=("-O0",))
        policies = []
        for player in (0, 1):
            keys, legal = tree.sequences(player)
            moved, placed = moves_of(keys)
            bits = np.where(moved >= 0, 1 << np.maximum(moved, 0), 0)
            table = chances[player, (bits * placed).sum(1), bits.sum(1)]
            assert np.array_equal(table > 0, legal)
            policies.append(dict(zip(keys.tolist(), table, strict=True)))
        tree.close()
        plain = Plain(game, abrupt, cells, policies)
        values = phantom.values_of_sets(game, chances, abrupt=abrupt, cells=cells, flags=("-O0",))
        assert values.first == pytest.approx(plain.value(), abs=1e-12)
        assert values.responses == pytest.approx([plain.response(player) for player in (0, 1)], abs=1e-12)


def test_wrong_table_size_is_rejected_before_reading():
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    tree = PhantomGame("phantom_ttt", abrupt=False, cells=CELLS, lanes=LANES, flags=("-O0",))
    tables = [np.zeros((len(tree.sequences(player)[0]), 9, 1)) for player in (0, 1)]
    with pytest.raises(ValueError, match=r"must be contiguous float64 .* 2\), not float64 .* 1\)"):
        tree.evaluate(tables)
    tree.close()


def test_sequence_is_read_in_order():
    cells, taken = moves_of(np.array([0, (3 << 1 | 1) << 5 | 9 << 1], dtype=np.uint64))
    assert cells[:, :3].tolist() == [[-1, -1, -1], [2, 8, -1]]
    assert taken[1, :2].tolist() == [True, False]


@pytest.mark.parametrize(("gib", "abrupt", "lanes"), [(20, False, 4), (20, True, 1), (24, True, 2), (48, True, 4)])
def test_policies_per_batch_fit_available_memory(monkeypatch, gib, abrupt, lanes):
    monkeypatch.setattr("sparring.agents.ppo.rollout.memory_bytes", lambda: gib * 2**30)
    assert phantom.lanes_that_fit(abrupt=abrupt) == lanes


def test_too_little_memory_is_reported(monkeypatch):
    monkeypatch.setattr("sparring.agents.ppo.rollout.memory_bytes", lambda: 8 * 2**30)
    with pytest.raises(InputError, match="the game takes 10 GiB, and 6 may be used here"):
        phantom.lanes_that_fit(abrupt=True)


def test_network_table_has_probabilities_of_legal_cells():
    """Each lane is independent of the others."""

    class Leaning:
        def log_probabilities(self, rows):
            return (torch.log_softmax(torch.arange(9.0).expand(len(rows), 9), dim=1),)

    legal = np.array([[True] * 9, [True, False, True] + [False] * 6])
    table = np.full((2, 9, 2), 5.0)
    phantom.policy_table(Leaning(), "dark_hex", 0, np.array([0, 4], dtype=np.uint64), legal, table[..., 1])
    expected = np.exp(np.arange(9.0)) * legal
    assert table[..., 1] == pytest.approx(expected / expected.sum(1, keepdims=True), rel=1e-6)
    assert (table[..., 0] == 5.0).all()
