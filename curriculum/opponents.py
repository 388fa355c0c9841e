"""The opponents of a run: their labels, their shares of the matches, and the matches dealt to them by exact counts.

A label is a short name of a checkpoint, an ONNX file or a Python object. Metrics, the league and the schedule use it.
It depends only on the configuration's text, so a resumed run finds its results again. For example, `runs/hawk/final.pt`
is `hawk`, `agent.onnx` is `agent`, `my_bots:Mine` is `Mine`, `search:seconds=1` is `search`.

A bot of an earlier stage keeps a floor, because a policy forgets opponents it no longer plays. The current bots divide
the rest equally, or by loss rate, 1 - win rate + 0.05.

Dealing rounds shares to counts by largest remainder. The learner has seat `index % 2` of a match, so each opponent's
matches are divided over even and odd indices as evenly as counts allow. As many matches as possible keep their
opponent, since a change of opponent discards the match in progress.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

import numpy as np

from sparring.configs.schema import NamedOpponentsRunConfig, PhaseConfig, PPORunConfig, StageConfig
from sparring.curriculum.league.league import BASE_MODEL, CHALLENGER

TAKEN = ("selfplay", CHALLENGER, BASE_MODEL)
"""Names with another meaning in metrics or in the league."""


def label_of(text: str) -> str:
    """Return the label of an opponent other than a bot, before duplicates are numbered."""
    if options := re.match(r"([a-z]+):\w+=", text):
        return options[1]
    path = PurePath(text.rpartition(":")[2])
    named = path.parent.name if path.name in ("final.pt", "final") and path.parent.name else path.name
    stem = re.sub(r"\.(pt|onnx|zip)$", "", named)
    return re.sub(r"[^A-Za-z0-9._-]", "_", stem) or "opponent"


def opponent_labels(texts: Iterable[str], bots: Sequence[str]) -> dict[str, str]:
    """Return a label for each text, bots for themselves; equal labels are numbered in order."""
    labels: dict[str, str] = {}
    for text in dict.fromkeys(texts):
        label, number = label_of(text), 1
        while text not in bots and (label in (*bots, *TAKEN, *labels.values()) or label.startswith("snapshot_")):
            number += 1
            label = f"{label_of(text).removeprefix('snapshot_')}-{number}"
        labels[text] = text if text in bots else label
    return labels


def opponent_phases(config: PPORunConfig) -> list[PhaseConfig]:
    """Return the phases with the opponents that act in them, as written.

    `against` replaces the bots of every stage. Of `opponents`, those that no stage names join every stage.
    """
    if not isinstance(config, NamedOpponentsRunConfig):
        return config.phases
    named = {bot for phase in config.phases for stage in phase.stages for bot in stage.bots}
    joining = [] if config.against else [text for text in config.opponents if text not in named]
    return [replace(phase, stages=[_stage(stage, config.against, joining) for stage in phase.stages])
            for phase in config.phases]  # fmt: skip


def labelled_phases(config: PPORunConfig) -> list[PhaseConfig]:
    """Return the phases by which the schedule goes: `opponent_phases` with labels."""
    phases, labels = opponent_phases(config), labels_of_run(config)
    return [
        replace(phase, stages=[replace(stage, bots=[labels[bot] for bot in stage.bots]) for stage in phase.stages])
        for phase in phases
    ]


def labels_of_run(config: PPORunConfig) -> dict[str, str]:
    """Return the label of every opponent of a run by its text, bots included."""
    texts = [bot for phase in opponent_phases(config) for stage in phase.stages for bot in stage.bots]
    return opponent_labels(texts, config.bots)


def _stage(stage: StageConfig, against: str, joining: Sequence[str]) -> StageConfig:
    return replace(stage, bots=[against] if against else [*stage.bots, *joining])


LOSS_FLOOR = 0.05  # Keeps a share for bots that are always beaten.
UNKNOWN_WIN_RATE = 0.5


def shares(
    current: Sequence[str],
    *,
    met: Sequence[str] = (),
    floor: float = 0.0,
    adaptive: float = 0.0,
    win_rates: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return the shares of the matches against bots, summing to 1, for all bots of `met`, then `current`.

    Bots of `met` that are not in `current` get `floor` each. With `adaptive` 0 the current bots have equal shares, with
    1 those of loss rates from `win_rates`, the learner's per bot (0.5 where unknown); between, a mixture. Raises
    `ValueError` if the floors leave the current bots nothing.
    """
    if not current and not met:
        return {}
    earlier = [bot for bot in dict.fromkeys(met) if bot not in current]
    rest = 1.0 - floor * len(earlier)
    if rest <= 0.0:
        raise ValueError(f"floor={floor} for {len(earlier)} bots leaves nothing for {', '.join(current)}; lower it")
    equal = np.ones(len(current))
    rates = np.array([(win_rates or {}).get(bot, UNKNOWN_WIN_RATE) for bot in current])
    losses = 1.0 - rates + LOSS_FLOOR
    # Convex combination, so that the parts sum to 1 for every `adaptive`.
    part = (1.0 - adaptive) * equal / equal.sum() + adaptive * losses / losses.sum()
    return dict.fromkeys(earlier, floor) | {bot: rest * float(p) for bot, p in zip(current, part, strict=True)}


