"""Recorded matches: the trace of a match, a recorder that fills it during stepping, and short player names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparring.envs.dogfight.frame import HP, TICK

if TYPE_CHECKING:
    from sparring.envs.dogfight.batch import DogfightBatch

LONGEST_NAME = 14
"""Maximum characters of a short name, without the number that distinguishes equal names."""


@dataclass(frozen=True)
class Recording:
    """Trace of one match, a row per tick."""

    title: str
    left: str
    """Player in seat 0, which starts on the left."""
    right: str
    rules: str
    regime: str
    max_hp: int
    rows: np.ndarray
    """float32 [T, 29], a row per tick starting at tick 1, columns as in `TRACE_FIELDS`."""
    outcome: int
    """0: draw, 1: seat 0 won, 2: seat 1 won."""


class Recorder:
    """Recorder of the first match in each of the first `games` places of a batch, which must trace that many.

    Call it after every step, as `play(..., recorder=...)` of `agents/play/duel_matches.py` does.
    """

    def __init__(self, games: int) -> None:
        if games < 1:
            raise ValueError(f"games={games}: record at least 1")
        self.games = games
        self._rows: list[list[np.ndarray]] = [[] for _ in range(games)]
        self._outcomes: list[int | None] = [None] * games
        self._places = 0

    def __call__(self, batch: DogfightBatch, step: int = 0) -> None:
        """Store `batch.trace` of the matches still in progress; `step` is ignored."""
        if all(outcome is not None for outcome in self._outcomes):
            return
        if len(batch.trace) < self.games:
            raise ValueError(f"trace={len(batch.trace)}: a recorder of {self.games} games needs trace={self.games}")
        self._places = batch.num_envs
        trace = batch.trace[: self.games].cpu().numpy()
        outcomes = batch.outcome[: self.games].tolist()
        for index, outcome in enumerate(outcomes):
            if self._outcomes[index] is None:
                played = trace[index, :, TICK] >= 0
                self._rows[index].append(trace[index, played])  # Mask indexing copies.
                self._outcomes[index] = outcome if outcome >= 0 else None

    def recordings(
        self, *, left: str, right: str, title: str = "", rules: str = "classic", regime: str = "default"
    ) -> list[Recording]:
        """Return the recorded matches of `left` against `right`, one per place, seats as in `play`.

        Seats are swapped in the second half of the batch. Raises `ValueError` if a match has not ended.
        """
        return [self._recording(index, left, right, title, rules, regime) for index in range(self.games)]

    def _recording(self, index: int, left: str, right: str, title: str, rules: str, regime: str) -> Recording:
        outcome = self._outcomes[index]
        if outcome is None:
            raise ValueError(f"recorded match {index} has not ended: play on until every match has a result")
        if index >= (self._places + 1) // 2:
            left, right = right, left
        rows = np.concatenate(self._rows[index])
        max_hp = int(rows[0, HP])  # No bullet can hit within the first tick.
        return Recording(title or f"{left} vs {right}", left, right, rules, regime, max_hp, rows, outcome)


def short_names(left: str, right: str) -> tuple[str, str]:
    """Return short names of both players for labels next to their aircraft; equal names are numbered."""
    short = short_name(left), short_name(right)
    return (f"{short[0]} 1", f"{short[1]} 2") if short[0] == short[1] else short


def short_name(name: str) -> str:
    """Return a player's name without folders, suffixes and the game, in whole words of at most 14 characters.

    `released/dogfight_quickstart` is quickstart, `brisk-viper-run` brisk-viper, `run/step_2000000.pt` run 2M, and
    `my_package.bots:Mine` Mine. A single word is cut only if it is too long.
    """
    plain = " ".join(name.split())
    parts = re.sub(r"\.(pt|onnx|zip)$", "", plain).rpartition(":")[2].rstrip("/").split("/")
    if len(parts) > 1 and parts[-1] in ("final", "best", "model"):
        parts.pop()
    step = re.fullmatch(r"step_(\d+)", parts[-1])
    words = re.sub(r"^dogfight_|-run$", "", parts[-2 if step and len(parts) > 1 else -1])
    return _fit(words, f" {_count(int(step[1]))}" if step else "") or _fit(plain, "")


def _fit(words: str, end: str) -> str:
    """Return as many whole words as leave room for `end`, or the start of the first one."""
    room = LONGEST_NAME - len(end)
    if len(words) <= room:
        return words + end
    match = re.match(rf".{{1,{room}}}(?=[-_ .])", words)
    return (match[0].rstrip("-_ .") if match else words[: room - 1] + "…") + end


def _count(number: int) -> str:
    """Return a number of steps in at most four characters: 950, 50k, 2M."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.2g}{unit}" if number < 10 * size else f"{number // size}{unit}"
    return str(number)
