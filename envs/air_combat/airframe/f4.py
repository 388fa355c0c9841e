"""The F-4 of the point mass: published tables of lift, drag and thrust.

Source: Bryson, Desai and Hoffman, Energy-State Approximation in Performance Optimization of Supersonic Aircraft,
Journal of Aircraft 6 (1969), 481-488, with an early F-4 of 41,998 lb and 530 ft^2. Lift is a alpha, drag
C0 + e a alpha^2. Their thrust table has a point every 5,000 ft below 30,000 ft; every other one is kept.

Assumed here, not in the source:
- Cells that the source leaves empty hold the nearest value of their column: low speed at height, Mach 1.4 and more near
  the ground, and Mach 2 everywhere.
- Military thrust is 10,900 / 17,000 of the greatest, the ratings of the J79-GE-8. Idle thrust is 0.
- Lift is linear in alpha up to a coefficient of 1.0, which is about the stall of the wing without slats.
- The greatest lift gives 8.5 g at 37,500 lb.
"""

from __future__ import annotations

from sparring.envs.air_combat.airframe.fighter import Airframe, Rows

MACHS = (0.0, 0.4, 0.8, 0.9, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
SLOPE = (3.44, 3.44, 3.44, 3.58, 4.44, 3.44, 3.01, 2.86, 2.44, 2.44)
"""Lift slope a, 1/rad, by `MACHS`."""
ZERO_LIFT = (0.013, 0.013, 0.013, 0.014, 0.031, 0.041, 0.039, 0.036, 0.035, 0.035)
"""Drag coefficient C0."""
FACTOR = (0.54, 0.54, 0.54, 0.75, 0.79, 0.78, 0.89, 0.93, 0.93, 0.93)
"""Factor e of the drag due to lift."""
MAXIMUM = (
    (24_200, 21_100, 15_200, 10_700, 8_100, 4_900),
    (28_000, 21_100, 15_200, 10_700, 8_100, 4_900),
    (28_300, 21_900, 15_900, 11_200, 8_100, 4_900),
    (30_800, 23_800, 17_300, 12_300, 8_100, 4_900),
    (34_500, 26_600, 19_800, 14_100, 9_400, 5_600),
    (37_900, 30_400, 23_300, 16_800, 11_200, 6_800),
    (36_100, 34_900, 27_300, 20_100, 13_400, 8_300),
    (36_100, 38_500, 31_600, 24_200, 16_200, 10_000),
    (36_100, 38_500, 35_700, 28_100, 19_300, 11_900),
    (36_100, 38_500, 35_700, 31_100, 21_700, 13_300),
    (36_100, 38_500, 35_700, 31_100, 21_700, 13_300),
)
"""Thrust of both engines with afterburner, lbf, by Mach number and height as `Airframe.thrust`."""
MILITARY_PART = 10_900.0 / 17_000.0
POUND, SQUARE_FOOT = 0.45359237, 0.09290304
"""kg and m^2."""


def by_mach() -> Rows:
    """Return a, C0 and e at Mach 0 to 2 in steps of 0.1, on which all of `MACHS` lie."""

    def between(values: tuple[float, ...], mach: float) -> float:
        i = next(i for i in range(len(MACHS) - 1) if mach <= MACHS[i + 1] + 1e-9)
        return values[i] + (values[i + 1] - values[i]) * (mach - MACHS[i]) / (MACHS[i + 1] - MACHS[i])

    return [tuple(between(values, k / 10) for values in (SLOPE, ZERO_LIFT, FACTOR)) for k in range(21)]


F4 = Airframe(
    thrust=([(0.0,) * 6] * 11, [tuple(MILITARY_PART * cell for cell in row) for row in MAXIMUM], MAXIMUM),
    mass=41_998.0 * POUND,
    wing_area=530.0 * SQUARE_FOOT,
    lift_most=1.0,
    load_most=8.5 * 37_500.0 / 41_998.0,
    by_mach=by_mach(),
)
