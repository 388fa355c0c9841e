"""Exact exploitability of a policy in phantom tic-tac-toe and dark hex on nine cells, classical and abrupt.

    python -m benchmarks.imported_training.phantom --ckpt RUN           # up to four of one game share a visit
    python -m benchmarks.imported_training.phantom --game dark_hex      # uniform play

The players do not see each other's stones. A player names a cell and gets it unless the other has it; in that case the
player names another (classical), or the turn passes (abrupt). A player knows the sequence of its moves and their
results: some four million sequences (abrupt: more) in 2e10 histories. That is too much for the tree of
`sparring.envs.imported.tree`, so phantom.cpp, compiled by g++ (or `CXX`), visits the histories: some minutes on one
core. Sequences are a superset of those that happen; the others have probability 0 and change nothing. A policy that
depends on sets, as uniform play does, and not on the order of moves, has its value in seconds and without tables.

Exploitability is the mean of what two best responses win: 0.916 for uniform play in classical dark hex, as exp-a-spiel
has it (https://github.com/gabrfarina/exp-a-spiel), the referee of arXiv:2502.08938.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.command import run_script
from benchmarks.report import heading, publish, table
from sparring.configs.core.errors import InputError

CELLS = 9
ALL_CELLS = 2**CELLS - 1
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
ROWS_AT_ONCE = 1 << 16
SEQUENCES = {False: 6_300_000, True: 46_000_000}
"""Of both players in the larger of the two games, by whether it is the abrupt one."""
BYTES_OF_A_SEQUENCE, FREE_SHARE = 100, 0.75
"""Bytes of its moves and parent, without the tables of policies; the share of the memory that may be used."""
MOST_LANES = 4
"""Policies that are evaluated at once: four doubles are a vector of AVX2."""
SOURCE = Path(__file__).with_name("phantom.cpp")
FLAGS = ("-O3", "-march=native")


class Values(NamedTuple):
    """Values of both players' policies, in games won minus games lost."""

    first: float
    """The first player's expected return."""
    responses: tuple[float, float]
    """Expected return of a best response of each player to the other's policy."""

    @property
    def exploitability(self) -> float:
        """Mean over the players of a best response's gain."""
        return sum(self.responses) / 2


