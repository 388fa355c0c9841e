"""Output of a payoff matrix: markdown, JSON, and the picture drawn by `heatmap.py`.

A run's policies are named by age in all three, and a table lists the file of each.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparring.agents.opponents.players import display_path
from sparring.eval.stats.ratings import Rating
from sparring.eval.stats.tables import Report, conditions, origin, percent, ratings_markdown, table, title, to_json

if TYPE_CHECKING:
    from sparring.agents.opponents.dogfight.load import Entrant
    from sparring.eval.dogfight.snapshots import Frozen


@dataclass(frozen=True)
class Payoffs:
    """Round robin of the run's policies, named by age, and the other opponents, in this order."""

    run: str
    frozen: Sequence[Frozen]
    others: Sequence[Entrant]
    report: Report

    @property
    def entrants(self) -> list[Entrant]:
        """K players in the order of rows and columns."""
        return [frozen.entrant for frozen in self.frozen] + list(self.others)

    @property
    def names(self) -> list[str]:
        """Names in the table and in the picture."""
        return [entrant.name for entrant in self.entrants]

    @property
    def shares(self) -> np.ndarray:
        """Share of points of the row against the column, float64 [K, K], NaN on the diagonal."""
        names = self.names
        shares = np.full((len(names), len(names)), np.nan)
        for record in self.report.records:
            shares[names.index(record.player), names.index(record.opponent)] = record.points
        return shares

    @property
    def ratings(self) -> list[Rating]:
        """Ratings in the order of the rows."""
        by_name = {rating.player: rating for rating in self.report.ratings(self.report.regimes[0])}
        return [by_name[name] for name in self.names]


def payoff_json(payoffs: Payoffs) -> str:
    """Return the JSON report of games and ratings, with the players' ages and the matrix as drawn."""
    ages = [frozen.env_steps for frozen in payoffs.frozen] + [None] * len(payoffs.others)
    content = json.loads(to_json(payoffs.report)) | {"kind": "payoff", "run": payoffs.run}
    content["players"] = [
        {"name": entrant.name, "env_steps": age, "file": display_path(entrant.path) if entrant.path else None}
        for entrant, age in zip(payoffs.entrants, ages, strict=True)
    ]
    content["payoff"] = [[None if np.isnan(share) else share for share in row] for row in payoffs.shares.tolist()]
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def payoff_markdown(payoffs: Payoffs, picture: str = "") -> str:
    """Return markdown with the image `picture`, if there is one, its matrix, and the ratings."""
    report = payoffs.report
    rows = [
        [name, *("" if np.isnan(share) else percent(share) for share in row)]
        for name, row in zip(payoffs.names, payoffs.shares.tolist(), strict=True)
    ]
    files = [[entrant.name, display_path(entrant.path)] for entrant in payoffs.entrants if entrant.path]
    parts = [
        f"# Payoff matrix of {payoffs.run}: {title(report)}",
        conditions(report),
        *([f"![Payoff matrix]({picture})"] if picture else []),
        "Points of the row against the column in %, a draw being half a point for each; policies by env steps.",
        table(["", *payoffs.names], rows),
        ratings_markdown(report, report.regimes[0]),
        table(["policy", "file"], files),
        origin(report),
    ]
    return "\n\n".join(parts) + "\n"


def payoff_picture(payoffs: Payoffs) -> bytes:
    """Return the heatmap as PNG data."""
    from sparring.eval.plots.heatmap import MatrixChart, draw_heatmap

    report, ratings = payoffs.report, payoffs.ratings
    chart = MatrixChart(
        title=f"Payoff matrix of {payoffs.run}",
        subtitle=f"{title(report)}; {report.games} games a cell; policies by env steps",
        labels=payoffs.names,
        shares=payoffs.shares,
        elo=[rating.elo for rating in ratings],
        intervals=[rating.interval for rating in ratings],
        policies=len(payoffs.frozen),
    )
    return draw_heatmap(chart)
