"""Connect four: opponents that search, and the share of a policy's moves that keep the value of a position.

    PYTHONPATH=. python eval/run.py --ckpt four --opponents random benchmarks.imported_training.connect_four:Search4
    python -m benchmarks.imported_training.connect_four --ckpt four --positions 200

`Search2`, `Search4` and `Search6` look two, four and six moves ahead, see wins and losses there and nothing else, and
draw among moves of equal worth. The second command plays random games up to positions with `--empty` free cells, which
are solved to the end, and counts the moves of a policy that keep what the side to move can reach: a win, or a draw.
Positions in which all legal moves do that are left out. Random play is given beside it.

A side is a number with a bit for each cell, 7 * column + row from below; the seventh bit of a column stays 0, so that
four in a row are found by shifts (Tromp's layout).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import run_script
from benchmarks.report import heading, publish, table
from sparring.curriculum.score import wilson

ROWS, COLUMNS = 6, 7
BOTTOM = sum(1 << 7 * column for column in range(COLUMNS))
TOP = BOTTOM << ROWS - 1
ORDER = (3, 2, 4, 1, 5, 0, 6)
"""Columns from the middle outwards: most fours go through it, so that wins are found early."""
WIN, DRAW, LOSS = 1, 0, -1
GAME = "pettingzoo.classic.connect_four_v3"


def has_four(side: int) -> bool:
    """Return whether a side has four in a row: upwards, across, or on a diagonal."""
    for shift in (1, 7, 6, 8):
        pairs = side & side >> shift
        if pairs & pairs >> 2 * shift:
            return True
    return False


def legal_columns(filled: int) -> list[int]:
    """Return the columns with a free cell, from the middle outwards."""
    return [column for column in ORDER if not filled & TOP & 0b111111 << 7 * column]


def drop(filled: int, column: int) -> int:
    """Return the bit of the lowest free cell of a column."""
    return (filled + (1 << 7 * column)) & (0b111111 << 7 * column)


class Searcher:
    """Values of positions for the side to move: 1 for a win, 0 for a draw, -1 for a loss, by alpha-beta search.

    A search of limited depth calls what it does not see a draw. Values of a search to the end are remembered.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[int, int]] = {}

    def value(self, own: int, other: int, depth: int, low: int = LOSS, high: int = WIN) -> int:
        """Return the value within `low` to `high`; neither side has four in a row yet."""
        filled = own | other
        columns = legal_columns(filled)
        if not columns or not depth:
            return DRAW
        moves = [drop(filled, column) for column in columns]
        if any(has_four(own | move) for move in moves):
            return WIN
        whole = depth >= 42 - filled.bit_count()
        if whole:
            least, most = self._known.get((own, other), (LOSS, WIN))
            if least >= high or least == most:
                return least
            if most <= low:
                return most
            low, high = max(low, least), min(high, most)
        start, best = low, LOSS
        threats = [move for move in moves if has_four(other | move)]  # the other side wins there unless it is taken
        for move in threats[:1] or moves:
            best = max(best, -self.value(other, own | move, depth - 1, -high, -low))
            low = max(low, best)
            if low >= high:
                break
        if whole:
            self._known[own, other] = (least if best <= start else best, most if best >= high else best)
        return best

    def moves(self, own: int, other: int, depth: int) -> dict[int, int]:
        """Return the value of every legal move, by column."""
        values = {}
        for column in legal_columns(own | other):
            after = own | drop(own | other, column)
            values[column] = WIN if has_four(after) else -self.value(other, after, depth - 1)
        return values


