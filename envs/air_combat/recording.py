"""Recorded matches of `AirCombatBatch`: one state sample per step, bursts, missiles and flares, and the result.

A recorder reads the batch's state after every step, independent of the kernels. The final state of a match is
overwritten by the next match. Its last sample is therefore extrapolated from the previous one by at most one step, in a
duel to the last observed height.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.airframe.missile import FLARE_BURN_S

if TYPE_CHECKING:
    from sparring.envs.air_combat.batch import AirCombatBatch

_KEPT = ("pos", "vel", "nose", "up", "load", "roll_rate", "alpha", "power", "hp", "rounds")
_HEIGHT = rules.OBSERVATION.index("height")
_STORES = {"missiles": "missile", "flares": "flare"}
FLARE_TICKS = round(FLARE_BURN_S * rules.TICKS_PER_SECOND)
"""Ticks that a flare burns."""
_NEAR_HIT = 30.0
"""Maximum closest approach in m at which an ended missile counts as hitting an aircraft that lost hp in that step."""


@dataclass(frozen=True)
class Burst:
    """A burst of the gun while it was seen: ticks of the first and last sample, and its state at the first."""

    seat: int
    first: int
    last: int
    pos: tuple[float, float, float]
    vel: tuple[float, float, float]
    early: bool
    """Whether it ended early, by a hit or with the match."""


@dataclass(frozen=True)
class Release:
    """A missile or a flare in the air, T samples; the first is the end of the step of its launch."""

    kind: str
    """missile or flare."""
    seat: int
    """Aircraft that launched it."""
    slot: int
    """Its slot in the state; flares reuse free slots."""
    ticks: np.ndarray
    """int [T]."""
    path: np.ndarray
    """float [T, 6]: place (m) and velocity (m/s) in world axes."""
    targets: np.ndarray
    """int [T]: the aircraft that a missile follows, from the number of aircraft on a flare's slot, -1 for none."""
    hit: int = -1
    """Aircraft that its warhead hit; the last sample is where."""

    def decoys(self, aircraft: int) -> np.ndarray:
        """Return the samples at which it turned from one of `aircraft` aircraft to a flare, int [D]."""
        return np.flatnonzero((self.targets[1:] >= aircraft) & (self.targets[:-1] < aircraft)) + 1


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
    """-1: not ended, 0: draw, else 1 + the side that won (two aircraft: its seat)."""
    title: str = ""
    notes: str = ""
    """Notes on the match in plain text."""
    releases: tuple[Release, ...] = ()
    """Missiles and flares, by the tick of their launch."""
    carried: tuple[int, int] = (0, 0)
    """Missiles and flares of each aircraft at the start."""


class AirRecorder:
    """Recorder of the first match in each of the first `games` rows of a batch; call it after every step.

    Create it after the batch's reset. `recordings` returns the matches that have ended.
    """

    def __init__(self, batch: AirCombatBatch, games: int = 1) -> None:
        if not 1 <= games <= batch.num_envs:
            raise ValueError(f"games={games}: must be in [1, {batch.num_envs}], the matches of the batch")
        self._rows = [_Row() for _ in range(games)]
        self._model, self._gun = batch.model, batch.gun
        self._carried = (batch.options.missiles, batch.options.flares)
        state = batch.snapshot()
        for index, row in enumerate(self._rows):
            row.add(state, index)

    @property
    def done(self) -> bool:
        """True once every recorded match has ended."""
        return all(row.outcome >= 0 for row in self._rows)

    def __call__(self, batch: AirCombatBatch) -> None:
        """Store the state of the matches still in progress."""
        if self.done:
            return
        state = batch.snapshot()
        for index, row in enumerate(self._rows):
            if row.outcome >= 0:
                continue
            if (outcome := int(batch.outcome[index])) >= 0:
                # A lost aircraft of a team observes zeros; it is where it was lost.
                height = batch.final_obs[index, :, _HEIGHT].cpu().numpy() * 10_000.0 if batch.seats == 2 else None
                row.finish(outcome, int(batch.length[index]), batch.final_hp[index].cpu().numpy(), height)
            else:
                row.add(state, index)

    def recordings(
        self, names: Sequence[str], *, title: str = "", notes: str = "", unfinished: bool = False
    ) -> list[AirRecording]:
        """Return the recorded matches between players of these names.

        Raises `ValueError` if one has not ended, unless `unfinished` allows partial matches.
        """
        if not self.done and not unfinished:
            raise ValueError("a recorded match has not ended: play on until every match has a result")
        recordings = []
        for row in self._rows:
            if len(names) != len(row.samples[0]):
                raise ValueError(f"names={list(names)}: give one for each of {len(row.samples[0])} aircraft")
            ticks, planes = np.array(row.ticks), np.stack(row.samples)
            recording = AirRecording(
                tuple(names), self._model, self._gun, ticks, planes, tuple(row.ended_bursts), row.outcome
            )
            releases, named = row.releases(), title or " vs ".join(names)
            recordings.append(replace(recording, title=named, notes=notes, releases=releases, carried=self._carried))
        return recordings


