"""Airframes of the point-mass model as a few numbers in SI units, with the F-16's polar and lift.

The polar and the lift curve are fits to the trimmed tables of `f16.py` (centre of gravity at 0.35 chords). The
quadratic holds from -2.5 to 15 degrees, the quartic at high lift. Lags and limits are typical of a fly-by-wire fighter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

STANDARD_GRAVITY = 9.80665
"""m/s^2."""
MASS = 9299.0
"""kg."""
WING_AREA = 27.87
"""m^2."""
LIFT_AT_ZERO, LIFT_SLOPE = 0.087, 0.064
"""Lift coefficient at alpha 0, and per degree."""
LIFT_MOST, LIFT_LEAST = 1.546, -0.6
"""Lift coefficients at the limits of alpha."""
POLAR = (0.02293, -0.03191, 0.17862)
"""Drag coefficient by powers of the lift coefficient."""
POLAR_HIGH = (0.02968, -0.12414, 0.52608, -0.48385, 0.22250)
"""The same at high lift, above `POLAR_FROM`, where it exceeds the quadratic."""
POLAR_FROM = 0.9
LOAD_MOST, LOAD_LEAST = 9.0, -3.0
"""Structural load factors, g."""
LOAD_LAG_S = 0.35
LOAD_RATE = 6.0
"""Greatest rate of the load factor, g/s."""
ROLL_MOST = 3.8
"""Roll rate in rad/s, about 220 degrees/s; less at high lift and low dynamic pressure."""
ROLL_LAG_S = 0.25
ROLL_PRESSURE = 6000.0
"""Dynamic pressure, Pa, below which the roll rate falls in proportion."""
ROLL_LOST = 0.6
"""Part of the roll rate lost at the greatest lift."""
POUND_FORCE = 4.4482216
"""Newtons in a lbf."""

Rows = Sequence[tuple[float, ...]]


@dataclass(frozen=True)
class Airframe:
    """An airframe of the point-mass model. All use the F-16's lags, roll and engine delay."""

    thrust: tuple[Rows, Rows, Rows]
    """Idle, military and maximum thrust in lbf, by Mach (0 to 2 by 0.2) and height (0 to 50,000 ft by 10,000)."""
    mass: float = MASS
    wing_area: float = WING_AREA
    lift_most: float = LIFT_MOST
    lift_least: float = LIFT_LEAST
    load_most: float = LOAD_MOST
    by_mach: Rows = ()
    """Lift slope a (1/rad), zero-lift drag C0 and factor e of the drag C0 + e a alpha^2, by Mach number, 0 to 2 by 0.1.

    Without any, lift and drag are `POLAR` and `POLAR_HIGH` of this file with the drag rise of `high_speed.py`."""

    @property
    def weight(self) -> float:
        """The weight in N."""
        return self.mass * STANDARD_GRAVITY

    @property
    def pull_out(self) -> tuple[float, float]:
        """Load factor that a pull-out counts on: g per Pa of dynamic pressure, and at most.

        It is 90 % of the greatest: the F-16 reaches its limit of alpha more slowly than the point mass.
        """
        return 0.9 * self.wing_area * self.lift_most / self.weight, 0.9 * self.load_most
