"""Probabilities of the orders that language models gave in one game, by phase, for the page of its replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sparring.envs.diplomacy.records.timeline import Odds, Phase

if TYPE_CHECKING:
    from sparring.agents.llm.backend import Decision
    from sparring.agents.llm.decoding.scoring import LineOdds
    from sparring.agents.llm.transformers_backend import TransformersBackend
    from sparring.envs.text import Prompt

MOST = 5
"""Alternatives listed; the others are summed up."""


class OddsKeeper:
    """Collect the odds of one `game` while it is played: callbacks `watch` and `after_phase` of `play_games`.

    `models` are those that compute odds; one on a server does not.
    """

    def __init__(self, game: int, models: Mapping[str, TransformersBackend]) -> None:
        self._game, self._models = game, models
        self._phases: list[list[Odds]] = [[]]

    def watch(self, prompt: Prompt, decision: Decision) -> None:
        """Record a decision."""
        if prompt.game == self._game and prompt.player in self._models:
            lines = self._models[prompt.player].odds(prompt, decision)
            self._phases[-1] += [_told(prompt.seat, line) for line in lines]

    def after_phase(self) -> None:
        """Start the next phase."""
        self._phases.append([])

    def added(self, phases: Sequence[Phase]) -> list[Phase]:
        """Return the game's phases, with odds where there are any."""
        found: list[Phase] = []
        for number, phase in enumerate(phases):
            odds = self._phases[number] if number < len(self._phases) else []
            found.append({**phase, "odds": odds} if odds else phase)
        return found


def note(temperature: float) -> str:
    """Return a note on the odds."""
    return (
        "Exact: over all legal options of this line, given the lines before, at temperature "
        f"{temperature or 1.0:g}{'' if temperature else '; in the game the likeliest token was taken each time'}."
    )


def _told(power: int, line: LineOdds) -> Odds:
    shares = zip(line.options, line.probabilities.tolist(), strict=True)
    others = [(option.text, share) for option, share in shares if option != line.chosen]
    return {
        "power": power,
        "text": line.chosen.text,
        "probability": line.of_chosen,
        "others": others[:MOST],
        "rest": (len(others[MOST:]), sum(share for _, share in others[MOST:])),
    }
