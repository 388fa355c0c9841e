"""Recorded matches of `AirCombatBatch`: samples of the state once a step, bursts of the gun, and the result.

A recorder reads the batch's state after every step and needs nothing of the kernels. The state at the very end of a
match is gone by then, the next match is on: its last sample is the one before, moved on by at most one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparring.envs.air_combat import rules

if TYPE_CHECKING:
    from sparring.envs.air_combat.batch import AirCombatBatch

_KEPT = ("pos", "vel", "nose", "up", "load", "roll_rate", "alpha", "power", "hp", "rounds")


@dataclass(frozen=True)
class Burst:
    """A burst of the gun while it was seen: ticks of the first and last sample, and its state at the first."""

    seat: int
    first: int
    last: int
    pos: tuple[float, float, float]
    vel: tuple[float, float, float]
    early: bool
    """It ended before its time, by a hit or with the match."""


@dataclass(frozen=True)
class AirRecording:
    """One match, T samples of P aircraft."""

    names: tuple[str, ...]
    """Players of the aircraft [P]."""
    model: str
    gun: str
    ticks: np.ndarray
    """int [T], from 0, ascending; the last is the length of the match."""
    planes: np.ndarray
    """Structured [T, P]: `pos`, `vel`, `nose`, `up`, `load`, `roll_rate`, `alpha`, `power`, `hp`, `rounds` as in
    `kernels.state.Plane`; world axes are north, east and down."""
    bursts: tuple[Burst, ...]
    outcome: int
    """0: draw, else 1 + the winner (two aircraft: its seat)."""
    title: str = ""
    notes: str = ""
    """What a person says of the match, in plain text."""


class AirRecorder:
    """Recorder of the first match in each of the first `games` rows of a batch; call it after every step.

    Make it after the batch's reset. `recordings` returns the matches that have ended.
    """

    def __init__(self, batch: AirCombatBatch, games: int = 1) -> None:
        if not 1 <= games <= batch.num_envs:
            raise ValueError(f"games={games}: must be in [1, {batch.num_envs}], the matches of the batch")
        self._rows = [_Row() for _ in range(games)]
        self._model, self._gun = batch.model, batch.gun
        state = batch.snapshot()
        for place, row in enumerate(self._rows):
            row.add(int(state["clock"]["tick"][place]), state["planes"][place], state["rounds"][place])

    @property
    def done(self) -> bool:
        """True once every recorded match has ended."""
        return all(row.outcome >= 0 for row in self._rows)

    def __call__(self, batch: AirCombatBatch) -> None:
        """Store the state of the matches still in progress."""
        if self.done:
            return
        state = batch.snapshot()
        for place, row in enumerate(self._rows):
            if row.outcome >= 0:
                continue
            if (outcome := int(batch.outcome[place])) >= 0:
                row.finish(outcome, int(batch.length[place]), batch.final_hp[place].cpu().numpy())
            else:
                row.add(int(state["clock"]["tick"][place]), state["planes"][place], state["rounds"][place])

    def recordings(self, names: Sequence[str], *, title: str = "", notes: str = "") -> list[AirRecording]:
        """Return the recorded matches between players of these names. Raises `ValueError` if one has not ended."""
        if not self.done:
            raise ValueError("a recorded match has not ended: play on until every match has a result")
        told = []
        for row in self._rows:
            if len(names) != len(row.samples[0]):
                raise ValueError(f"names={list(names)}: give one for each of {len(row.samples[0])} aircraft")
            ticks, planes = np.array(row.ticks), np.stack(row.samples)
            made = AirRecording(
                tuple(names), self._model, self._gun, ticks, planes, tuple(row.ended_bursts), row.outcome
            )
            told.append(replace(made, title=title or " vs ".join(names), notes=notes))
        return told


class FirstGame:
    """Recorder of the first match of a batch from its first step on; for `agents.play.dogfight_matches.play`."""

    def __init__(self) -> None:
        self._recorder: AirRecorder | None = None

    def __call__(self, batch: AirCombatBatch, step: int) -> None:
        """Store the state after a step."""
        if self._recorder is None:
            self._recorder = AirRecorder(batch)
        else:
            self._recorder(batch)

    def recordings(self, names: Sequence[str]) -> list[AirRecording]:
        """Return the match, as `AirRecorder.recordings`."""
        return self._recorder.recordings(names) if self._recorder else []


@dataclass
class _Row:
    """Samples of one match."""

    ticks: list[int] = field(default_factory=list)
    samples: list[np.ndarray] = field(default_factory=list)
    ended_bursts: list[Burst] = field(default_factory=list)
    outcome: int = -1
    _flying: dict[int, tuple[int, Any, int]] = field(default_factory=dict)
    """By slot: tick first seen, state then, and life at the last sample."""

    def add(self, tick: int, planes: np.ndarray, rounds: np.ndarray) -> None:
        self._add_bursts(tick, rounds)
        self.ticks.append(tick)
        self.samples.append(planes[list(_KEPT)].copy())

    def finish(self, outcome: int, length: int, hp: np.ndarray) -> None:
        """Add the sample of the end: the last one moved on with its velocity and acceleration."""
        self.outcome = outcome
        last, before = self.samples[-1].copy(), self.samples[max(len(self.samples) - 2, 0)]
        seconds = (length - self.ticks[-1]) * rules.DT
        passed = max(self.ticks[-1] - self.ticks[max(len(self.ticks) - 2, 0)], 1) * rules.DT
        gained = (last["vel"] - before["vel"]) / passed * seconds
        last["pos"] += (last["vel"] + 0.5 * gained) * seconds
        last["pos"][..., 2] = np.minimum(last["pos"][..., 2], -rules.FLOOR)
        last["vel"] += gained
        last["hp"] = hp
        self.ticks.append(length)
        self.samples.append(last)
        for slot in list(self._flying):
            self._end(slot, length, early=True)

    def _add_bursts(self, tick: int, rounds: np.ndarray) -> None:
        """Follow the bursts by their slots: a life that does not fall with the ticks is another burst."""
        for slot, burst in enumerate(rounds):
            life = int(burst["life"])
            if slot in self._flying:
                passed = tick - self.ticks[-1]
                due = self._flying[slot][2] - passed
                if life == due and life > 0:
                    self._flying[slot] = (*self._flying[slot][:2], life)
                    continue
                self._end(slot, self.ticks[-1] + min(passed, self._flying[slot][2]), early=due > 0)
            if life > 0:
                self._flying[slot] = (tick, burst.copy(), life)

    def _end(self, slot: int, tick: int, *, early: bool) -> None:
        first, burst, _ = self._flying.pop(slot)
        pos, vel = (tuple(float(part) for part in burst[name]) for name in ("pos", "vel"))
        self.ended_bursts.append(Burst(slot // rules.SLOTS, first, tick, pos, vel, early))  # type: ignore[arg-type]
