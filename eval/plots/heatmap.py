"""A payoff matrix as a picture: who takes which share of the points from whom, and beside it everyone's rating.

Colours diverge from 50 %, blue where the row wins and red where the column does, and every cell says its number, so
that nobody depends on the colours. To the right each row has its rating as a dot with its interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

Color = tuple[int, int, int]

LOSES: Color = (178, 24, 43)
EVEN: Color = (247, 247, 247)
WINS: Color = (33, 102, 172)
"""Ends and middle of ColorBrewer's RdBu, which people with red-green blindness can tell apart."""
INK: Color = (30, 34, 40)
DIM: Color = (112, 118, 126)
GRID: Color = (222, 225, 229)
PAPER: Color = (255, 255, 255)

CELL = 56
MARGIN = 28
TITLE = 78
BAR_HEIGHT = 16
RATING_WIDTH = 300
LETTER = 18
_SUPERSAMPLE = 2
_TICKS = 6


@dataclass(frozen=True)
class MatrixChart:
    """What is drawn: `shares` [K, K] in [0, 1], the row's points against the column, NaN where nobody played.

    `labels`, `elo` and `intervals` are those of the K players in the order of the rows; of the first `policies` the
    labels are ages, the others are bots and separated by a line.
    """

    title: str
    subtitle: str
    labels: Sequence[str]
    shares: np.ndarray
    elo: Sequence[float]
    intervals: Sequence[tuple[float, float]]
    policies: int


def draw_heatmap(chart: MatrixChart) -> Image.Image:
    """The picture, RGB."""
    canvas = _HeatmapCanvas(chart)
    canvas.heading()
    canvas.matrix()
    canvas.color_bar()
    canvas.ratings()
    return canvas.image.resize(canvas.size, Image.Resampling.LANCZOS)


def color(share: float) -> Color:
    """Red at 0, near white at 1/2, blue at 1; symmetric, and linear on either side."""
    end = WINS if share > 0.5 else LOSES
    weight = abs(2.0 * share - 1.0)
    red, green, blue = (round(a + (b - a) * weight) for a, b in zip(EVEN, end, strict=True))
    return red, green, blue


