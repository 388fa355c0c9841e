"""Matches of the dogfight between two contestants: `duel_matches.play` under the default conditions."""

from __future__ import annotations

from sparring.agents.play import duel_matches
from sparring.agents.play.duel_matches import Contestant, DuelSettings, MatchResults, Recorder
from sparring.envs.dogfight.batch import MatchSettings as MatchSettings


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
