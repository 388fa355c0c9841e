"""Minimum results given on the command line: `brawler>=0.95`, `ace@full>=0.9`, `worst>=0.8`.

A requirement compares the measured win rate with its minimum. `mean` and `worst` are the mean and the lowest win
rate over all opponents. Without a regime it applies to every regime played.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sparring.configs.core.errors import InputError, choose
from sparring.eval.stats.tables import MatchRecord, summarize

SUMMARIES = ("mean", "worst")
_SLACK = 1e-12  # A mean of shares has rounding errors.
_EXAMPLES = "write OPPONENT>=SHARE or OPPONENT@REGIME>=SHARE, as in brawler>=0.95"


@dataclass(frozen=True)
class Requirement:
    """Minimum win rate, in [0, 1], against `opponent` (or mean or worst) under `regime` (None: every regime)."""

    text: str
    opponent: str
    regime: str | None
    minimum: float

    @classmethod
    def parse(cls, text: str) -> Requirement:
        """Parse a requirement. Raises `InputError` if it is malformed or its share is not in [0, 1]."""
        parts = re.fullmatch(r"\s*([^<>=@]+?)\s*(?:@\s*([^<>=@]+?)\s*)?>=\s*([0-9.eE+-]+)\s*", text)
        if parts is None:
            raise InputError(f"--require {text!r}: {_EXAMPLES}")
        opponent, regime, share = parts.groups()
        try:
            minimum = float(share)
        except ValueError as error:
            raise InputError(f"--require {text!r}: {share!r} is not a number; {_EXAMPLES}") from error
        if not 0.0 <= minimum <= 1.0:
            raise InputError(f"--require {text!r}: {share} is outside [0, 1]; give a share of the games, such as 0.95")
        return cls(text, opponent, regime, minimum)

    def check_names(self, opponents: Sequence[str], regimes: Sequence[str]) -> None:
        """Raise `UnknownNameError` unless the opponent and the regime will be played."""
        choose(f"opponent in --require {self.text!r}:", self.opponent, [*opponents, *SUMMARIES])
        if self.regime is not None:
            choose(f"regime in --require {self.text!r}:", self.regime, regimes)

    def failures(self, records: Sequence[MatchRecord]) -> list[str]:
        """Return one line per regime with a win rate below the minimum. Call `check_names` first."""
        regimes = dict.fromkeys(record.regime for record in records if self.regime in (None, record.regime))
        lines = []
        for regime in regimes:
            rate, what = self._measured([record for record in records if record.regime == regime])
            if rate < self.minimum - _SLACK:
                lines.append(f"--require {self.text!r} failed: {rate:.4f} {what}, physics {regime}")
        return lines

    def _measured(self, records: Sequence[MatchRecord]) -> tuple[float, str]:
        if self.opponent in SUMMARIES:
            summary = summarize(records)
            if self.opponent == "mean":
                return summary.mean, "on average"
            return summary.worst, f"against {summary.worst_opponent}"
        record = next(record for record in records if record.opponent == self.opponent)
        return record.win_rate, f"({record.wins} of {record.games} won)"
