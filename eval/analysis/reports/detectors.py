"""Detectors of the rules: each looks at one series and returns the evidence for a symptom, or None.

A detector is a dataclass of thresholds, which `rules.yaml` gives. `part` is the last fraction of the values that is
looked at, `least` the number of values below which nothing is said, and a window is `WINDOW` of the values. Medians and
Kendall's tau are used instead of means and slopes where single updates are noisy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from sparring.eval.analysis.reports.report import Evidence
from sparring.eval.analysis.reports.series import Series, has_size, moving_mean
from sparring.eval.analysis.trends import kendall_tau

WINDOW = 0.1
"""Width of the windows whose means are compared, as a fraction of the values; at least 3 values."""
MOST_POINTS = 6
"""Points of a series in one piece of evidence."""


class Detector(Protocol):
    """Thresholds of one symptom."""

    def find(self, series: Series) -> Evidence | None:
        """Return the evidence in a series, or None."""


@dataclass(frozen=True)
class Above:
    """At least `share` of the last `part` of the values, and at least `count` of them, exceed `limit`."""

    side: ClassVar[str] = "above"
    limit: float
    part: float = 1.0
    share: float = 0.0
    count: float = 1
    least: float = 1

    def find(self, series: Series) -> Evidence | None:
        """Return the exceeding values."""
        late = series.after(1.0 - self.part)
        wrong = self.beyond(late.values)
        count = int(wrong.sum())
        if len(late) < max(self.least, 1) or count < max(self.count, 1) or count < self.share * len(late):
            return None
        worst = max(late.values[wrong], key=lambda value: abs(value - self.limit))
        text = f"{count} of {len(late)} values {self.side} {self.limit:g}, the furthest {worst:.3g}"
        return _points(late, np.flatnonzero(wrong), text)

    def beyond(self, values: np.ndarray) -> np.ndarray:
        """Return which values exceed the limit, bool [N]."""
        return values > self.limit


@dataclass(frozen=True)
class Below(Above):
    """As `Above`, for values below `limit`."""

    side: ClassVar[str] = "below"

    def beyond(self, values: np.ndarray) -> np.ndarray:
        """Return which values are below the limit, bool [N]."""
        return values < self.limit


@dataclass(frozen=True)
class Spikes:
    """At least `count` values exceed `times` the median of the `before` values before them, and `floor`."""

    times: float
    before: float = 20
    count: float = 3
    floor: float = 0.0

    def find(self, series: Series) -> Evidence | None:
        """Return the spikes."""
        n, sizes = int(self.before), np.abs(series.values)
        wrong = sizes[n:] > np.maximum(self.times * _usual(sizes, n), self.floor)
        return _outliers(series, n, wrong, self.count, f"above {self.times:g} times")


@dataclass(frozen=True)
class Drops:
    """At least `count` values are more than `drop` below the median of the `before` values before them."""

    drop: float
    before: float = 8
    count: float = 2

    def find(self, series: Series) -> Evidence | None:
        """Return the low values."""
        n = int(self.before)
        wrong = series.values[n:] < _usual(series.values, n) - self.drop
        return _outliers(series, n, wrong, self.count, f"more than {self.drop:g} below")


@dataclass(frozen=True)
class Growth:
    """The median of the last fifth of the values exceeds `floor`, and `times` the median of the first fifth."""

    times: float
    floor: float = 0.0
    least: float = 20

    def find(self, series: Series) -> Evidence | None:
        """Return both ends."""
        if len(series) < self.least:
            return None
        fifth = len(series) // 5
        first, last = np.median(np.abs(series.values[:fifth])), np.median(np.abs(series.values[-fifth:]))
        if last <= max(self.times * first, self.floor):
            return None
        text = f"grew from {first:.3g} to {last:.3g} (medians of the first and last fifth), over {self.times:g} times"
        return _points(series, np.array([0, fifth - 1, len(series) - fifth, len(series) - 1]), text)


@dataclass(frozen=True)
class Fall:
    """The mean of the last window is `drop` (absolute) or `relative` (of the best) below the best window's mean.

    Where both are given, both must hold. `peak` is what the best must have reached, `low` what the last is below.
    """

    drop: float = 0.0
    relative: float = 0.0
    peak: float = -np.inf
    low: float = np.inf
    least: float = 15

    def find(self, series: Series) -> Evidence | None:
        """Return the best and the last window."""
        if len(series) < self.least:
            return None
        width = _width(series)
        means = moving_mean(series.values, width)
        best, last = float(means.max()), float(means[-1])
        fell = best - last
        if fell <= self.drop or fell <= self.relative * abs(best) or best < self.peak or last >= self.low:
            return None
        at = int(means.argmax())
        text = f"fell from {best:.3g} to {last:.3g} (best and last mean of {width} values)"
        return _points(series, np.array([at, at + width - 1, len(series) - width, len(series) - 1]), text)


@dataclass(frozen=True)
class Plateau:
    """No rise over the last `part`: Kendall's tau is at most `tau`, and no window mean reaches `ceiling`.

    With `errors`, tau may also be this many times its standard error in noise without a trend, large in short runs.
    """

    part: float = 0.5
    tau: float = 0.1
    ceiling: float = np.inf
    least: float = 40
    errors: float = 0.0

    def find(self, series: Series) -> Evidence | None:
        """Return the ends of the flat part."""
        late = series.after(1.0 - self.part)
        if len(series) < self.least or moving_mean(late.values, _width(series)).max() >= self.ceiling:
            return None
        tau = 0.0 if np.ptp(late.values) == 0 else kendall_tau(late.values)
        n = len(late)
        most = max(self.tau, self.errors * (2 * (2 * n + 5) / (9 * n * (n - 1))) ** 0.5)  # M. G. Kendall, 1938
        if tau > most:
            return None
        text = (
            f"no rise over the last {n} values: Kendall's tau {tau:+.2f}, at most {most:.2g}; "
            f"mean {late.values.mean():.3g}"
        )
        return _points(late, np.linspace(0, len(late) - 1, MOST_POINTS).astype(int), text)


@dataclass(frozen=True)
class Stall:
    """The values rose and then stopped: curves that end flat fit better than those that rise to the end.

    Both kinds are fitted by least squares with a free start and rise. The flat ones end after 15 to 65 % of the values.
    The others are straight, late, or exponential with a slope at the end of at least a sixth of the mean slope. Squared
    errors must differ by `better` variances of the noise, and the rise must explain `rise` of them. Correlated noise,
    such as the noise of ratings, counts for fewer values. `sign` -1 is for values that should fall. A fraction that
    ends above `ceiling` has arrived, and says nothing.
    """

    ENDS: ClassVar[np.ndarray] = np.arange(0.15, 0.66, 0.05)
    BENDS: ClassVar[tuple[float, ...]] = (-3.0, -1.5, 1.0, 2.0, 2.5, 3.0)
    MIDDLES: ClassVar[tuple[float, ...]] = (0.5, 0.6, 0.7, 0.8)
    better: float = 7.0
    rise: float = 12.0
    sign: float = 1.0
    ceiling: float = 0.95
    least: float = 20

    def find(self, series: Series) -> Evidence | None:
        """Return points of the rise and of the flat part."""
        n, values = len(series), series.values
        if n < max(self.least, 8) or np.ptp(values) == 0 or self._arrived(series):
            return None
        t = (np.arange(n) + 0.5) / n
        rising = [t, *(np.sign(c) * (1 - np.exp(-c * t)) for c in self.BENDS)]
        rising += [1 / (1 + np.exp(-8 * (t - middle))) for middle in self.MIDDLES]
        flat = [*(np.minimum(t, end) for end in self.ENDS), 1 - np.exp(-8 * t), 1 - np.exp(-12 * t)]
        y = self.sign * (values - values.mean())
        (rising_fit, _), (stopped, rest) = _best_fit(rising, y), _best_fit(flat, y)
        variance = max(float(rest @ rest) / (n - 3), 1e-12 * float(y @ y))
        after = float(np.clip(rest[1:] @ rest[:-1] / max(float(rest @ rest), 1e-300), 0.0, 0.95))
        weight = (1 - after) / (1 + after) / variance
        if (stopped - rising_fit) * weight <= self.better or stopped * weight <= self.rise:
            return None
        first, last = float(values[: _width(series)].mean()), float(series.after(0.65).values.mean())
        text = f"{'rose' if self.sign > 0 else 'fell'} from {first:.4g} to {last:.4g} and then stopped"
        return _points(series, np.linspace(0, n - 1, MOST_POINTS).astype(int), text)

    def _arrived(self, series: Series) -> bool:
        fractions = bool(((series.values >= 0) & (series.values <= 1)).all())
        return fractions and self.sign > 0 and series.after(0.7).values.mean() >= self.ceiling


def _best_fit(curves: Sequence[np.ndarray], y: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the squares that the best of rising `curves` [N] explains of centred values y [N], and what it leaves."""
    units = np.array([(curve - curve.mean()) / np.linalg.norm(curve - curve.mean()) for curve in curves])
    rises = np.maximum(units @ y, 0.0)
    best = int(rises.argmax())
    return float(rises[best] ** 2), y - rises[best] * units[best]


