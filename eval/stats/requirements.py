"""What a result must at least be, as said on the command line: `brawler>=0.95`, `ace@full>=0.9`, `worst>=0.8`.

A requirement compares the measured win rate with its minimum. `mean` and `worst` stand for the mean and the lowest win
rate over all opponents; without a regime it must hold in every regime played.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sparring.configs.core.errors import InputError, choose
from sparring.eval.stats.tables import MatchRecord, summarize

SUMMARIES = ("mean", "worst")
_SLACK = 1e-12  # A mean of shares is not exact.
_EXAMPLES = "write OPPONENT>=SHARE or OPPONENT@REGIME>=SHARE, as in brawler>=0.95"


@dataclass(frozen=True)
class Requirement:
    """The least win rate, in [0, 1], against `opponent` (or a mean or worst) under `regime`, None being every one."""

    text: str
    opponent: str
    regime: str | None
    minimum: float

    @classmethod
    def parse(cls, text: str) -> Requirement:
        """Read a requirement; raises `InputError` where it is malformed or its share is not in [0, 1]."""
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
        """Raise `UnknownNameError` unless what is required is going to be measured."""
        choose(f"opponent in --require {self.text!r}:", self.opponent, [*opponents, *SUMMARIES])
        if self.regime is not None:
            choose(f"regime in --require {self.text!r}:", self.regime, regimes)

    def failures(self, records: Sequence[MatchRecord]) -> list[str]:
        """One line for every regime in which the win rate is below the minimum; names must have been checked."""
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
