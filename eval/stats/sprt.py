"""Command line of the sequential test (`curriculum/sprt.py`): parsing of options, text of the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from sparring.configs.core.errors import InputError, choose
from sparring.curriculum.sprt import SCORES, Hypotheses, SPRTVerdict
from sparring.eval.stats.tables import notes_markdown


def parse_hypotheses(words: Sequence[str]) -> Hypotheses:
    """Parse `elo0=0 elo1=20 alpha=0.05 beta=0.05`, each optional. Raises `InputError` for invalid text."""
    values: dict[str, float] = {}
    for word in words:
        name, _, text = word.partition("=")
        choose("--sprt option", name, [field.name for field in fields(Hypotheses)])
        try:
            values[name] = float(text)
        except ValueError as error:
            raise InputError(f"--sprt {word}: {text!r} is no number; write {name}=20") from error
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
