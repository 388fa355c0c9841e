"""Kernels that fly single aircraft of `sparring.envs.air_combat`, and initial states for them."""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
from functools import cache

import numpy as np
import warp as wp

from benchmarks.air_combat.reference import f16
from sparring.envs.air_combat.airframe.f16 import FT
from sparring.envs.air_combat.kernels.f16 import Motion, fly_f16, motion, start_f16
from sparring.envs.air_combat.kernels.point_mass import fly_point_mass
from sparring.envs.air_combat.kernels.state import Command, Plane, Scales
from sparring.envs.air_combat.kernels.tables import AirframeTables, load_tables

DTYPE = Plane.numpy_dtype()
wp.set_module_options({"enable_backward": False})


@wp.kernel
def motion_kernel(
    tables: AirframeTables,
    states: wp.array2d[float],
    controls: wp.array2d[float],
    cg: wp.array[float],
    out: wp.array[Motion],
):
    """Evaluate the forces at states of the book (`reference/f16.py`)."""
    i = wp.tid()
    speed, alpha, beta = states[i, 0], states[i, 1], states[i, 2]
    air = wp.vec3(wp.cos(alpha) * wp.cos(beta), wp.sin(beta), wp.sin(alpha) * wp.cos(beta)) * speed
    rates = wp.vec3(states[i, 6], states[i, 7], states[i, 8])
    surfaces = wp.vec3(controls[i, 1], controls[i, 2], controls[i, 3])
    scales = Scales()
    scales.mass = 1.0
    scales.thrust = 1.0
    scales.drag = 1.0
    out[i] = motion(tables, air, rates, surfaces, states[i, 11], states[i, 12], cg[i], scales)


@wp.kernel
def fly_kernel(
    tables: AirframeTables, planes: wp.array[Plane], commands: wp.array[Command], scales: Scales, ticks: int, six: bool
):
    """Fly every plane for `ticks` under a constant command."""
    i = wp.tid()
    plane = planes[i]
    if six:
        plane = start_f16(tables, plane, scales)
    for _ in range(ticks):
        if six:
            plane = fly_f16(tables, plane, commands[i], scales)
        else:
            plane = fly_point_mass(tables, plane, commands[i], scales)
    planes[i] = plane


@cache
def tables(model="point_mass"):
    """Return the tables of a flight model on the CPU."""
    wp.config.log_level = wp.LOG_ERROR
    return load_tables("cpu", model)


def forces(states, controls, cg):
    """Return the structs `Motion` [N] of states [N, 13] and controls [N, 4]."""
    inputs = [wp.array(np.asarray(values, dtype=np.float32), device="cpu") for values in (states, controls, cg)]
    out = wp.zeros(len(states), dtype=Motion, device="cpu")
    wp.launch(motion_kernel, dim=len(states), inputs=[tables(), *inputs, out], device="cpu")
    return out.numpy()


def fly(planes, commands, ticks, *, six=False, model="point_mass", thrust=1.0, drag=1.0, mass=1.0):
    """Return planes [N] after `ticks` of commands [N] of (load, roll rate, throttle)."""
    orders = np.zeros(len(planes), dtype=Command.numpy_dtype())
    columns = np.broadcast_to(commands, (len(planes), 3)).T
    for name, column in zip(("load", "roll_rate", "throttle"), columns, strict=True):
        orders[name] = column
    scales = Scales()
    scales.thrust, scales.drag, scales.mass = thrust, drag, mass
    rows = wp.array(planes, dtype=Plane, device="cpu")
    inputs = [tables(model), rows, wp.array(orders, dtype=Command, device="cpu"), scales, ticks, six]
    wp.launch(fly_kernel, dim=len(planes), inputs=inputs, device="cpu")
    return rows.numpy()


def level(count, *, speed=200.0, height=5000.0, heading=0.0, bank=0.0):
    """Return planes [N] in level flight; speed in m/s, height in m, angles in rad. Values may be arrays."""
    planes = np.zeros(count, dtype=DTYPE)
    north, east = np.cos(heading), np.sin(heading)
    planes["pos"][:, 2] = -np.asarray(height)
    planes["vel"][:, 0], planes["vel"][:, 1] = speed * north, speed * east
    planes["nose"][:, 0], planes["nose"][:, 1] = north, east
    planes["up"] = np.stack(np.broadcast_arrays(-np.sin(bank) * east, np.sin(bank) * north, -np.cos(bank)), -1)
    planes["load"], planes["power"], planes["hp"] = 1.0, 50.0, 1.0
    half, turn = np.asarray(bank) / 2, np.asarray(heading) / 2
    # Heading about down, then bank about the nose.
    columns = (np.cos(turn) * np.sin(half), np.sin(turn) * np.sin(half), np.sin(turn) * np.cos(half))
    planes["attitude"] = np.stack(np.broadcast_arrays(*columns, np.cos(turn) * np.cos(half)), -1)
    return planes


def trimmed(speed_ft=502.0, height_ft=10_000.0):
    """Return one plane in the F-16's level trim with the centre of gravity of the matches."""
    state, controls = f16.trim(speed_ft, height_ft, cg=0.30)
    plane = level(1, speed=speed_ft * FT, height=height_ft * FT)
    alpha = state[1]
    plane["attitude"] = (0.0, np.sin(alpha / 2), 0.0, np.cos(alpha / 2))
    plane["surfaces"][:, 0], plane["power"] = controls[1], state[12]
    return plane, controls[0]
