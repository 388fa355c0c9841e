"""The training schedule: opponents and physics of each update, a pure function of its number and the win rates.

The phases are placed one after the other, and the number of the update determines opponents, self-play share,
randomization and events.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from operator import itemgetter

import numpy as np

from sparring.configs.schema import EventConfig, PhaseConfig, StageConfig
from sparring.curriculum.opponents import shares
from sparring.envs.game import games, load


@dataclass(frozen=True)
class TrainingPlan:
    """Opponents, physics and events of one update."""

    update: int
    """Number of the update, from 0."""
    phase: str
    phase_index: int
    phase_update: int
    """Place in the phase, in scheduled updates from 0."""
    stage: int
    """Index into the phase's stages; -1 while it keeps the last bots of the previous phase."""
    current: tuple[str, ...]
    """The bots of the stage."""
    bots: dict[str, float]
    """Share of the scripted matches for every bot introduced so far, oldest first; sums to 1."""
    scripted_share: float
    """Share of all matches that are against bots; the rest is self-play."""
    randomization: Randomization
    events: tuple[EventConfig, ...]
    """Events to carry out once before this update."""


@dataclass(frozen=True)
class _Stretch:
    """A stage from update `start` on, with the bots of all earlier stages in `met`."""

    start: int
    phase: int
    stage: int
    config: StageConfig
    met: tuple[str, ...]


class Schedule:
    """The plan of a whole run, without state.

    `phases` must have passed `configs.validate`: the first begins with a stage at 0, or no match has an opponent.
    """

    def __init__(self, phases: Sequence[PhaseConfig]) -> None:
        self._phases = list(phases)
        self._starts = [0, *accumulate(phase.updates for phase in phases)]
        self.total_updates = self._starts[-1]
        """Updates of the whole schedule."""
        self._stretches = _stretches(self._phases, self._starts)
        self._begins = [stretch.start for stretch in self._stretches]
        self._levels = [
            (start + entry.at, entry)
            for start, phase in zip(self._starts, phases, strict=False)
            for entry in phase.randomization
        ]
        self._events = [
            (start + event.at, event)
            for start, phase in zip(self._starts, phases, strict=False)
            for event in sorted(phase.events, key=lambda event: event.at)
        ]

    def plan(self, update: int, win_rates: Mapping[str, float]) -> TrainingPlan:
        """Return the plan of an update by number, given the learner's recent win rate per bot, in [0, 1]."""
        stretch = self._stretches[bisect_right(self._begins, update) - 1]
        phase, phase_update = self._phases[stretch.phase], update - self._starts[stretch.phase]
        done = phase_update / max(phase.updates - 1, 1)  # 0 at the first update, 1 at the last
        return TrainingPlan(
            update=update,
            phase=phase.name,
            phase_index=stretch.phase,
            phase_update=phase_update,
            stage=stretch.stage,
            current=tuple(stretch.config.bots),
            bots=shares(
                stretch.config.bots,
                met=stretch.met,
                floor=phase.floor,
                adaptive=phase.adaptive,
                win_rates=win_rates,
            ),
            scripted_share=phase.scripted_start + done * (phase.scripted_end - phase.scripted_start),
            randomization=self._randomization(update),
            events=tuple(event for at, event in self._events if at == update),
        )

    def _randomization(self, update: int) -> Randomization:
        reached = bisect_right(self._levels, update, key=itemgetter(0))
        if reached == 0:
            return Randomization()
        # Ranges move from the whole previous level, even if it was not reached, to the latest one.
        start, entry = self._levels[reached - 1]
        previous = self._levels[reached - 2][1].level if reached > 1 else "none"
        if entry.over == 0:
            return Randomization(previous, entry.level)
        # Step k of `steps` begins k / steps of the way through `over`, so that the last is used before `over` ends.
        step = min((update - start) * entry.steps // entry.over + 1, entry.steps)
        return Randomization(previous, entry.level, step / entry.steps)


def _stretches(phases: Sequence[PhaseConfig], starts: Sequence[int]) -> list[_Stretch]:
    """Place the stages of all phases; a phase without a stage at 0 continues the last stage before it."""
    placed: list[tuple[int, int, int, StageConfig]] = []
    for index, phase in enumerate(phases):
        if not phase.stages or phase.stages[0].at > 0:
            placed.append((starts[index], index, -1, placed[-1][3] if placed else StageConfig()))
        placed += [(starts[index] + stage.at, index, number, stage) for number, stage in enumerate(phase.stages)]
    stretches: list[_Stretch] = []
    met: tuple[str, ...] = ()
    for start, phase_index, number, stage in placed:
        stretches.append(_Stretch(start, phase_index, number, stage, met))
        met = tuple(dict.fromkeys([*met, *stage.bots]))
    return stretches


@dataclass(frozen=True)
class Randomization:
    """`fraction` in [0, 1] of the way from `previous` to `level`, each a level or a regime."""

    previous: str = "none"
    level: str = "none"
    fraction: float = 1.0

    def ranges(self) -> np.ndarray:
        """Return the lower and upper bound of every parameter of the game with these levels, float32 [K, 2]."""
        return _bounds(self.previous, self.level, self.fraction).copy()

    @property
    def width(self) -> float:
        """Mean width of the ranges relative to the level full, 0 to 1; logged as a metric."""
        if self.previous == self.level == "none":
            return 0.0
        bounds, full = _bounds(self.previous, self.level, self.fraction), _bounds("full", "full", 1.0)
        return float((np.diff(bounds.astype(np.float64)) / np.diff(full.astype(np.float64))).mean())

    def __str__(self) -> str:
        return self.level if self.fraction == 1.0 else f"{self.previous} to {self.level} {self.fraction:.0%}"


@cache
def _bounds(previous: str, level: str, fraction: float) -> np.ndarray:
    """Return the ranges between two levels of the game whose physics can be randomized."""
    bounds: np.ndarray = load(next(game.physics for game in games() if game.physics))(previous, level, fraction)
    return bounds
