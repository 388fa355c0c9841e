"""Assignment of opponents: shares of the bots, and matches dealt to opponents by exact counts.

A bot of an earlier stage keeps a floor, because a policy forgets opponents it no longer plays. The current bots divide
the rest by their weights, or by loss rate, 1 - win rate + 0.05.

Dealing rounds shares to counts by largest remainder. The learner has seat `index % 2` of a match, so each opponent's
matches are divided over even and odd indices as evenly as counts allow. As many matches as possible keep their
opponent, since a change of opponent discards the match in progress.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

LOSS_FLOOR = 0.05  # Keeps a share for bots that are always beaten.
UNKNOWN_WIN_RATE = 0.5


def shares(
    current: Sequence[str],
    weights: Sequence[float] = (),
    *,
    met: Sequence[str] = (),
    floor: float = 0.0,
    adaptive: float = 0.0,
    win_rates: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return the shares of the matches against bots, summing to 1, for all bots of `met`, then `current`.

    Bots of `met` that are not in `current` get `floor` each. `weights` are positive, one per current bot; empty means
    equal. `adaptive` 0 keeps them, 1 replaces them by loss rates from `win_rates`, the learner's per bot (0.5
    where unknown); between, a mixture. Raises `ValueError` if the floors leave the current bots nothing.
    """
    if not current and not met:
        return {}
    earlier = [bot for bot in dict.fromkeys(met) if bot not in current]
    rest = 1.0 - floor * len(earlier)
    if rest <= 0.0:
        raise ValueError(f"floor={floor} for {len(earlier)} bots leaves nothing for {', '.join(current)}; lower it")
    weight = np.array(weights if len(weights) else [1.0] * len(current), dtype=np.float64)
    rates = np.array([(win_rates or {}).get(bot, UNKNOWN_WIN_RATE) for bot in current])
    losses = 1.0 - rates + LOSS_FLOOR
    # Convex combination, so that the parts sum to 1 for every `adaptive`.
    part = (1.0 - adaptive) * weight / weight.sum() + adaptive * losses / losses.sum()
    return dict.fromkeys(earlier, floor) | {bot: rest * float(p) for bot, p in zip(current, part, strict=True)}


def counts(share: Sequence[float] | np.ndarray, n: int) -> np.ndarray:
    """Round `share` [K] of `n` to whole counts, int64 [K], by largest remainder; ties go to the lower index.

    Raises `ValueError` unless the shares are at least 0 and sum to 1.
    """
    exact = np.asarray(share, dtype=np.float64)
    if not (np.all(exact >= 0.0) and abs(exact.sum() - 1.0) < 1e-6):
        raise ValueError(f"shares {exact.tolist()} are no shares; give numbers of at least 0 that sum to 1")
    exact = exact / exact.sum() * n
    whole = np.floor(exact).astype(np.int64)
    # Largest remainder first. Rounding makes those of shares such as 0.1 equal, so that ties are real ties.
    order = np.argsort(np.round(whole - exact, 9), kind="stable")
    whole[order[: n - int(whole.sum())]] += 1
    return whole


def deal(share: Sequence[float] | np.ndarray, n: int, current: np.ndarray | None = None) -> np.ndarray:
    """Give each of `n` matches an opponent, int32 [n]: indices into `share` [K].

    Counts are exact, each opponent's matches are split over even and odd indices to within one, and under both
    conditions the fewest possible matches differ from `current` [n]. Opponents in `current` that are not in
    `range(K)` count as gone. Of an opponent with a surplus the last matches change; the result is deterministic.

    Raises `ValueError` for a `current` of another shape.
    """
    dealt = np.full(n, -1, dtype=np.int32) if current is None else np.array(current, dtype=np.int32)
    if dealt.shape != (n,):
        raise ValueError(f"current has shape {dealt.shape}; give the opponents of all {n} matches")
    total = counts(share, n)
    held = np.stack([_count_matches(dealt[seat::2], len(total)) for seat in (0, 1)])
    for seat, target in enumerate(_split(total, held, (n + 1) // 2)):
        dealt[seat::2] = _change_surplus(dealt[seat::2], target)
    return dealt


def _count_matches(dealt: np.ndarray, opponents: int) -> np.ndarray:
    """Count the matches of each opponent, int64 [K]."""
    return np.bincount(dealt[(dealt >= 0) & (dealt < opponents)], minlength=opponents)


def _split(total: np.ndarray, held: np.ndarray, evens: int) -> np.ndarray:
    """Divide `total` [K] over the two seats, [2, K], the even one getting `evens` matches in all.

    An odd total leaves one match over. It goes to the even seat for those opponents that hold more than their half
    there and do not on the odd seat, as far as the even seat has room.
    """
    half = total // 2  # Of each opponent's matches, for either seat.
    saved = (held[0] > half).astype(int) - (held[1] > half).astype(int)
    order = np.argsort(-saved, kind="stable")
    leftover = order[total[order] % 2 == 1][: evens - int(half.sum())]
    even = half.copy()
    even[leftover] += 1
    return np.stack([even, total - even])


def _change_surplus(dealt: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Change as few entries of `dealt` [m] as it takes to hold each opponent `target` [K] times."""
    changed = dealt.copy()
    free = np.ones(len(dealt), dtype=bool)
    for opponent, wanted in enumerate(target):
        free[np.flatnonzero(dealt == opponent)[:wanted]] = False
    missing = target - _count_matches(dealt[~free], len(target))
    changed[free] = np.repeat(np.arange(len(target)), missing)
    return changed
