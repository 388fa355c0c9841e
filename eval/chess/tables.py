"""Results of a chess evaluation as markdown and JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np

from sparring.eval.chess.games import ChessGame
from sparring.eval.chess.options import SELF, ChessOptions
from sparring.eval.parser import WIDTH
from sparring.eval.stats.aggregate import mean_estimate
from sparring.eval.stats.tables import common_record, percent, table, wilson

SCHEMA_VERSION = 2
_HEADINGS = ("opponent", "won %", "drawn %", "lost %", "points %", "legal half-moves", "illegal %")
_ABOUT = (
    "Each figure is followed by its 95 % interval: Wilson's for counts, Student's t over games for the rest. Legal "
    "half-moves are the legal answers of the player in a game, illegal the share of its answers that are no legal move."
)
_END = {"lose": "An illegal move loses the game.", "random": "A random legal move replaces an illegal one."}


@dataclass(frozen=True)
class OpponentResult:
    """Games against one opponent; `opponent` is its name on the command line, `name` that of the player."""

    opponent: str
    name: str
    games: Sequence[ChessGame]

    def counts(self) -> dict[str, int]:
        """Return the numbers of games won, drawn and lost."""
        points = Counter(game.points for game in self.games)
        return {"won": points[1.0], "drawn": points[0.5], "lost": points[0.0]}

    def endings(self) -> dict[str, int]:
        """Return the numbers of games by ending, most frequent first."""
        return dict(Counter(game.ending for game in self.games).most_common())


def to_markdown(options: ChessOptions, player: str, results: Sequence[OpponentResult]) -> str:
    """Return the table of results, and how the games ended."""
    conditions = (
        f"{options.games} games per opponent, each opening of {options.opening_plies} random half-moves with both "
        f"colours, a draw after {options.plies} half-moves, seed {options.seed}. {_END[options.illegal]} {_ABOUT}"
    )
    parts = [f"# Chess: {player}", fill(conditions, WIDTH), table(_HEADINGS, map(_row, results))]
    if any(result.opponent == SELF for result in results):
        parts.append("Against itself, won and lost are White's, and half-moves and answers those of both sides.")
    ends = [[result.name, ", ".join(f"{n} {ending}" for ending, n in result.endings().items())] for result in results]
    return "\n\n".join([*parts, table(("opponent", "endings"), ends), f"Command: `{options.command}`"]) + "\n"


def to_json(options: ChessOptions, player: str, results: Sequence[OpponentResult]) -> str:
    """Return results and conditions; equal input gives equal bytes."""
    names = ("games", "plies", "opening_plies", "illegal", "temperature", "seed", "device", "command")
    content: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "kind": "chess", "player": player}
    content |= {name: getattr(options, name) for name in names}
    content["records"] = [_plain(player, result) for result in results]
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _plain(player: str, result: OpponentResult) -> dict[str, Any]:
    counts, played = result.counts(), len(result.games)
    plain = common_record(player, result.opponent, counts["won"], counts["drawn"], counts["lost"])
    plain |= {"name": result.name, "endings": result.endings()}
    for name, count in counts.items():
        plain[name] = {"games": count, "share": count / played, "interval": wilson(count, played)}
    points = mean_estimate(np.array([game.points for game in result.games]), least=0.0, most=1.0)
    legal = mean_estimate(np.array([float(game.answers - game.illegal) for game in result.games]), least=0.0)
    answers, illegal = (sum(getattr(game, name) for game in result.games) for name in ("answers", "illegal"))
    plain["points"] = {"mean": points.value, "interval": points.interval}
    plain["legal_half_moves"] = {"mean": legal.value, "interval": legal.interval}
    plain["illegal"] = {"answers": answers, "count": illegal, "share": illegal / max(answers, 1)}
    plain["illegal"]["interval"] = wilson(illegal, answers)
    return plain


def _row(result: OpponentResult) -> list[str]:
    plain = _plain("", result)
    shares = [_share(plain[name]["share"], plain[name]["interval"]) for name in ("won", "drawn", "lost")]
    legal, illegal = plain["legal_half_moves"], plain["illegal"]
    low, high = legal["interval"]
    half_moves = f"{legal['mean']:.1f} ({low:.1f} to {high:.1f})"
    points = _share(plain["points"]["mean"], plain["points"]["interval"])
    return [result.name, *shares, points, half_moves, _share(illegal["share"], illegal["interval"])]


def _share(value: float, interval: tuple[float, float]) -> str:
    return f"{percent(value)} ({percent(interval[0])} to {percent(interval[1])})"