@dataclass(frozen=True)
class Decline:
    """Over the last `part`, Kendall's tau is at most -`tau`, and the last third's mean is below the first's.

    The difference is more than `relative` of its size, and more than `drop`. The first tenth is left out by default,
    because its opponents or starting positions often differ.
    """

    side: ClassVar[int] = -1
    relative: float = 0.0
    drop: float = 0.0
    tau: float = 0.3
    part: float = 0.9
    least: float = 12

    def find(self, series: Series) -> Evidence | None:
        """Return points of the part with the trend."""
        late = series.after(1.0 - self.part)
        if len(series) < self.least or len(late) < 3 or np.ptp(late.values) == 0:
            return None
        third = len(late) // 3
        first, last = float(late.values[:third].mean()), float(late.values[-third:].mean())
        tau, moved = kendall_tau(late.values), self.side * (last - first)
        if self.side * tau < self.tau or moved <= max(self.relative * abs(first), self.drop):
            return None
        word = "fell" if self.side < 0 else "rose"
        text = f"{word} from {first:.3g} to {last:.3g} (means of the first and last third), Kendall's tau {tau:+.2f}"
        return _points(late, np.linspace(0, len(late) - 1, MOST_POINTS).astype(int), text)


@dataclass(frozen=True)
class Rise(Decline):
    """As `Decline`, for values that rise."""

    side: ClassVar[int] = 1


