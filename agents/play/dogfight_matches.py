"""Matches of the dogfight between two contestants: their conditions, and `duel_matches.play` under the default ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sparring.agents.play import duel_matches
from sparring.agents.play.duel_matches import Contestant, DuelSettings, MatchResults, Recorder
from sparring.envs.dogfight import rules as game
from sparring.envs.dogfight.batch import DogfightBatch


@dataclass(frozen=True)
class MatchSettings:
    """Conditions of matches; the options are those of `DogfightBatch`.

    `ranges` [13, 2] randomizes the physics, None keeps the defaults.
    """

    rules: str = "classic"
    action_repeat: int = game.ACTION_REPEAT
    bot_rate: str = "tick"
    spawn: str = "random"
    observe_physics: bool = True
    ranges: np.ndarray | None = None
    max_ticks: int = game.MAX_TICKS
    device: str = "cpu"
    threads: int = 0
    trace: int = 0

    def batch(self, games: int) -> DogfightBatch:
        """Create a batch of `games` matches under these conditions."""
        options = dict(vars(self))
        ranges = options.pop("ranges")
        batch = DogfightBatch(games, **options)
        batch.set_ranges(game.ranges("none") if ranges is None else ranges)
        return batch

    def under(self, ranges: np.ndarray) -> MatchSettings:
        """Return these conditions in physics drawn from `ranges`."""
        return replace(self, ranges=ranges)

    def filmed(self) -> MatchSettings:
        """Return these conditions with the first match traced."""
        return replace(self, trace=1)


def play(
    left: Contestant,
    right: Contestant,
    *,
    games: int,
    seed: int,
    setting: DuelSettings | None = None,
    recorder: Recorder | None = None,
) -> MatchResults:
    """Play `games` matches, by default under the conditions of `MatchSettings()`; see `duel_matches.play`."""
    setting = setting or MatchSettings()
    return duel_matches.play(left, right, games=games, seed=seed, setting=setting, recorder=recorder)
