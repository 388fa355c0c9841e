"""Air combat's flight models where they are flown: top speeds, Mach in chases, the limit of alpha, and hard turns.

    python -m benchmarks.air_combat.flight

Top speeds and turns come from the float64 references, chases and the limit of alpha from matches of the kernels.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.air_combat.reference import f16, point_mass
from benchmarks.command import run_script
from benchmarks.report import heading, publish, table
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.airframe import f16 as data
from sparring.envs.air_combat.batch import AirCombatBatch

SEED = 3
HEIGHTS = (0, 10_000, 20_000, 30_000, 40_000)
"""ft, of the top speeds."""
TURN_SPEEDS, TURN_LOADS = (400, 500, 600, 700), (2, 3, 4, 5, 6, 7, 8)
"""ft/s and g, at the first four heights."""
STEEPEST = 25.0
"""Alpha in degrees that turns are compared up to."""
CHASES = (("ace", "evader"), ("chaser", "evader"), ("dogfighter", "evader"), ("ace", "dogfighter"))


def main() -> None:
    parts = [heading("Air combat: flight", ("numpy", "torch", "warp-lang")), top_speeds(), chases(), limits(), turns()]
    publish("\n".join(parts), None)


def top_speeds() -> str:
    """Return the fastest level flight with afterburner and at military power, Mach."""
    machs = np.arange(0.6, 2.4, 0.005)
    rows = []
    for height in HEIGHTS:
        metres = height * data.FT
        sound = np.sqrt(1.4 * 287.053 * (288.15 - 0.0065 * min(metres, 11_000.0)))
        row = [f"{height:,}"]
        for power in (100.0, 50.0):
            level = [m for m in machs if point_mass.specific_excess_power(1.0, m * sound, metres, power) > 0.0]
            row.append(f"{max(level):.2f}")
        rows.append(row)
    return table(["level flight, ft", "afterburner, Mach", "military, Mach"], rows)


def chases(matches: int = 48, steps: int = 1800) -> str:
    """Return speeds, Mach numbers and the greatest alpha of the F-16 in matches of scripted pilots."""
    rows = []
    for names in CHASES:
        game = AirCombatBatch(matches, model="f16", gun="cone", threads=1, seed=SEED)
        game.assign(torch.tensor([[rules.bot_id(name) for name in names]]))
        over, planes = np.zeros(matches, dtype=bool), []
        for step in range(steps):
            game.step(game.actions)
            over |= game.outcome.numpy() >= 0
            if over.all():
                break
            if step % 15 == 0:
                planes.append(game.snapshot()["planes"][~over])
        game.close()
        flown = np.concatenate(planes)
        speed = np.linalg.norm(flown["vel"], axis=-1)
        mach = speed / np.sqrt(1.4 * 287.053 * (288.15 - 0.0065 * np.minimum(-flown["pos"][..., 2], 11_000.0)))
        for seat, name in enumerate(names):
            machs, most = mach[:, seat], np.degrees(flown["alpha"][:, seat]).max()
            low, middle, high = np.percentile(machs, (5, 50, 95))
            shares = [f"{(machs > bound).mean():.0%}" for bound in (0.6, 1.0)]
            row = [f"{name} in {' v '.join(names)}", f"{np.median(speed[:, seat]):.0f}"]
            rows.append([*row, f"{low:.2f} / {middle:.2f} / {high:.2f}", *shares, f"{most:.1f}"])
    head = ["F-16", "median, m/s", "Mach at 5, 50, 95 %", "above 0.6", "above 1", "most alpha, deg"]
    return table(head, rows)


def limits(matches: int = 64, segments: int = 40) -> str:
    """Return how alpha of the F-16 keeps its limit of 25 degrees under sticks that move from stop to stop."""
    game = AirCombatBatch(matches, model="f16", gun="cone", threads=1, seed=SEED, action_repeat=1)
    planes, random = game.snapshot()["planes"], np.random.default_rng(SEED)
    # Slow flight, where the elevator is weak.
    planes["vel"] *= (random.uniform(100.0, 150.0, planes.shape) / np.linalg.norm(planes["vel"], axis=-1))[..., None]
    game.load({"planes": planes})
    alphas = []
    for _ in range(segments):
        stick = np.stack([random.choice([-1.0, 1.0], planes.shape), random.choice([-1.0, 0.0, 1.0], planes.shape)], -1)
        action = np.concatenate([stick, np.ones((*planes.shape, 1)), -np.ones((*planes.shape, 1))], axis=-1)
        game.actions.copy_(torch.from_numpy(action))
        for tick in range(36):
            game.step(game.actions)
            if tick % 4 == 0:
                alphas.append(np.degrees(game.snapshot()["planes"]["alpha"]).ravel())
    game.close()
    alpha = np.concatenate(alphas)
    shares = [f"{(alpha > bound).mean():.2%}" for bound in (26, 28, 31)]
    return table(["full stick", "above 26 deg", "28", "31", "most"], [["F-16, slow", *shares, f"{alpha.max():.1f}"]])


def turns() -> str:
    """Return specific excess power in level turns: the point mass less the six-degree tables, ft/s."""
    rows = []
    for cg in (data.STABLE_CG, data.REFERENCE_CG):
        for turning in (True, False):
            gaps = np.array(list(_gaps(cg, turning)))
            rates = "with the rates of the turn" if turning else "without"
            rows.append(
                [f"{cg:.2f} chords, {rates}", f"{gaps.mean():+.0f}", f"{gaps.min():+.0f}", f"{gaps.max():+.0f}"]
            )
    return table(["level turns, centre of gravity", "mean, ft/s", "least", "greatest"], rows)


def _gaps(cg: float, turning: bool) -> Iterator[float]:
    for height in HEIGHTS[:4]:
        for speed in TURN_SPEEDS:
            for load in TURN_LOADS:
                metres, metric = height * data.FT, speed * data.FT
                if load > point_mass.greatest_load(metric, metres, 100.0):
                    continue
                alpha, power = turn(speed, height, load, cg, turning)
                if np.degrees(alpha) < STEEPEST:
                    yield point_mass.specific_excess_power(load, metric, metres, 100.0) / data.FT - power


def turn(speed: float, height: float, load: float, cg: float, turning: bool) -> tuple[float, float]:
    """Return alpha (rad) and specific excess power (ft/s) of the F-16 in a steady level turn in full afterburner.

    Alpha and elevator give the load across the velocity and no pitching moment. The turn's rate is about the vertical;
    without `turning` its parts in body axes are left out.
    """
    rate, bank = data.GRAVITY * np.sqrt(load**2 - 1.0) / speed, np.arccos(1.0 / load)

    def evaluated(unknown: np.ndarray) -> tuple[np.ndarray, float]:
        alpha, elevator = unknown
        state = np.array([speed, alpha, 0, 0, alpha, 0, 0, 0, 0, 0, 0, height, 100.0])
        if turning:
            yaw = rate * np.cos(bank)
            state[6:9] = -yaw * np.sin(alpha), rate * np.sin(bank), yaw * np.cos(alpha)
        force, rotation = f16.body_accelerations(state, np.array([0.0, elevator, 0.0, 0.0]), cg)
        lift = force[0] * np.sin(alpha) - force[2] * np.cos(alpha)
        along = force[0] * np.cos(alpha) + force[2] * np.sin(alpha)
        return np.array([lift / data.GRAVITY - load, rotation[1]]), speed * along / data.GRAVITY

    unknown = np.array([0.1, -1.0])
    for _ in range(60):
        missing = evaluated(unknown)[0]
        if np.abs(missing).max() < 1e-10:
            break
        jacobian = np.stack([(evaluated(unknown + move)[0] - missing) / 1e-6 for move in 1e-6 * np.eye(2)], axis=1)
        change = -np.linalg.solve(jacobian, missing)
        unknown += change * min(1.0, *(np.array([0.1, 5.0]) / np.maximum(np.abs(change), 1e-9)))
    return float(unknown[0]), evaluated(unknown)[1]


if __name__ == "__main__":
    sys.exit(run_script(main))