def ticks(low: float, high: float, count: int = _TICKS) -> list[float]:
    """Round numbers in [low, high], low < high, about `count` of them: multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough)
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


class _HeatmapCanvas:
    """The picture in progress, with places in final pixels: it is drawn larger and scaled down, for smooth lines."""

    def __init__(self, chart: MatrixChart) -> None:
        self.chart = chart
        side = len(chart.labels) * CELL
        widest = max(_width(label) for label in chart.labels)
        self.left, self.top = MARGIN + widest + 14, TITLE + widest + 40
        self.right, self.bottom = self.left + side, self.top + side
        width = self.right + 40 + RATING_WIDTH + MARGIN
        self.size = (max(width, MARGIN * 2 + _width(chart.subtitle)), self.bottom + 74 + MARGIN)
        self.image = Image.new("RGB", (self.size[0] * _SUPERSAMPLE, self.size[1] * _SUPERSAMPLE), PAPER)
        self.pen = ImageDraw.Draw(self.image)

    def heading(self) -> None:
        self.text((MARGIN, MARGIN + 8), self.chart.title, INK, anchor="lm", letter=24)
        self.text((MARGIN, MARGIN + 38), self.chart.subtitle, DIM, anchor="lm", letter=16)

    def matrix(self) -> None:
        for i, label in enumerate(self.chart.labels):
            along = (i + 0.5) * CELL
            self.text((self.left - 12, self.top + along), label, INK, anchor="rm")
            self.upright((self.left + along, self.top - 10), label)
            for j, share in enumerate(self.chart.shares[i]):
                self._cell(i, j, float(share))
        cut = self.chart.policies * CELL
        if 0 < self.chart.policies < len(self.chart.labels):
            self.line((self.left, self.top + cut), (self.right, self.top + cut), INK, 2)
            self.line((self.left + cut, self.top), (self.left + cut, self.bottom), INK, 2)

    def color_bar(self) -> None:
        low, width = self.bottom + 18, min(self.right - self.left, 8 * CELL)
        for step in range(width):
            x = self.left + step
            self.box(x, low, x + 1, low + BAR_HEIGHT, color((step + 0.5) / width))
        for quarter in range(5):
            share = quarter / 4
            x = self.left + round(share * width)
            self.line((x, low + BAR_HEIGHT), (x, low + BAR_HEIGHT + 4), DIM, 1)
            self.text((x, low + BAR_HEIGHT + 14), f"{100 * share:.0f}", DIM, anchor="mm", letter=14)
        words = "points of the row against the column, %, a draw being half"
        self.text((self.left, low + BAR_HEIGHT + 36), words, DIM, anchor="lm", letter=14)

    def ratings(self) -> None:
        chart, left = self.chart, self.right + 40
        low, high = _span(chart.intervals)
        place = RATING_WIDTH / (high - low)
        for tick in ticks(low, high):
            x = left + (tick - low) * place
            self.line((x, self.top), (x, self.bottom), DIM if tick == 0 else GRID, 1)
            self.text((x, self.bottom + 14), f"{tick:+.0f}" if tick else "0", DIM, anchor="mm", letter=14)
        self.text((left + RATING_WIDTH / 2, self.top - 16), "Elo (Bradley-Terry), 95 %", INK, anchor="mm", letter=16)
        for i, (elo, (worst, best)) in enumerate(zip(chart.elo, chart.intervals, strict=True)):
            y = self.top + (i + 0.5) * CELL
            self.line((left + (worst - low) * place, y), (left + (best - low) * place, y), WINS, 3)
            self.disc(left + (elo - low) * place, y, 6, WINS)
            words = f"{elo:+.0f}" if worst < best else f"{elo:g}, fixed"
            self.haloed((left + (elo - low) * place, y - 16), words, letter=14)

    def _cell(self, i: int, j: int, share: float) -> None:
        x, y = self.left + j * CELL, self.top + i * CELL
        if math.isnan(share):
            self.box(x + 1, y + 1, x + CELL - 1, y + CELL - 1, GRID)
            return
        fill = color(share)
        self.box(x + 1, y + 1, x + CELL - 1, y + CELL - 1, fill)
        ink = INK if _luma(fill) > 140.0 else PAPER
        self.text((x + CELL / 2, y + CELL / 2), f"{100 * share:.0f}", ink, anchor="mm")

    def box(self, left: float, top: float, right: float, bottom: float, fill: Color) -> None:
        scaled = [value * _SUPERSAMPLE for value in (left, top, right, bottom)]
        self.pen.rectangle((scaled[0], scaled[1], scaled[2] - 1, scaled[3] - 1), fill=fill)

    def line(self, start: tuple[float, float], end: tuple[float, float], fill: Color, width: int) -> None:
        ends = [value * _SUPERSAMPLE for value in (*start, *end)]
        self.pen.line(ends, fill=fill, width=width * _SUPERSAMPLE)

    def disc(self, x: float, y: float, radius: float, fill: Color) -> None:
        self.pen.circle((x * _SUPERSAMPLE, y * _SUPERSAMPLE), radius * _SUPERSAMPLE, fill=fill)

    def text(self, at: tuple[float, float], words: str, fill: Color, *, anchor: str, letter: int = LETTER) -> None:
        place = (at[0] * _SUPERSAMPLE, at[1] * _SUPERSAMPLE)
        self.pen.text(place, words, fill=fill, font=_font(letter * _SUPERSAMPLE), anchor=anchor)

    def haloed(self, at: tuple[float, float], words: str, *, letter: int) -> None:
        """Text that stays readable where a line runs through it."""
        font, halo = _font(letter * _SUPERSAMPLE), 4 * _SUPERSAMPLE
        place = (at[0] * _SUPERSAMPLE, at[1] * _SUPERSAMPLE)
        self.pen.text(place, words, fill=INK, font=font, anchor="mm", stroke_width=halo, stroke_fill=PAPER)

    def upright(self, foot: tuple[float, float], words: str) -> None:
        """Text turned a quarter to the left, its beginning at `foot` and centred on it."""
        width, height = _width(words) * _SUPERSAMPLE, (LETTER + 6) * _SUPERSAMPLE
        label = Image.new("RGB", (width, height), PAPER)
        font = _font(LETTER * _SUPERSAMPLE)
        ImageDraw.Draw(label).text((0, height / 2), words, fill=INK, font=font, anchor="lm")
        turned = label.rotate(90, expand=True)
        corner = (round(foot[0] * _SUPERSAMPLE - height / 2), round(foot[1] * _SUPERSAMPLE - width))
        self.image.paste(turned, corner)


def _span(intervals: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The Elo that the axis shows: all intervals and a little more."""
    low, high = min(low for low, _ in intervals), max(high for _, high in intervals)
    room = max(0.06 * (high - low), 10.0)
    return low - room, high + room


def _luma(fill: Color) -> float:
    """How bright a colour looks, 0 to 255 (ITU-R BT.601)."""
    red, green, blue = fill
    return 0.299 * red + 0.587 * green + 0.114 * blue


def _font(pixels: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    return ImageFont.load_default(pixels)


def _width(words: str) -> int:
    """Pixels of the text in the usual letters."""
    return math.ceil(_font(LETTER).getbbox(words)[2])