class FirstGame:
    """Recorder of the first match of a batch from its first step on; for `agents.play.duel_matches.play`."""

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
    """Bursts by slot: tick first seen, state then, and life at the last sample."""
    _tracks: dict[tuple[str, int], list[tuple[int, int, Any]]] = field(default_factory=dict)
    """Missiles and flares in the air by kind and slot: tick, age and state of each sample."""
    _releases: list[Release] = field(default_factory=list)
    """Those that have ended."""
    _seats: dict[tuple[str, int], int] = field(default_factory=dict)

    def add(self, state: dict[str, np.ndarray], index: int) -> None:
        """Add a sample of match `index` of a snapshot."""
        tick, planes = int(state["clock"]["tick"][index]), state["planes"][index]
        self._add_bursts(tick, state["rounds"][index])
        self.ticks.append(tick)
        self.samples.append(planes[list(_KEPT)].copy())
        for name, kind in _STORES.items():
            if name in state:
                self._add_stores(tick, kind, state[name][index])

    def finish(self, outcome: int, length: int, hp: np.ndarray, height: np.ndarray | None) -> None:
        """Add the sample of the end: the last one moved on with its velocity and acceleration, at its `height` in m."""
        # With teams an outcome has a bit for every seat of the side that won.
        self.outcome = outcome if outcome <= 0 else 1 if outcome & 1 else 2
        last, before = self.samples[-1].copy(), self.samples[max(len(self.samples) - 2, 0)]
        seconds = (length - self.ticks[-1]) * rules.DT
        passed = max(self.ticks[-1] - self.ticks[max(len(self.ticks) - 2, 0)], 1) * rules.DT
        gained = (last["vel"] - before["vel"]) / passed * seconds
        last["pos"] += (last["vel"] + 0.5 * gained) * seconds
        if height is not None:
            last["pos"][..., 2] = -height
        last["pos"][..., 2] = np.minimum(last["pos"][..., 2], -rules.FLOOR)
        last["vel"] += gained
        last["hp"] = hp
        self.ticks.append(length)
        self.samples.append(last)
        for slot in list(self._flying):
            self._end(slot, length, early=True)
        for key in list(self._tracks):
            self._end_store(key)

    def releases(self) -> tuple[Release, ...]:
        """Return missiles and flares, including those in the air."""
        flying = [self._release(key) for key in self._tracks]
        return tuple(sorted([*self._releases, *flying], key=lambda track: int(track.ticks[0])))

    def _add_stores(self, tick: int, kind: str, slots: np.ndarray) -> None:
        """Track missiles or flares by slot: an age that does not grow with the ticks is a new one."""
        for slot, store in enumerate(slots):
            key = (kind, slot)
            life = int(store["age"] if kind == "missile" else store["life"])
            age = life if kind == "missile" or life == 0 else FLARE_TICKS - life + 1
            track = self._tracks.get(key)
            if track and (age == 0 or age <= track[-1][1]):
                self._end_store(key)
            if age > 0:
                self._seats[key] = slot * len(self.samples[-1]) // len(slots)
                self._tracks.setdefault(key, []).append((tick, age, store.copy()))

    def _release(self, key: tuple[str, int]) -> Release:
        kind, slot = key
        ticks, _, states = zip(*self._tracks[key], strict=True)
        path = np.array([[*state["pos"], *state["vel"]] for state in states], dtype=np.float32)
        targets = np.array([int(state["target"]) if kind == "missile" else -1 for state in states])
        return Release(kind, self._seats[key], slot, np.array(ticks), path, targets)

    def _end_store(self, key: tuple[str, int]) -> None:
        """Close a track in the last sample, and look whether a missile's warhead went off."""
        release = self._release(key)
        del self._tracks[key]
        self._releases.append(self._burst_near(release) if release.kind == "missile" else release)

    def _burst_near(self, missile: Release) -> Release:
        """Return a missile with its end, where an aircraft of the other side lost hp next to it in the last step."""
        before, now = self.samples[-2:]
        seconds = (self.ticks[-1] - int(missile.ticks[-1])) * rules.DT
        point, vel = missile.path[-1, :3], missile.path[-1, 3:]
        nearest, ended = _NEAR_HIT, missile
        for seat in np.flatnonzero(now["hp"] < before["hp"]):
            if (2 * seat < len(now)) == (2 * missile.seat < len(now)):
                continue
            gap = before["pos"][seat] - point
            relative = (now["pos"][seat] - before["pos"][seat]) / seconds - vel
            moment = float(np.clip(-(gap @ relative) / max(float(relative @ relative), 1e-6), 0.0, seconds))
            distance = float(np.linalg.norm(gap + relative * moment))
            if distance < nearest:
                nearest, passed = distance, max(round(moment / rules.DT), 1)
                end = np.concatenate([point + vel * (passed * rules.DT), vel]).astype(np.float32)
                ended = replace(
                    missile,
                    ticks=np.append(missile.ticks, missile.ticks[-1] + passed),
                    path=np.concatenate([missile.path, end[None]]),
                    targets=np.append(missile.targets, seat),
                    hit=int(seat),
                )
        return ended

    def _add_bursts(self, tick: int, rounds: np.ndarray) -> None:
        """Track bursts by slot: a life that does not fall with the ticks is a new burst."""
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