class PhantomGame:
    """The sequences of both players, and what policies over them are worth. n is a player's number of sequences.

    Raises `InputError` without a compiler.
    """

    def __init__(
        self, game: str, *, abrupt: bool, cells: int = ALL_CELLS, lanes: int = 1, flags: Sequence[str] = FLAGS
    ) -> None:
        """Make the game of `GAMES` in which only the set `cells` of cells, a number of nine bits, is in play.

        `lanes` is 1, 2 or 4: that many policies are evaluated at once.
        """
        self.lanes = lanes
        self._library, _ = _compiled((*flags, f"-DLANES={lanes}"))
        self._wins = winning_sets(game)
        self._game = self._library.make_game(int(abrupt), cells, *(_address(one) for one in self._wins))

    def close(self) -> None:
        """Free the sequences."""
        self._library.free_game(self._game)

    def sequences(self, player: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the sequences of a player, uint64 [n], and which cells may follow, bool [n, 9].

        A sequence has five bits for each move, the first one highest: twice the cell from 1, plus 1 if it was taken.
        """
        count = self._library.count_sequences(self._game, player)
        keys, legal = np.empty(count, dtype=np.uint64), np.empty((count, CELLS), dtype=np.uint8)
        self._library.copy_sequences(self._game, player, _address(keys), _address(legal))
        return keys, legal.astype(bool)

    def evaluate(self, tables: Sequence[np.ndarray]) -> list[Values]:
        """Return what the policies are worth, for both players' probabilities of cells, float64 [n, 9, lanes].

        The tables are overwritten.
        """
        for player, one in enumerate(tables):
            expected = (self._library.count_sequences(self._game, player), CELLS, self.lanes)
            if one.shape != expected or one.dtype != np.float64 or not one.flags.c_contiguous:
                raise ValueError(f"tables must be contiguous float64 {expected}, not {one.dtype} {one.shape}")
        values = np.zeros((3, self.lanes))
        self._library.evaluate(self._game, *(_address(one) for one in tables), _address(values))
        return [Values(first, (one, other)) for first, one, other in values.T.tolist()]


def winning_sets(game: str) -> np.ndarray:
    """Return whether each set of cells wins, uint8 [2, 512] for both players."""
    wins = [[GAMES[game].wins(cells, player) for cells in range(ALL_CELLS + 1)] for player in (0, 1)]
    return np.array(wins, dtype=np.uint8)


def moves_of(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the cells of sequences [n] in their order, int64 [n, 9] with -1 after the last, and which were taken."""
    groups = np.array([keys >> np.uint64(5 * back) & np.uint64(31) for back in range(CELLS)], dtype=np.int64).T
    length = (groups > 0).sum(1)
    back = length[:, None] - 1 - np.arange(CELLS)
    moves = np.where(back >= 0, np.take_along_axis(groups, np.maximum(back, 0), 1), 0)
    return (moves >> 1) - 1, (moves & 1).astype(bool)


def information_states(game: str, player: int, keys: np.ndarray) -> np.ndarray:
    """Return OpenSpiel's information state tensors of a player's sequences [n], float32 [n, F]."""
    cells, taken = moves_of(keys)
    owner, order = np.full((len(keys), CELLS), -1), np.zeros((len(keys), CELLS, CELLS), dtype=np.float32)
    row, move = np.nonzero(cells >= 0)
    cell = cells[row, move]
    owner[row, cell] = np.where(taken[row, move], player, 1 - player)
    order[row, move, cell] = 1.0
    board = GAMES[game].board(owner).reshape(len(keys), -1)
    return np.concatenate([board, order.reshape(len(keys), -1)], axis=1, dtype=np.float32)


def policy_table(network: Any, game: str, player: int, keys: np.ndarray, legal: np.ndarray, table: np.ndarray) -> None:
    """Write a network's probabilities of cells after a player's sequences into `table`, float64 [n, 9]."""
    import torch

    for start in range(0, len(keys), ROWS_AT_ONCE):
        some = slice(start, start + ROWS_AT_ONCE)
        rows = np.concatenate([information_states(game, player, keys[some]), legal[some].astype(np.float32)], axis=1)
        with torch.no_grad():
            (logs,) = network.log_probabilities(torch.from_numpy(rows))
        part = np.where(legal[some], np.exp(logs.double().numpy()), 0.0)
        table[some] = part / part.sum(1, keepdims=True)  # float32 leaves a sum of 1 only to seven digits


def _line(cells: int, player: int) -> bool:
    return any(all(cells >> one & 1 for one in line) for line in LINES)


def _connected(cells: int, player: int) -> bool:
    """Return whether cells connect the first row with the last (player 0), or the first column with the last."""
    at = {divmod(cell, 3) for cell in range(CELLS) if cells >> cell & 1}
    open_ = [place for place in at if place[player] == 0]
    at -= set(open_)
    while open_:
        row, column = open_.pop()
        if (row, column)[player] == 2:
            return True
        near = {(row + down, column + right) for down, right in product((-1, 0, 1), repeat=2) if down != right} & at
        at -= near
        open_ += near
    return False


def _planes(owner: np.ndarray) -> np.ndarray:
    """Return board planes of phantom tic-tac-toe from the owners of cells [n, 9]: free, player 1's, player 0's."""
    return np.stack([owner == side for side in (-1, 1, 0)], axis=1)


def _states(owner: np.ndarray) -> np.ndarray:
    """Return the board of dark hex: nine states for each cell (three occur). It does not show connections."""
    states = np.zeros((*owner.shape, CELLS), dtype=bool)
    for side, state in ((-1, 4), (1, 3), (0, 5)):
        states[..., state] = owner == side
    return states


class Rules(NamedTuple):
    """What differs between the games."""

    wins: Callable[[int, int], bool]
    board: Callable[[np.ndarray], np.ndarray]
    abrupt: str
    """Value of OpenSpiel's `gameversion` for the abrupt game."""


GAMES: Mapping[str, Rules] = {
    "phantom_ttt": Rules(_line, _planes, "abrupt"),
    "dark_hex": Rules(_connected, _states, "adh"),
}


@cache
def _compiled(flags: tuple[str, ...]) -> tuple[ctypes.CDLL, tempfile.TemporaryDirectory[str]]:
    """Return the compiled code, and the folder with its file, which is removed when the process ends."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        raise InputError("no C++ compiler: install g++, or name one in the environment variable CXX")
    folder = tempfile.TemporaryDirectory()
    out = f"{folder.name}/phantom.so"
    subprocess.run([compiler, "-std=c++17", "-shared", "-fPIC", *flags, "-o", out, str(SOURCE)], check=True)
    library, address, number = ctypes.CDLL(out), ctypes.c_void_p, ctypes.c_int
    library.make_game.restype, library.count_sequences.restype = address, ctypes.c_int64
    library.make_game.argtypes = [number, number, address, address]
    library.free_game.argtypes = [address]
    library.count_sequences.argtypes = [address, number]
    library.copy_sequences.argtypes = [address, number, address, address]
    library.evaluate.argtypes = [address] * 4
    library.against_sets.restype = ctypes.c_double
    library.against_sets.argtypes = [number] * 4 + [address] * 2
    return library, folder


def _address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def _game_of(args: argparse.Namespace) -> tuple[str, bool, list[Any]]:
    """Return the game, whether it is the abrupt one, and the networks; None is uniform play."""
    if not args.ckpt:
        return args.game, args.abrupt, [None]
    from sparring.agents.opponents.players import find_checkpoint
    from sparring.envs.imported.evaluation.policy import load_policy

    games, networks = [], []
    for path in args.ckpt:
        player, game = load_policy(find_checkpoint(path), "cpu")
        if game.package != "openspiel" or game.id not in GAMES:
            raise InputError(f"{path}: plays {game.name}; this measures {' and '.join(GAMES)} of openspiel")
        if player.memory_size:
            raise InputError(f"{path}: has a memory, which this cannot follow; train with network.memory=none")
        games.append((game.id, game.kwargs.get("gameversion") == GAMES[game.id].abrupt))
        networks.append(player.network)
        if games[-1] != games[0]:
            raise InputError(f"{path}: plays another game than {args.ckpt[0]}; measure them one after the other")
    return *games[0], networks


def lanes_that_fit(*, abrupt: bool) -> int:
    """Return how many policies this machine's memory has room for at once, 1, 2 or 4. Raises `InputError` for none."""
    from sparring.agents.ppo.rollout import memory_bytes

    there = memory_bytes() * FREE_SHARE
    game, each = SEQUENCES[abrupt] * BYTES_OF_A_SEQUENCE, SEQUENCES[abrupt] * CELLS * 8 * 2
    if there < game + each:
        raise InputError(f"the game takes {(game + each) / 2**30:.0f} GiB, and {there / 2**30:.0f} may be used here")
    return max(lanes for lanes in (1, 2, MOST_LANES) if lanes == 1 or there >= game + lanes * each)


def uniform_chances(cells: int = ALL_CELLS) -> np.ndarray:
    """Return uniform play as a policy of sets: probabilities, float64 [2, 512, 512, 9], of the cells of each player.

    By its stones and by the cells that it tried, numbers of nine bits; 0 of cells that it tried.
    """
    free = cells & ~np.arange(ALL_CELLS + 1)
    legal = (free[:, None] >> np.arange(CELLS) & 1).astype(float)
    return np.tile(legal / np.maximum(legal.sum(1, keepdims=True), 1.0), (2, ALL_CELLS + 1, 1, 1))


def values_of_sets(
    game: str, chances: np.ndarray, *, abrupt: bool, cells: int = ALL_CELLS, flags: Sequence[str] = FLAGS
) -> Values:
    """Return what a policy as in `uniform_chances` is worth with `cells` in play: some seconds, and no tables."""
    library, _ = _compiled((*flags, "-DLANES=1"))
    wins, chances = winning_sets(game), np.ascontiguousarray(chances, dtype=np.float64)
    first, one, other = (
        library.against_sets(int(abrupt), cells, player, best, _address(wins), _address(chances))
        for player, best in ((0, 0), (0, 1), (1, 1))
    )
    return Values(first, (one, other))


def measure(game: str, *, abrupt: bool, networks: Sequence[Any]) -> list[Values]:
    """Return what the policies `networks`, where None is uniform play, are worth against themselves and best responses.

    Up to four share a visit of the histories, as far as their tables fit into the memory.
    """
    if None in networks:
        others = measure(game, abrupt=abrupt, networks=[one for one in networks if one is not None])
        left, uniform = iter(others), values_of_sets(game, uniform_chances(), abrupt=abrupt)
        return [uniform if one is None else next(left) for one in networks]
    if not networks:
        return []
    most = lanes_that_fit(abrupt=abrupt)
    if len(networks) > most:
        rest = measure(game, abrupt=abrupt, networks=networks[most:])
        return measure(game, abrupt=abrupt, networks=networks[:most]) + rest
    tree = PhantomGame(game, abrupt=abrupt, lanes=1 << (len(networks) - 1).bit_length())
    tables = []
    for player in (0, 1):
        keys, legal = tree.sequences(player)
        both = np.zeros((len(keys), CELLS, tree.lanes))
        for lane, network in enumerate(networks):
            policy_table(network, game, player, keys, legal, both[..., lane])
        tables.append(both)
    values = tree.evaluate(tables)
    tree.close()
    return values[: len(networks)]


def main() -> int:
    parser = argparse.ArgumentParser(description="exact exploitability in phantom tic-tac-toe and dark hex 3x3")
    parser.add_argument("--ckpt", nargs="+", help="runs or checkpoints of one game; without it uniform play")
    parser.add_argument("--game", choices=GAMES, default="phantom_ttt", help="of uniform play; default: %(default)s")
    parser.add_argument("--abrupt", action="store_true", help="of uniform play: the turn passes after every move")
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    args = parser.parse_args()
    game, abrupt, networks = _game_of(args)
    name = f"{game}, {'abrupt' if abrupt else 'classical'}"
    columns = ("policy", "game", "exploitability", "first player", "best first player", "best second player")
    rows = []
    for policy, values in zip(
        args.ckpt or ["uniform play"], measure(game, abrupt=abrupt, networks=networks), strict=True
    ):
        figures = (values.exploitability, values.first, *values.responses)
        rows.append([policy, name, *(f"{one:.3f}" for one in figures)])
    publish("\n".join([heading("Exact exploitability", ["torch"]), table(columns, rows)]), args.out)
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main, "benchmarks.imported_training.phantom"))
