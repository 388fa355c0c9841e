"""Metrics of the endings of a rollout's games of Diplomacy; names are listed in docs/metrics.md."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparring.envs.diplomacy.board.codes import SOLO
from sparring.envs.text import GameEnding

TOP = 3
DUMBBOT = "dumbbot"


def ending_metrics(endings: Sequence[GameEnding], heroes: Sequence[tuple[int, ...]], win_at: int) -> dict[str, float]:
    """Return metrics of `endings`; `heroes` are each group's learning powers, `win_at` the centres for the bonus."""
    seats = [(ending, power) for ending in endings for power in heroes[ending.group]]
    dumbbot = [(ending, power) for ending, power in seats if _against_dumbbots(ending, power)]
    metrics = {}
    if seats:
        places = [_place(ending, power) for ending, power in seats]
        metrics["game/avg_sc_count"] = _mean_centres(seats)
        metrics["game/win_bonus_rate"] = float(np.mean([_wins(e, p, win_at) for e, p in seats]))
        metrics |= {"placement/mean_rank": float(np.mean(places)), "placement/top3_rate": _share(places)}
    if dumbbot:
        metrics["dumbbot/win_rate"] = float(np.mean([e.scores[p] >= SOLO for e, p in dumbbot]))
        metrics["dumbbot/top3_rate"] = _share([_place(ending, power) for ending, power in dumbbot])
        metrics["dumbbot/avg_sc_count"] = _mean_centres(dumbbot)
    return metrics


def _mean_centres(seats: Sequence[tuple[GameEnding, int]]) -> float:
    return float(np.mean([ending.scores[power] for ending, power in seats]))


def _against_dumbbots(ending: GameEnding, power: int) -> bool:
    return all(name == DUMBBOT for other, name in enumerate(ending.players) if other != power)


def _place(ending: GameEnding, power: int) -> int:
    return 1 + sum(other > ending.scores[power] for other in ending.scores)


def _wins(ending: GameEnding, power: int, win_at: int) -> bool:
    """Return whether the power has more centres than any other, and at least `win_at`."""
    own = ending.scores[power]
    return own >= win_at and sum(other >= own for other in ending.scores) == 1


def _share(places: Sequence[int]) -> float:
    return float(np.mean([place <= TOP for place in places]))