@dataclass(frozen=True)
class Noisy:
    """The noise from value to value is more than `limit` of the mean size, and `times` the noise at the start.

    Noise is the standard deviation of differences of neighbours over the root of 2, which a trend hardly changes. With
    `times`, the last third is compared with the first. Values around 0 have no size to compare with.
    """

    limit: float
    times: float = 0.0
    least: float = 20

    def find(self, series: Series) -> Evidence | None:
        """Return the extremes."""
        values, third = series.values, len(series) // 3
        if len(series) < max(self.least, 9) or not has_size(values):
            return None
        first, last = (float(np.diff(part).std() / 2**0.5) for part in (values[:third], values[-third:]))
        noise = last if self.times else float(np.diff(values).std() / 2**0.5)
        if noise <= self.limit * abs(values.mean()) or last < self.times * first:
            return None
        text = f"varies by {noise:.3g} from value to value, around a mean of {values.mean():.3g}"
        text += f"; in the first third by {first:.3g}" if self.times else ""
        return _points(series, np.sort([values.argmin(), values.argmax()]), text)


@dataclass(frozen=True)
class Varies:
    """The standard deviation of the values is more than `limit` of their mean."""

    limit: float
    least: float = 10

    def find(self, series: Series) -> Evidence | None:
        """Return the extremes."""
        if len(series) < self.least or not series.values.mean():
            return None
        ratio = float(series.values.std() / abs(series.values.mean()))
        if ratio <= self.limit:
            return None
        ends = np.sort([series.values.argmin(), series.values.argmax()])
        return _points(series, ends, f"standard deviation is {ratio:.2g} of the mean, over {self.limit:g}")


@dataclass(frozen=True)
class Missing:
    """The run has no such metric."""

    def find(self, series: Series) -> Evidence | None:
        """Return evidence for an empty series."""
        return None if len(series) else Evidence(series.name, (), (), "the run has no such metric")


DETECTORS: Mapping[str, type] = {
    "above": Above,
    "below": Below,
    "spikes": Spikes,
    "drops": Drops,
    "growth": Growth,
    "fall": Fall,
    "plateau": Plateau,
    "stall": Stall,
    "decline": Decline,
    "rise": Rise,
    "varies": Varies,
    "noisy": Noisy,
    "missing": Missing,
}


def needed(detector: Detector) -> int:
    """Return the number of values below which a detector says nothing."""
    return int(getattr(detector, "least", getattr(detector, "before", -1) + 1))


def _usual(values: np.ndarray, before: int) -> np.ndarray:
    """Return the median [N - before] of the `before` values before each of the later values; none for fewer."""
    if len(values) <= before:
        return np.zeros(0)
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(values, before)[:-1], axis=1))


def _outliers(series: Series, before: int, wrong: np.ndarray, least: float, where: str) -> Evidence | None:
    """Return evidence if at least `least` of the values after the first `before` are `wrong`, bool [N - before]."""
    if wrong.sum() < max(least, 1):
        return None
    text = f"{wrong.sum()} values {where} the median of the {before} before them"
    return _points(series, np.flatnonzero(wrong) + before, text)


def _width(series: Series) -> int:
    return max(3, int(len(series) * WINDOW))


def _points(series: Series, at: np.ndarray, text: str) -> Evidence:
    """Return evidence with at most `MOST_POINTS` of the points `at`: evenly spread, the ends included."""
    chosen = np.unique(at[np.linspace(0, len(at) - 1, min(len(at), MOST_POINTS)).astype(int)])
    return Evidence(
        series.name,
        tuple(int(row) for row in series.rows[chosen]),
        tuple(float(v) for v in series.values[chosen]),
        text,
    )
