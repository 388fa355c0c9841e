"""Colours of the map in images and web pages. Powers use the colour-blind-safe Okabe-Ito palette."""

from __future__ import annotations

Color = tuple[int, int, int]

POWER_COLORS: tuple[Color, ...] = (
    (213, 94, 0),  # Austria: vermilion
    (0, 114, 178),  # England: blue
    (86, 180, 233),  # France: sky blue
    (64, 64, 64),  # Germany: black
    (0, 158, 115),  # Italy: green
    (204, 121, 167),  # Russia: purple
    (240, 228, 66),  # Turkey: yellow
)
SEA: Color = (203, 220, 231)
LAND: Color = (247, 240, 224)
NOWHERE: Color = (190, 186, 176)
"""Impassable land."""
COAST_INK: Color = (70, 84, 96)
LAND_INK: Color = (140, 130, 112)
SEA_INK: Color = (160, 183, 199)
INK: Color = (24, 28, 36)
FAILURE: Color = (196, 22, 28)
TINT = 0.5
"""Fraction of the owner's colour in the land around a centre, in [0, 1]."""


def blend(below: Color, above: Color, share: float) -> Color:
    """Return a mix with the fraction `share` of `above` and the rest of `below`."""
    red, green, blue = (round(low + share * (high - low)) for low, high in zip(below, above, strict=True))
    return red, green, blue


def land_color(owner: int) -> Color:
    """Return the colour of a province by the owner of its centre, -1 for none."""
    return LAND if owner < 0 else blend(LAND, POWER_COLORS[owner], TINT)


def css(color: Color) -> str:
    """Return a colour as #rrggbb."""
    return "#{:02x}{:02x}{:02x}".format(*color)
