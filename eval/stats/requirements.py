"""What a command line asks of the results: minimum win rates, `--require`, and the sequential test, `--sprt`.

A requirement, such as `brawler>=0.95`, `ace@full>=0.9` or `worst>=0.8`, compares the measured win rate with its
minimum. `mean` and `worst` are the mean and the lowest win rate over all opponents that are not held out,
`held_out:mean` and `held_out:worst` over those that are. Without a regime it applies to every regime played.
The test itself is in `curriculum/ratings/sprt.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from sparring.configs.core.errors import InputError, choose
from sparring.curriculum.sprt import SCORES, Hypotheses, SPRTVerdict
from sparring.envs.dogfight.rules import HELD_OUT
from sparring.envs.game import HELD_OUT_PREFIX
from sparring.eval.stats.tables import MatchRecord, notes_markdown, summaries

SUMMARIES = ("mean", "worst")
HELD_OUT_SUMMARIES = tuple(f"{HELD_OUT_PREFIX}{name}" for name in SUMMARIES)
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
        known = [*SUMMARIES, *(HELD_OUT_SUMMARIES if set(opponents) & set(HELD_OUT) else ())]
        choose(f"opponent in --require {self.text!r}:", self.opponent, [*opponents, *known])
        if self.regime is not None:
            choose(f"regime in --require {self.text!r}:", self.regime, regimes)

    def failures(self, records: Sequence[MatchRecord]) -> list[str]:
        """Return one line per regime with a win rate below the minimum. Call `check_names` first."""
        regimes = dict.fromkeys(record.regime for record in records if self.regime in (None, record.regime))
        lines = [] if regimes else [f"--require {self.text!r} failed: no game was played"]
        for regime in regimes:
            if self.opponent not in (*SUMMARIES, *HELD_OUT_SUMMARIES, *(record.opponent for record in records)):
                lines.append(f"--require {self.text!r} failed: {self.opponent} was left out, physics {regime}")
                continue
            rate, what = self._measured([record for record in records if record.regime == regime])
            if not rate >= self.minimum - _SLACK:
                lines.append(f"--require {self.text!r} failed: {rate:.4f} {what}, physics {regime}")
        return lines

    def _measured(self, records: Sequence[MatchRecord]) -> tuple[float, str]:
        if self.opponent in (*SUMMARIES, *HELD_OUT_SUMMARIES):
            others, held_out = summaries(records)
            summary = held_out if held_out and self.opponent in HELD_OUT_SUMMARIES else others
            if self.opponent.endswith("mean"):
                return summary.mean, "on average"
            return summary.worst, f"against {summary.worst_opponent}"
        record = next(record for record in records if record.opponent == self.opponent)
        return record.win_rate, f"({record.wins} of {record.games} won)"


def parse_hypotheses(pairs: Iterable[tuple[str, str]]) -> Hypotheses:
    """Parse elo0, elo1, alpha and beta with their values, each optional. Raises `InputError` for invalid text."""
    values: dict[str, float] = {}
    for key, value in pairs:
        name, text = (key, value) if key else (value, "")
        choose("--sprt option", name, [field.name for field in fields(Hypotheses)])
        try:
            values[name] = float(text)
        except ValueError as error:
            raise InputError(f"--sprt {name}={text}: {text!r} is no number; write {name}=20") from error
    hypotheses = Hypotheses(**values)
    hypotheses.check()
    return hypotheses


def sprt_markdown(
    left: str, right: str, verdict: SPRTVerdict, hypotheses: Hypotheses, notes: Sequence[str] = ()
) -> str:
    """Return the report of a finished test; `notes` are on single players."""
    low, high = hypotheses.bounds
    answer = {
        "H1": f"{left} is stronger (H1 accepted)",
        "H0": f"{left} is not shown to be stronger (H0 accepted)",
        None: "undecided: the games ran out",
    }[verdict.accepted]
    counts = ", ".join(f"{score:g}: {count}" for score, count in zip(SCORES, verdict.pairs, strict=True))
    return (
        f"# {left} against {right}: {answer}\n\n"
        f"H0: {hypotheses.elo0:g} Elo, H1: {hypotheses.elo1:g} Elo, alpha {hypotheses.alpha:g}, "
        f"beta {hypotheses.beta:g}\n\n"
        f"LLR {verdict.llr:.2f}, bounds {low:.2f} and {high:.2f}; {sum(verdict.pairs)} pairs of games, "
        f"by score {counts}; about {verdict.elo:+.0f} Elo{notes_markdown(notes)}\n"
    )
