"""Drag and thrust near and above the speed of sound, which the low-speed tables of the F-16 lack.

Drag: Brandt, Stiles, Bertin and Whitford, Introduction to Aeronautics, chapter 4, with the F-16A of their workbook.
The zero-lift drag rises linearly from the critical Mach number Mc to Mp, and falls slowly above:

    dCD0 = W (M - Mc) / (Mp - Mc),    W (1 - 0.3 sqrt(M - Mp)) above Mp,
    W = 4.5 pi / S (Amax / l)^2 E (0.74 + 0.37 cos LE),    Mp = (1 / cos LE)^0.2.

Drag due to lift follows linear theory above Mp: K = A (M^2 - 1) cos LE / (4 A sqrt(M^2 - 1) - 2). From Mc to Mp, its
excess over the subsonic K is added in proportion.

Thrust: the installed lapse of a low-bypass mixed turbofan (Mattingly, Heiser and Pratt, Aircraft Engine Design,
equation 2.54). `theta` and `delta` are total temperature and pressure ratios, c is 3.5 with afterburner, 3.8 without:

    delta (1 - c max(theta - TR, 0) / theta).

It extends each column of the table from Mach 1, in the ratio of the formula there and beyond. TR is chosen to reproduce
the table's own change from Mach 0 to 1 at sea level.

Not modelled: the change of lift and of the neutral point with Mach, and with it trim drag; the inlet beyond the lapse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sparring.envs.air_combat.airframe import f16

SUBSONIC, SUPERSONIC = f16.MACHS, (1.2, 1.4, 1.6, 1.8, 2.0)
"""Mach numbers of the rows of the thrust table: measured, and added by the lapse."""
MAXIMUM, MILITARY = 3.5, 3.8
"""Factor c of the lapse with and without afterburner."""


@dataclass(frozen=True)
class Shape:
    """Geometry that drag at high speed depends on; ft and degrees."""

    area: float
    aspect: float
    leading_edge: float
    quarter_chord: float
    """Sweep of the leading edge and of the quarter-chord line."""
    thickness: float
    """Of the wing, in chords."""
    frontal: float
    """Greatest cross-section less the inlet's, ft^2."""
    length: float
    efficiency: float
    """E, the wave drag relative to a Sears-Haack body; 2 to 3 for fighters."""
    subsonic: float
    """K at low speed."""

    @property
    def critical(self) -> float:
        """The Mach number at which the drag starts to rise."""
        unswept = 1.0 - 0.065 * (100.0 * self.thickness) ** 0.6
        return 1.0 - math.cos(math.radians(self.quarter_chord)) ** 0.6 * (1.0 - unswept)

    @property
    def peak(self) -> float:
        """The Mach number of the greatest zero-lift drag."""
        return (1.0 / self.cosine) ** 0.2

    @property
    def cosine(self) -> float:
        """The cosine of the leading edge's sweep."""
        return math.cos(math.radians(self.leading_edge))

    @property
    def wave(self) -> float:
        """The rise of the zero-lift drag coefficient at `peak`."""
        slender = 4.5 * math.pi / self.area * (self.frontal / self.length) ** 2
        return slender * self.efficiency * (0.74 + 0.37 * self.cosine)

    def lift_drag(self, mach: float) -> float:
        """Return K less its subsonic value, at `peak` or above."""
        square = mach * mach - 1.0
        supersonic = self.aspect * square * self.cosine / (4.0 * self.aspect * math.sqrt(square) - 2.0)
        return supersonic - self.subsonic


F16 = Shape(
    area=300.0,
    aspect=3.0,
    leading_edge=40.0,
    quarter_chord=32.2,
    thickness=0.04,
    frontal=25.11,
    length=48.30,
    efficiency=2.2,
    subsonic=0.1167,
)
"""Of Brandt's F-16A workbook."""


def extended(table: f16.Table, factor: float) -> f16.Table:
    """Return a table of thrust (lbf, by Mach and height) with rows for `SUPERSONIC`."""
    # The lapse at sea level and Mach 1, solved for TR, gives the table's own ratio.
    theta, delta = 1.2, 1.2**3.5
    break_ratio = theta - theta / factor * (1.0 - table[-1][0] / table[0][0] / delta)

    def lapse(mach: float, height: float) -> float:
        temperature = 390.0 / 519.0 if height >= 35_000.0 else 1.0 - 0.703e-5 * height
        pressure = (1.0 - 0.703e-5 * height) ** 4.14 * temperature
        rise = 1.0 + 0.2 * mach * mach
        theta = temperature * rise
        return pressure * rise**3.5 * max(1.0 - factor * max(theta - break_ratio, 0.0) / theta, 0.0)

    columns = list(zip(f16.HEIGHTS, table[-1], strict=True))
    rows = tuple(tuple(last * lapse(m, h) / lapse(1.0, h) for h, last in columns) for m in SUPERSONIC)
    return table + rows


THRUST_MAXIMUM, THRUST_MILITARY = (
    extended(f16.THRUST_MAXIMUM, MAXIMUM),
    extended(f16.THRUST_MILITARY, MILITARY),
)
THRUST_IDLE = f16.THRUST_IDLE + (f16.THRUST_IDLE[-1],) * len(SUPERSONIC)
"""Lbf, by Mach (0 to 2 in steps of 0.2) and height. Idle thrust is held beyond Mach 1."""
