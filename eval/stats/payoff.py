"""Payoff matrix of a round robin: the share of points of each player against each, with intervals, and ratings.

Used by `eval/payoff.py` and by ladders, in any game. A cell is a pair of players that met in
seat-swapped pairs of games, the unit of all intervals (`tables.py`, `ratings.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from sparring.curriculum.score import score_interval
from sparring.eval.stats.ratings import Anchor, PairedResult, Rating, rate
from sparring.eval.stats.tables import (
    Report,
    conditions,
    heading,
    origin,
    percent,
    ratings_markdown,
    share_text,
    table,
    title,
)

NO_OPPONENTS = "none"
"""In place of opponents: the players of the run among themselves."""
SNAPSHOTS = "[2, 100]"
MEANING = (
    "Score % of the row against the column, (wins + draws / 2) / games. The last columns are the means over the other "
    "players: of the score, of the games with a winner, and of the games won"
)
ELSEWHERE = "; .json and .md are written beside it"


class PayoffCell(PairedResult, Protocol):
    """Result of a pair of players."""

    @property
    def score(self) -> float:
        """Share of the points that the player took, a draw being half a point."""

    @property
    def decided(self) -> float:
        """Share of games with a winner."""

    @property
    def win_rate(self) -> float:
        """Share of games that the player won."""


@dataclass(frozen=True)
class PayoffMatrix:
    """K players and a cell for each pair; the first `policies` players are the policies of a run by age."""

    names: Sequence[str]
    policies: int
    cells: Sequence[PayoffCell]
    anchor: Anchor

    @cached_property
    def shares(self) -> np.ndarray:
        """Share of points of the row against the column, float64 [K, K], NaN on the diagonal."""
        shares = np.full((len(self.names), len(self.names)), np.nan)
        for cell in self.cells:
            row, column = self.names.index(cell.player), self.names.index(cell.opponent)
            shares[row, column], shares[column, row] = cell.score, 1.0 - cell.score
        return shares

    @cached_property
    def intervals(self) -> np.ndarray:
        """95 % interval of each share, float64 [K, K, 2], by the number of pairs of games of its cell."""
        ends = np.full((*self.shares.shape, 2), np.nan)
        for cell in self.cells:
            row, column = self.names.index(cell.player), self.names.index(cell.opponent)
            low, high = score_interval(cell.pairs)
            ends[row, column], ends[column, row] = (low, high), (1.0 - high, 1.0 - low)
        return ends

    @cached_property
    def ratings(self) -> list[Rating]:
        """Ratings in the order of the rows. Raises `RatingError` for players that are not connected by games."""
        by_name = {rating.player: rating for rating in rate(self.cells, self.anchor)}
        return [by_name[name] for name in self.names]

    def plain(self) -> list[list[float | None]]:
        """Return the shares for JSON, None on the diagonal."""
        return [[None if np.isnan(share) else share for share in row] for row in self.shares.tolist()]

    def plain_intervals(self) -> list[list[tuple[float, float] | None]]:
        """Return the intervals for JSON, None on the diagonal."""
        return [[None if np.isnan(low) else (low, high) for low, high in row] for row in self.intervals.tolist()]

    def markdown(self) -> str:
        """Return the matrix as a table in % with 95 % intervals, and the means of every player."""
        rows = [
            [
                name,
                *("" if np.isnan(share) else share_text(share, ends) for share, ends in zip(*row, strict=True)),
                *map(percent, self.means(name)),
            ]
            for name, *row in zip(self.names, self.shares.tolist(), self.intervals.tolist(), strict=True)
        ]
        return table(["", *self.names, "score %", "decided %", "win %"], rows)

    def means(self, name: str) -> tuple[float, float, float]:
        """Return the mean score, decided share and win rate of a player over its opponents."""
        sides = [(cell.score, cell.decided, cell.win_rate) for cell in self.cells if cell.player == name]
        sides += [
            (1.0 - cell.score, cell.decided, cell.decided - cell.win_rate)
            for cell in self.cells
            if cell.opponent == name
        ]
        score, decided, wins = np.mean(sides, axis=0).tolist()
        return score, decided, wins

    def ratings_markdown(self) -> str:
        """Return the table of ratings, and below it what they are."""
        return ratings_markdown(self.ratings, self.anchor)

    def picture(self, title: str, subtitle: str) -> bytes:
        """Return the heatmap as PNG data. Needs matplotlib."""
        from sparring.eval.plots.heatmap import MatrixChart, draw_heatmap

        chart = MatrixChart(
            title=title,
            subtitle=subtitle,
            labels=self.names,
            shares=self.shares,
            elo=[rating.elo for rating in self.ratings],
            intervals=[rating.interval for rating in self.ratings],
            policies=self.policies,
        )
        return draw_heatmap(chart)


def ladder_markdown(report: Report) -> str:
    """Return the round robin: score of row against column with 95 % interval, best mean first, and ratings."""
    about = f"# Ladder: {title(report)}\n\n{conditions(report)}\n\n{MEANING}."
    return "\n\n".join([about, *rated_tables(report), origin(report)]) + "\n"


def rated_tables(report: Report) -> list[str]:
    """Return the matrix, best mean first, and the ratings of each regime."""
    assert report.anchor is not None
    parts = []
    for regime in report.regimes:
        cells = report.under(regime)
        unsorted = PayoffMatrix(
            [*dict.fromkeys(name for cell in cells for name in (cell.player, cell.opponent))], 0, cells, report.anchor
        )
        best = sorted(unsorted.names, key=lambda name: (-unsorted.means(name)[0], name))
        matrix = PayoffMatrix(best, 0, cells, report.anchor)
        ratings = ratings_markdown(report.ratings(regime), report.anchor)
        parts += [*heading(report, regime), matrix.markdown(), ratings]
    return parts