def counts(share: Sequence[float] | np.ndarray, n: int) -> np.ndarray:
    """Round `share` [K] of `n` to whole counts, int64 [K], by largest remainder; ties go to the lower index.

    Raises `ValueError` unless the shares are at least 0 and sum to 1.
    """
    exact = np.asarray(share, dtype=np.float64)
    if not (np.all(exact >= 0.0) and abs(exact.sum() - 1.0) < 1e-6):
        raise ValueError(f"shares {exact.tolist()} are not shares; give numbers of at least 0 that sum to 1")
    exact = exact / exact.sum() * n
    rounded = np.floor(exact).astype(np.int64)
    # Largest remainder first. Rounding makes remainders of shares such as 0.1 equal, so that ties are real ties.
    order = np.argsort(np.round(rounded - exact, 9), kind="stable")
    rounded[order[: n - int(rounded.sum())]] += 1
    return rounded


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
    per_seat = np.stack([_count_matches(dealt[seat::2], len(total)) for seat in (0, 1)])
    for seat, target in enumerate(_split(total, per_seat, (n + 1) // 2)):
        dealt[seat::2] = _change_surplus(dealt[seat::2], target)
    return dealt


def _count_matches(dealt: np.ndarray, opponents: int) -> np.ndarray:
    """Count the matches of each opponent, int64 [K]."""
    return np.bincount(dealt[(dealt >= 0) & (dealt < opponents)], minlength=opponents)


def _split(total: np.ndarray, per_seat: np.ndarray, evens: int) -> np.ndarray:
    """Divide `total` [K] over the two seats, [2, K]; the even seat gets `evens` matches in all.

    An odd total leaves one match over. It goes to the even seat, while it has room, for opponents that already hold
    more than half there and not on the odd seat.
    """
    half = total // 2  # Of each opponent's matches, for either seat.
    saved = (per_seat[0] > half).astype(int) - (per_seat[1] > half).astype(int)
    order = np.argsort(-saved, kind="stable")
    leftover = order[total[order] % 2 == 1][: evens - int(half.sum())]
    even = half.copy()
    even[leftover] += 1
    return np.stack([even, total - even])


def _change_surplus(dealt: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Change as few entries of `dealt` [m] as it takes to hold each opponent `target` [K] times."""
    changed = dealt.copy()
    free = np.ones(len(dealt), dtype=bool)
    for opponent, count in enumerate(target):
        free[np.flatnonzero(dealt == opponent)[:count]] = False
    missing = target - _count_matches(dealt[~free], len(target))
    changed[free] = np.repeat(np.arange(len(target)), missing)
    return changed
