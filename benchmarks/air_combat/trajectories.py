"""The F-16 of the game beside JSBSim's: one start and the same commands, where they can be compared.

    python -m benchmarks.air_combat.trajectories     # needs pip install jsbsim

Both weigh 20,500 lb and start trimmed in level flight at 600 ft/s and 10,000 ft. Both fly behind their control laws: a
load factor is commanded here, and reached in JSBSim by a loop around its stick; rolls are at full stick.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.air_combat.reference import f16 as reference
from benchmarks.air_combat.reference.engine import thrust
from benchmarks.command import run_script
from benchmarks.report import heading, publish, table
from sparring.configs.core.errors import InputError
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.airframe import f16
from sparring.envs.air_combat.batch import AirCombatBatch

SPEED, HEIGHT, WEIGHT = 600.0, 10_000.0, 20_500.0
"""ft/s, ft, lb."""
MARKS = (0.5, 1.0, 2.0, 4.0)
"""Seconds after the command."""
COLUMNS = (
    "speed, ft/s",
    "height, ft",
    "climb, deg",
    "alpha, deg",
    "load, g",
    "roll rate, deg/s",
    "bank, deg",
    "beta, deg",
)
Pilot = Callable[[float, list[float]], tuple[float, float, float]]
"""Load factor, part of full roll stick and throttle, from the seconds passed and the last row."""


def ours(pilot: Pilot, seconds: float) -> np.ndarray:
    """Return a row of `COLUMNS` for every tick."""
    batch = AirCombatBatch(1, model="f16", action_repeat=1, threads=1)
    state, controls = reference.trim(SPEED, HEIGHT, f16.STABLE_CG)
    planes = batch.snapshot()["planes"]
    plane, alpha = planes[0, 0], float(state[1])
    for name in ("rates", "past_acceleration", "past_rotation", "surfaces"):
        plane[name] = 0.0
    plane["pos"], plane["vel"] = (0.0, 0.0, -HEIGHT * f16.FT), (SPEED * f16.FT, 0.0, 0.0)
    plane["nose"], plane["up"] = (np.cos(alpha), 0.0, -np.sin(alpha)), (-np.sin(alpha), 0.0, -np.cos(alpha))
    plane["attitude"], plane["surfaces"][0] = (0.0, np.sin(alpha / 2), 0.0, np.cos(alpha / 2)), controls[1]
    plane["alpha"], plane["power"], plane["load"] = alpha, state[12], 1.0
    planes[0, 1]["pos"] = (0.0, 9000.0, -9000.0)
    batch.load({"planes": planes})
    rows = [_row_of_ours(plane)]
    actions = torch.zeros(1, 2, batch.actions.shape[-1])
    for tick in range(round(seconds * rules.TICKS_PER_SECOND)):
        load, roll, throttle = pilot(tick * rules.DT, rows[-1])
        pull = (load - 1.0) / (rules.LOAD_MOST - 1.0 if load > 1.0 else 1.0 - rules.LOAD_LEAST)
        actions[0, 0, :3] = torch.tensor([pull, roll, 2.0 * throttle - 1.0])
        batch.step(actions)
        rows.append(_row_of_ours(batch.snapshot()["planes"][0, 0]))
    batch.close()
    return np.array(rows)


def _row_of_ours(plane: Any) -> list[float]:
    vel, nose, up = (plane[name].astype(float) for name in ("vel", "nose", "up"))
    speed, right = np.linalg.norm(vel), np.cross(nose, up)
    angles = (np.arcsin(-vel[2] / speed), plane["alpha"])
    bank, beta = np.arctan2(right[2], -up[2]), np.arcsin(vel @ right / speed)
    turn = (plane["roll_rate"], bank, beta)
    return [speed / f16.FT, -plane["pos"][2] / f16.FT, *np.degrees(angles), plane["load"], *np.degrees(turn)]


def theirs(pilot: Pilot, seconds: float) -> np.ndarray:
    """Return a row of `COLUMNS` for every tick of ours, JSBSim flying two of its own in each."""
    aircraft, per_tick = _jsbsim(), 2
    rows, held = [_row_of_theirs(aircraft)], 0.0
    for tick in range(round(seconds * rules.TICKS_PER_SECOND)):
        load, roll, throttle = pilot(tick * rules.DT, rows[-1])
        short = load - rows[-1][4]
        held = float(np.clip(held + 0.9 * short * rules.DT, -1.0, 1.0)) if load != 1.0 else 0.0
        aircraft["fcs/elevator-cmd-norm"] = -float(np.clip(0.12 * short + held, -1.0, 1.0)) if load != 1.0 else 0.0
        aircraft["fcs/aileron-cmd-norm"], aircraft["fcs/throttle-cmd-norm"] = roll, throttle
        for _ in range(per_tick):
            aircraft.run()
        rows.append(_row_of_theirs(aircraft))
    return np.array(rows)


def _jsbsim() -> Any:
    """Return JSBSim's F-16, clean, at our weight and trimmed."""
    import jsbsim

    aircraft = jsbsim.FGFDMExec(str(Path(jsbsim.__file__).parent))
    aircraft.set_debug_level(0)
    aircraft.load_model("f16")
    for tank in range(4):
        aircraft[f"propulsion/tank[{tank}]/contents-lbs"] = 0.0
    start = {"ic/h-sl-ft": HEIGHT, "ic/vt-fps": SPEED, "ic/psi-true-deg": 0.0, "ic/gamma-deg": 0.0}
    for name, value in (start | {"gear/gear-cmd-norm": 0.0, "gear/gear-pos-norm": 0.0}).items():
        aircraft[name] = value
    aircraft.run_ic()
    for tank in range(2):
        aircraft[f"propulsion/tank[{tank}]/contents-lbs"] = (WEIGHT - aircraft["inertia/weight-lbs"]) / 2.0
    aircraft.run_ic()
    aircraft["propulsion/set-running"] = -1
    aircraft.do_trim(1)
    return aircraft


