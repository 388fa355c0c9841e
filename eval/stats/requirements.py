"""What a command line asks of the results: minimum shares, `--require`, and the sequential test, `--sprt`.

A requirement, such as `brawler>=0.95`, `ace@full>=0.9` or `worst>=0.8`, compares a measured share with its minimum. The
share is the win rate, or with `score:ace>=0.6` and `decided:ace>=0.5` the score and the decided share. `mean` and
`worst` are the mean and the lowest one over all opponents that are not held out, `held_out:mean` and `held_out:worst`
over those that are; `score` and `decided` alone are means. Without a regime it applies to every regime played.
The test itself is in `curriculum/sprt.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from sparring.configs.core.errors import InputError, choose
from sparring.curriculum.score import SCORES, GameCounts, Scored, score_interval
from sparring.curriculum.sprt import Hypotheses, SPRTVerdict
from sparring.envs.game import HELD_OUT_PREFIX
from sparring.eval.stats.tables import (
    OpponentRecord,
    groups,
    held_out_names,
    notes_markdown,
    percent,
    share_text,
    summarize,
)

SUMMARIES = ("mean", "worst")
HELD_OUT_SUMMARIES = tuple(f"{HELD_OUT_PREFIX}{name}" for name in SUMMARIES)
FIGURES = {"win": "win_rate", "score": "score", "decided": "decided"}
"""Figures of a record by the word before the opponent."""
_FORM = re.compile(
    rf"\s*(?:({'|'.join(FIGURES)})(?::|(?=\s*[@>])))?([^<>=@]*?)(?:@\s*([^<>=@]+?)\s*)?>=\s*([0-9.eE+-]+)\s*"
)
_SLACK = 1e-12  # A mean of shares has rounding errors.
_EXAMPLES = (
    "write OPPONENT>=SHARE, OPPONENT@REGIME>=SHARE or score:OPPONENT>=SHARE, as in brawler>=0.95 or score:worst>=0.5"
)


@dataclass(frozen=True)
class Requirement:
    """Minimum share, in [0, 1], against `opponent` (or mean or worst) under `regime` (None: every regime)."""

    text: str
    figure: str
    """Word of `FIGURES`."""
    opponent: str
    regime: str | None
    minimum: float

    @classmethod
    def parse(cls, text: str, *, means: Sequence[str] = ()) -> Requirement:
        """Parse a requirement. Raises `InputError` if it is malformed or its share is not in [0, 1].

        In games without opponents, it is about one of these `means`, with any number.
        """
        examples = f"write NAME>=NUMBER with {' or '.join(means)}, as in {means[0]}>=100" if means else _EXAMPLES
        parts = _FORM.fullmatch(text)
        if parts is None or not (parts[1] or parts[2].strip()):
            raise InputError(f"--require {text!r}: {examples}")
        figure, opponent, regime, share = parts.groups()
        try:
            minimum = float(share)
        except ValueError as error:
            raise InputError(f"--require {text!r}: {share!r} is not a number; {examples}") from error
        if means and (figure or regime or opponent.strip() not in means or not math.isfinite(minimum)):
            raise InputError(f"--require {text!r}: {examples}")
        if not (means or 0.0 <= minimum <= 1.0):
            raise InputError(f"--require {text!r}: {share} is outside [0, 1]; give a share of the games, such as 0.95")
        return cls(text, figure or "win", opponent.strip() or "mean", regime, minimum)

    def check_names(self, opponents: Sequence[str], regimes: Sequence[str] = ()) -> None:
        """Raise `UnknownNameError` unless the opponent and the regime, in a game that has some, will be played."""
        names = [*SUMMARIES, *(HELD_OUT_SUMMARIES if held_out_names() & {*opponents} else ())]
        choose(f"opponent in --require {self.text!r}:", self.opponent, [*opponents, *names])
        if self.regime is not None and not regimes:
            raise InputError(f"--require {self.text!r}: no regimes are played; leave out @{self.regime}")
        if self.regime is not None:
            choose(f"regime in --require {self.text!r}:", self.regime, regimes)

    def failures(self, records: Sequence[OpponentRecord]) -> list[str]:
        """Return one line per regime with a share below the minimum, or without one. Call `check_names` first."""
        by_regime: dict[str, list[OpponentRecord]] = {}
        for record in records:
            by_regime.setdefault(getattr(record, "regime", ""), []).append(record)
        played = {name: rows for name, rows in by_regime.items() if self.regime in (None, name)}
        lines = [] if played else [f"--require {self.text!r} failed: no game was played"]
        for regime, rows in played.items():
            measured = self._measured(rows)
            if measured is None or not measured[0] >= self.minimum - _SLACK:  # NaN does not pass
                result = f"{measured[0]:.4f} {measured[1]}" if measured else f"{self.opponent} was left out"
                lines.append(f"--require {self.text!r} failed: {result}{f', regime {regime}' * bool(regime)}")
        return lines

    def of_mean(self, mean: float) -> list[str]:
        """Return a line if a mean of episodes is below the minimum; NaN does not pass."""
        passed = mean >= self.minimum - _SLACK
        return [] if passed else [f"--require {self.text!r} failed: {mean:.4f} on average"]

    def _measured(self, records: Sequence[OpponentRecord]) -> tuple[float, str] | None:
        """Return the share and what it is of; None if the opponent did not play."""
        figure = FIGURES[self.figure]
        name = "" if self.figure == "win" else f"{self.figure} "
        if self.opponent in (*SUMMARIES, *HELD_OUT_SUMMARIES):
            regular, held_out = groups(records)
            summary = summarize(held_out or regular if self.opponent in HELD_OUT_SUMMARIES else regular, figure)
            if self.opponent.endswith("mean"):
                return summary.mean, f"{name}on average"
            return summary.worst, f"{name}against {summary.worst_opponent}"
        record = next((record for record in records if record.opponent == self.opponent), None)
        if record is None:
            return None
        share: float = getattr(record, figure)
        if not isinstance(record, Scored):
            return share, f"{name}against {self.opponent}"
        drawn = f"{record.draws} drawn, " if name else ""
        return share, f"{name}({drawn}{record.wins} of {record.games} won)"


def check_names(texts: Iterable[str], names: Sequence[str], regimes: Sequence[str]) -> None:
    """Raise `InputError` for a requirement that is malformed, or of an opponent or a regime that is not played."""
    for requirement in map(Requirement.parse, texts):
        requirement.check_names(names, regimes)


def failures(texts: Iterable[str], records: Sequence[OpponentRecord]) -> tuple[str, ...]:
    """Return a line for each requirement that is not met."""
    return tuple(line for requirement in map(Requirement.parse, texts) for line in requirement.failures(records))


def parse_hypotheses(pairs: Iterable[tuple[str, str]]) -> Hypotheses:
    """Parse elo0, elo1, alpha and beta with their values, each optional. Raises `InputError` for invalid text."""
    values: dict[str, float] = {}
    for key, value in pairs:
        name, text = (key, value) if key else (value, "")
        choose("--sprt option", name, [field.name for field in fields(Hypotheses)])
        try:
            values[name] = float(text)
        except ValueError as error:
            raise InputError(f"--sprt {name}={text}: {text!r} is not a number; write {name}=20") from error
    hypotheses = Hypotheses(**values)
    hypotheses.check()
    return hypotheses


def sprt_markdown(
    player: str,
    opponent: str,
    verdict: SPRTVerdict,
    games: GameCounts,
    hypotheses: Hypotheses,
    notes: Sequence[str] = (),
) -> str:
    """Return the report of a finished test and its games; `notes` are on single players."""
    low, high = hypotheses.bounds
    answer = {
        "H1": f"{player} is stronger (H1 accepted)",
        "H0": f"{player} is not shown to be stronger (H0 accepted)",
        None: "undecided: the games ran out",
    }[verdict.accepted]
    counts = ", ".join(f"{score:g}: {count}" for score, count in zip(SCORES, verdict.pairs, strict=True))
    score = share_text(games.score, score_interval(verdict.pairs))
    return (
        f"# {player} against {opponent}: {answer}\n\n"
        f"H0: {hypotheses.elo0:g} Elo, H1: {hypotheses.elo1:g} Elo, alpha {hypotheses.alpha:g}, "
        f"beta {hypotheses.beta:g}\n\n"
        f"LLR {verdict.llr:.2f}, bounds {low:.2f} and {high:.2f}; {sum(verdict.pairs)} pairs of games, "
        f"by score {counts}; about {verdict.elo:+.0f} Elo\n\n"
        f"Score {score} %, decided {percent(games.decided)} %, won {percent(games.win_rate)} % of {games.games} games"
        f"{notes_markdown(notes)}\n"
    )
