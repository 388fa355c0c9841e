"""Constants of the F-16 of the textbook, in its units (ft, slug, lbf, s, degrees), and the limits of its controls.

Source: Stevens and Lewis, Aircraft Control and Simulation, appendix A. The inverse mass and C1 to C9 are rounded as in
the book, whose check case and trims were computed with the rounded values.
"""

from __future__ import annotations

FT = 0.3048
"""Metres in a foot."""
GRAVITY = 32.17
"""ft/s^2."""
INVERSE_MASS = 1.57e-3
"""1/slug, of 20,500 lb."""
WING_AREA, SPAN, CHORD = 300.0, 30.0, 11.32
"""ft^2, ft, ft."""
REFERENCE_CG = 0.35
"""Centre of gravity to which the tables refer, in chords."""
STABLE_CG = 0.30
"""Centre of gravity in matches: at 0.35 the aircraft is about neutral."""
ENGINE_MOMENTUM = 160.0
"""slug ft^2/s."""
INERTIA = (-0.770, 0.02755, 1.055e-4, 1.642e-6, 0.9604, 1.759e-2, 1.792e-5, -0.7336, 1.587e-5)
"""C1 to C9 of the rotational equations."""
SIDE_BETA, SIDE_AILERON, SIDE_RUDDER = -0.02, 0.021, 0.086
"""CY per degree of beta, per 20 degrees of aileron, per 30 degrees of rudder."""
NORMAL_ELEVATOR = -0.19
"""CZ per 25 degrees of elevator."""
FULL_AILERON, FULL_RUDDER, FULL_ELEVATOR = 20.0, 30.0, 25.0
"""Degrees to which those and the tables of increments refer."""
SURFACE_LIMITS = (25.0, 21.5, 30.0)
"""Travel of elevator, aileron and rudder, degrees."""
SURFACE_RATES = (60.0, 80.0, 120.0)
"""Degrees/s."""
SURFACE_LAG_S = 0.0495
"""Time constant of each actuator."""
ALPHA_LIMITS = (-10.0, 45.0)
"""Degrees that the tables cover."""
BETA_LIMIT = 30.0
MACH_LIMITS = (0.1, 1.0)
HEIGHT_LIMITS = (0.0, 50_000.0)
"""ft."""
LEAST_SPEED = 60.0
"""Speed, ft/s, below which the aerodynamics are those at this speed: coefficients of rates divide by it."""
WAVE_DRAG = ((0.85, 1.10), 0.025)
"""Rise of the drag coefficient between two Mach numbers. The tables have none, being measured at low speed."""
