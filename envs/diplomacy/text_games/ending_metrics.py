"""Metrics of the endings of a rollout's games of Diplomacy; names are listed in docs/metrics.md."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparring.configs.language import plain_bot
from sparring.envs.diplomacy.board.codes import NUM_POWERS
from sparring.envs.text import GameEnding

TOP, BOTTOM = 3, 5
DUMBBOT = "dumbbot"
ORDINALS = ("1st", "2nd", "3rd", "4th", "5th", "6th", "7th")
UNKNOWN = float("nan")


def ending_metrics(
    endings: Sequence[GameEnding], heroes: Sequence[tuple[int, ...]], win_at: int, *, dumbbot_games: bool
) -> dict[str, float]:
    """Return metrics of `endings`; `heroes` are each group's learning powers, `win_at` the centres for the bonus.

    With `dumbbot_games` those of games against six DumbBots are always there, NaN in a step without such a game.
    """
    seats = [(ending, power) for ending in endings for power in heroes[ending.group]]
    dumbbot = [(ending, power) for ending, power in seats if _against_dumbbots(ending, power)]
    metrics = {}
    if seats:
        places = [_place(ending, power) for ending, power in seats]
        metrics["game/avg_sc_count"] = _mean_centres(seats)
        metrics["game/win_bonus_rate"] = float(np.mean([_wins(e, p, win_at) for e, p in seats]))
        metrics |= {"placement/mean_rank": float(np.mean(places)), "placement/top3_rate": _share(places, 1, TOP)}
        metrics["placement/bottom3_rate"] = _share(places, BOTTOM, NUM_POWERS)
        metrics |= {f"placement/{name}_rate": _share(places, n, n) for n, name in enumerate(ORDINALS, start=1)}
    return metrics | (_dumbbot_metrics(dumbbot) if dumbbot or dumbbot_games else {})


def _dumbbot_metrics(seats: Sequence[tuple[GameEnding, int]]) -> dict[str, float]:
    """Return metrics of games against six DumbBots; a first place counts as a win, ties included."""
    places = [_place(ending, power) for ending, power in seats]
    known = {
        "win_rate": _share(places, 1, 1) if seats else UNKNOWN,
        "top3_rate": _share(places, 1, TOP) if seats else UNKNOWN,
        "avg_sc_count": _mean_centres(seats) if seats else UNKNOWN,
        "avg_placement": float(np.mean(places)) if seats else UNKNOWN,
    }
    return {"dumbbot/games_count": float(len(seats))} | {f"dumbbot/{name}": value for name, value in known.items()}


def _mean_centres(seats: Sequence[tuple[GameEnding, int]]) -> float:
    return float(np.mean([ending.scores[power] for ending, power in seats]))


def _against_dumbbots(ending: GameEnding, power: int) -> bool:
    return all(plain_bot(name) == DUMBBOT for other, name in enumerate(ending.players) if other != power)


def _place(ending: GameEnding, power: int) -> int:
    return 1 + sum(other > ending.scores[power] for other in ending.scores)


def _wins(ending: GameEnding, power: int, win_at: int) -> bool:
    """Return whether the power has more centres than any other, and at least `win_at`."""
    own = ending.scores[power]
    return own >= win_at and sum(other >= own for other in ending.scores) == 1


def _share(places: Sequence[int], first: int, last: int) -> float:
    return float(np.mean([first <= place <= last for place in places]))