def _row_of_theirs(aircraft: Any) -> list[float]:
    names = ("velocities/vt-fps", "position/h-sl-ft", "flight-path/gamma-deg", "aero/alpha-deg")
    values = [aircraft[name] for name in names]
    roll = np.degrees(aircraft["velocities/p-aero-rad_sec"])
    return [*values, aircraft["accelerations/Nz"], roll, aircraft["attitude/phi-deg"], aircraft["aero/beta-deg"]]


def compared(name: str, pilot: Pilot, columns: tuple[int, ...], throttles: tuple[float, float]) -> str:
    """Return a table of both at `MARKS`; each pilot gets its own aircraft's throttle for level flight."""
    flights = []
    for fly, level in zip((ours, theirs), throttles, strict=True):
        flights.append(fly(lambda t, row, level=level: _with_level(pilot(t, row), level), MARKS[-1] + 0.1))  # type: ignore[misc]
    rows = []
    for mark in MARKS:
        at = round(mark * rules.TICKS_PER_SECOND)
        rows.append(
            [f"{mark:g} s", *(f"{one[at, k]:.1f} / {other[at, k]:.1f}" for k in columns for one, other in [flights])]
        )
    peak = [
        f"{np.abs(one[:, k]).max():.1f} / {np.abs(other[:, k]).max():.1f}" for k in columns for one, other in [flights]
    ]
    return f"\n{name}: ours / JSBSim\n\n" + table(
        ["after", *(COLUMNS[k] for k in columns)], [*rows, ["largest", *peak]]
    )


def _with_level(wanted: tuple[float, float, float], level: float) -> tuple[float, float, float]:
    load, roll, throttle = wanted
    return load, roll, level if np.isnan(throttle) else throttle


def level_flight() -> tuple[str, tuple[float, float]]:
    """Return a table of both trims, and the throttles."""
    state, controls = reference.trim(SPEED, HEIGHT, f16.STABLE_CG)
    aircraft = _jsbsim()
    push = thrust(float(state[12]), HEIGHT, float(reference.air(state[0], state[11]).mach))
    rows = [
        ["alpha, deg", f"{np.degrees(state[1]):.2f}", f"{aircraft['aero/alpha-deg']:.2f}"],
        ["elevator, deg", f"{controls[1]:.2f}", f"{aircraft['fcs/elevator-pos-deg']:.2f}"],
        ["thrust, lbf", f"{push:.0f}", f"{aircraft['propulsion/engine/thrust-lbs']:.0f}"],
        ["throttle", f"{controls[0]:.3f}", f"{aircraft['fcs/throttle-cmd-norm']:.3f}"],
        ["moment of inertia in roll, slug ft^2", "9496", f"{aircraft['inertia/ixx-slugs_ft2']:.0f}"],
    ]
    text = "\nLevel flight at 600 ft/s and 10,000 ft\n\n" + table(["", "ours", "JSBSim"], rows)
    return text, (float(controls[0]), float(aircraft["fcs/throttle-cmd-norm"]))


def main() -> None:
    try:
        import jsbsim  # noqa: F401
    except ImportError:
        raise InputError("jsbsim is not installed; run pip install jsbsim") from None
    text, throttles = level_flight()
    hold = float("nan")
    parts = [heading("F-16 beside JSBSim's", ("numpy", "torch", "warp-lang", "jsbsim")), text]
    parts.append(compared("Hands off", lambda t, row: (1.0, 0.0, hold), (0, 1, 2, 3, 4), throttles))
    parts.append(compared("4 g commanded", lambda t, row: (4.0, 0.0, hold), (0, 1, 2, 3, 4), throttles))
    parts.append(
        compared("Full stick right for 1 s", lambda t, row: (1.0, float(t < 1.0), hold), (5, 6, 7, 3, 4), throttles)
    )
    parts.append(compared("Full afterburner, hands off", lambda t, row: (1.0, 0.0, 1.0), (0, 1, 2), throttles))
    publish("\n".join(parts), None)


if __name__ == "__main__":
    sys.exit(run_script(main))
