"""Line plots as SVG text: no matplotlib, no script, no network; the same plot gives the same text."""

from __future__ import annotations

import numpy as np

from sparring.eval.experiments.output import html_text
from sparring.eval.experiments.reports.report import LinePlot, PlotLine

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
"""Colours of M. Okabe and K. Ito (2008), safe for colour blindness."""
WIDTH, HEIGHT = 520, 220
LEFT, RIGHT, TOP, BOTTOM = 62, 10, 24, 34
"""Margins in pixels."""


class PlotScale:
    """Linear or logarithmic map from values to pixels."""

    def __init__(self, values: list[float], start: float, end: float, *, log: bool) -> None:
        self.log = log
        known = [value for value in values if not log or value > 0] or [1.0]
        low, high = min(known), max(known)
        if low == high:
            low, high = (low / 2, high * 2) if log else (low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2)
        self.low, self.high, self._start, self._end = low, high, start, end

    def __call__(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high, at = (np.log(part) if self.log else part for part in (self.low, self.high, value))
        return float(self._start + (at - low) / (high - low) * (self._end - self._start))

    def ticks(self) -> list[float]:
        """Return about four round values inside the range."""
        if self.log:
            span = np.log10(self.high / self.low)
            if span > 1:
                powers = np.arange(np.ceil(np.log10(self.low) - 1e-9), np.floor(np.log10(self.high) + 1e-9) + 1)
                return [float(10.0**power) for power in powers[:: max(1, len(powers) // 5)]]
        step = 10.0 ** np.floor(np.log10((self.high - self.low) / 3))
        step *= next(times for times in (1, 2, 5, 10) if (self.high - self.low) / (step * times) <= 5)
        first = np.ceil(self.low / step - 1e-9)
        return [float(tick * step) for tick in np.arange(first, np.floor(self.high / step + 1e-9) + 1)]


def draw_svg(plot: LinePlot) -> str:
    """Return one plot as an `<svg>` element."""
    lines = [_positive(entry) if plot.log else entry for entry in plot.lines]
    x = PlotScale([v for entry in lines for v in entry.x], LEFT, WIDTH - RIGHT, log=plot.log)
    y = PlotScale([v for entry in lines for v in entry.y], HEIGHT - BOTTOM, TOP, log=plot.log)
    parts = [f'<text x="{LEFT}" y="14" class="title">{html_text(plot.title)}</text>']
    parts += [_x_tick(x(tick), tick) for tick in x.ticks()] + [_y_tick(y(tick), tick) for tick in y.ticks()]
    parts += [_mark(x(at)) for at in plot.marks if x.low <= at <= x.high]
    parts += [_curve(entry, x, y) for entry in lines]
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{html_text(plot.x_label)}</text>')
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return f'<svg {size} role="img" aria-label="{html_text(plot.title)}">{"".join(parts)}</svg>{_legend(lines)}'


def _positive(entry: PlotLine) -> PlotLine:
    kept = [(x, y) for x, y in zip(entry.x, entry.y, strict=True) if x > 0 and y > 0]
    x, y = ([pair[side] for pair in kept] for side in (0, 1))
    return PlotLine(entry.label, tuple(x), tuple(y), entry.group, entry.thin, entry.dots)


def _curve(entry: PlotLine, x: PlotScale, y: PlotScale) -> str:
    color, points = COLORS[entry.group % len(COLORS)], [(x(a), y(b)) for a, b in zip(entry.x, entry.y, strict=True)]
    if entry.dots or len(points) == 1:
        return "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2" fill="{color}" opacity="0.5"/>' for a, b in points)
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    style = 'stroke-width="0.8" opacity="0.5"' if entry.thin else 'stroke-width="1.6"'
    return f'<polyline points="{path}" fill="none" stroke="{color}" {style}/>'


def _x_tick(at: float, value: float) -> str:
    ends = f'x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"'
    return (
        f'<line class="grid" {ends}/><text x="{at:.1f}" y="{HEIGHT - 19}" text-anchor="middle">{_short(value)}</text>'
    )


def _y_tick(at: float, value: float) -> str:
    ends = f'x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"'
    return f'<line class="grid" {ends}/><text x="{LEFT - 5}" y="{at + 3:.1f}" text-anchor="end">{_short(value)}</text>'


def _mark(at: float) -> str:
    return f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'


def _legend(lines: list[PlotLine]) -> str:
    """Return the names of the lines under the plot, unless there is one; thin lines belong to a thick one."""
    named = {entry.label: entry.group for entry in lines if entry.label and not entry.thin}
    if len(named) < 2:
        return ""
    keys = (
        f'<span style="color:{COLORS[group % len(COLORS)]}">&#9632; {html_text(name)}</span>'
        for name, group in named.items()
    )
    return f'<p class="legend">{" ".join(keys)}</p>'


def _short(value: float) -> str:
    size = abs(value)
    unit, name = next(((u, n) for u, n in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if u <= size < u * 1e3), (1.0, ""))
    return f"{value / unit:.3g}{name}"