class SearchPlayer:
    """Opponent that looks `depth` moves ahead and draws among the best."""

    depth = 4

    def __init__(self) -> None:
        self._search = Searcher()
        self.reseed(0)

    def reseed(self, seed: int) -> None:
        """Restart the draws among moves of equal worth."""
        self._random = np.random.default_rng(seed)

    def act(self, obs: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Return a column for each of the boards float32 [B, 84], as PettingZoo shows them to the side to move."""
        return np.array([self._choose(*sides(row)) for row in obs])

    def _choose(self, own: int, other: int) -> int:
        values = self._search.moves(own, other, self.depth)
        best = max(values.values())
        return int(self._random.choice([column for column, value in values.items() if value == best]))


class Search2(SearchPlayer):
    """Sees its own win and the other's next one."""

    depth = 2


class Search4(SearchPlayer):
    """Looks four moves ahead."""


class Search6(SearchPlayer):
    """Looks six moves ahead."""

    depth = 6


def sides(row: np.ndarray) -> tuple[int, int]:
    """Return the cells of the side to move and of the other from an observation [84]: rows from above, two planes."""
    planes = row.reshape(ROWS, COLUMNS, 2)[::-1].astype(bool)
    cells = [[7 * int(column) + int(height) for height, column in np.argwhere(planes[:, :, plane])] for plane in (0, 1)]
    own, other = (sum(1 << cell for cell in one) for one in cells)
    return own, other


def observation(own: int, other: int) -> np.ndarray:
    """Return the observation float32 [84] of a position; the inverse of `sides`."""
    planes = np.zeros((ROWS, COLUMNS, 2), dtype=np.float32)
    for plane, side in enumerate((own, other)):
        for column in range(COLUMNS):
            for height in range(ROWS):
                planes[ROWS - 1 - height, column, plane] = side >> 7 * column + height & 1
    return planes.ravel()


def positions(empty: int, seed: int) -> Iterator[tuple[int, int]]:
    """Yield positions (side to move, other) of random games that still run with `empty` free cells."""
    random = np.random.default_rng(seed)
    while True:
        own = other = 0
        for _ in range(42 - empty):
            own, other = other, own | drop(own | other, int(random.choice(legal_columns(own | other))))
            if has_four(other):
                break
        else:
            yield own, other


def optimal_moves(count: int, empty: int, seed: int) -> tuple[list[tuple[int, int]], list[set[int]]]:
    """Return `count` solved positions in which some legal move gives value away, and the moves that do not."""
    search, chosen, kept = Searcher(), [], []
    for own, other in positions(empty, seed):
        values = search.moves(own, other, empty)
        best = {column for column, value in values.items() if value == max(values.values())}
        if len(best) < len(values):
            chosen.append((own, other))
            kept.append(best)
            if len(chosen) == count:
                break
    return chosen, kept


def shares(player: Any, count: int, empty: int, seed: int) -> tuple[int, float]:
    """Return how many of a player's moves keep the value in `count` positions, and the mean share of random play."""
    import torch

    boards, kept = optimal_moves(count, empty, seed)
    legal = [legal_columns(own | other) for own, other in boards]
    masks = np.array([[column in columns for column in range(COLUMNS)] for columns in legal], dtype=np.float32)
    rows = np.concatenate([np.stack([observation(*board) for board in boards]), masks], axis=1)
    actions, _ = player.act(torch.from_numpy(rows), torch.zeros(count, player.memory_size))
    hits = sum(int(action) in best for action, best in zip(actions[:, 0].tolist(), kept, strict=True))
    return hits, float(np.mean([len(best) / len(columns) for best, columns in zip(kept, legal, strict=True)]))


def main() -> int:
    parser = argparse.ArgumentParser(description="share of a policy's moves that keep the value of a position")
    parser.add_argument("--ckpt", required=True, help="run or checkpoint of connect four")
    parser.add_argument("--positions", type=int, default=200, help="default: %(default)s")
    parser.add_argument("--empty", type=int, default=14, help="free cells of the positions; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="markdown file to write as well")
    args = parser.parse_args()
    if args.positions < 1:
        parser.error(f"--positions={args.positions}: must be at least 1")
    if not 1 <= args.empty <= 20:
        parser.error(f"--empty={args.empty}: must be from 1 to 20, for more cannot be solved in reasonable time")
    from sparring.envs.imported.batch import make_batch
    from sparring.envs.imported.training.opponents import open_seat_player

    batch = make_batch("pettingzoo", GAME, {}, 2, 0)
    player = open_seat_player(args.ckpt, batch.contract, "cpu", seed=0)
    batch.close()
    hits, chance = shares(player, args.positions, args.empty, args.seed)
    low, high = wilson(hits, args.positions)
    row = [args.ckpt, str(args.positions), f"{hits / args.positions:.1%}", f"{low:.1%} to {high:.1%}", f"{chance:.1%}"]
    columns = ("policy", "positions", "moves that keep the value", "95 % interval", "random play")
    publish("\n".join([heading("Connect four: moves that keep the value", ["torch"]), table(columns, [row])]), args.out)
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main, "benchmarks.imported_training.connect_four"))
