"""Whether pilots that leave can be caught: `python -m benchmarks.air_combat.pursuit runner --model f16`.

A scripted pursuer in full afterburner holds a height on a course that meets the opponent. Once it is near enough, the
pursuer points its nose at it and fires the cone. Each plan plays both seats of the same starts. The last row takes the
best plan of each match, which no pursuer can know beforehand. `baits` slows down while the opponent leaves.
"""

from __future__ import annotations

import argparse
import sys

import torch
from torch import Tensor
from torch.nn.functional import normalize

from benchmarks.command import run_script
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch

SEED, LOWEST = 777, 40.0
PLANS = {  # name: height (0: that of the start), distance of the dive, whether it waits for an opponent that leaves
    "keeps its height, dives at 1.5 km": (0.0, 1500.0, False),
    "keeps its height, dives at 3 km": (0.0, 3000.0, False),
    "nose on it from the start": (0.0, 1e6, False),
    "holds 3 km, dives at 3 km": (3000.0, 3000.0, False),
    "holds 5 km, dives at 3 km": (5000.0, 3000.0, False),
    "holds 8 km, dives at 3 km": (8000.0, 3000.0, False),
    "holds 11 km, dives at 3 km": (11_000.0, 3000.0, False),
    "baits: nose on it, at 200 m/s while it leaves": (0.0, 1e6, True),
}
CRUISE, SPEED = 0.25, 200.0
RANGES = (915.0, 1200.0)
G, TURN_GAIN, ROLL_GAIN = 9.80665, 2.0, 4.0
ROOF = torch.tensor([0.0, 0.0, -1.0])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pilot", nargs="?", default="runner", choices=rules.BOTS)
    parser.add_argument("--model", default="f16", choices=rules.MODELS)
    parser.add_argument("--pairs", type=int, default=100, help="starts, each played from both seats")
    args = parser.parse_args()
    print(f"| {args.pilot}, {args.model} | within 1,200 m | within 915 m | won | lost | range at the end, km |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    best = torch.zeros(2 * args.pairs, 4)
    for name, plan in PLANS.items():
        least, last, won, lost = flown(args.pilot, args.model, *plan, args.pairs)
        row = torch.stack([least <= RANGES[1], least <= RANGES[0], won, lost], dim=1).float()
        best = torch.maximum(best, row)
        print(f"| {name} | {shares(row)} | {last.median() / 1000.0:.1f} |", flush=True)
    print(f"| the best of these for each match | {shares(best[:, :3])} | | |")


def shares(row: Tensor) -> str:
    """Return percentages of the matches."""
    return " | ".join(f"{share:.1f} %" for share in (100.0 * row.mean(dim=0)).tolist())


def flown(pilot: str, model: str, height: float, dive: float, waits: bool, pairs: int) -> tuple[Tensor, ...]:
    """Return the least and last range, and whether the pursuer won and lost, of each match."""
    n, bot = 2 * pairs, rules.bot_id(pilot)
    game = AirCombatBatch(n, model=model, gun="cone", ground_limit=LOWEST, threads=1, seed=SEED)
    game.match_id.copy_(torch.arange(pairs, dtype=torch.int32).repeat(2))
    game.assign(torch.tensor([[rules.ACTIONS, bot]] * pairs + [[bot, rules.ACTIONS]] * pairs))
    game.reset(SEED)
    rows, me = torch.arange(n), torch.arange(n) // pairs
    running, won, lost = (
        torch.ones(n, dtype=torch.bool),
        torch.zeros(n, dtype=torch.bool),
        torch.zeros(n, dtype=torch.bool),
    )
    least, last, hold = torch.full((n,), torch.inf), torch.zeros(n), torch.zeros(0)
    while running.any():
        planes = game.snapshot()["planes"]
        pos, vel, nose, up = (torch.from_numpy(planes[key].copy()) for key in ("pos", "vel", "nose", "up"))
        if not len(hold):
            hold = torch.full((n,), height) if height else -pos[rows, me, 2]
        gap = pos[rows, 1 - me] - pos[rows, me]
        last = torch.where(running, gap.norm(dim=1), last)
        least = torch.where(running, torch.minimum(least, last), least)
        relative = vel[rows, 1 - me] - vel[rows, me]
        own = [values[rows, me] for values in (pos, vel, nose, up)]
        game.actions[rows, me] = pursue(*own, gap, relative, hold, dive)
        if waits:
            leaves = ((relative + own[1]) * gap).sum(1) > 0.0
            throttle = (CRUISE + 0.03 * (SPEED - own[1].norm(dim=1))).clamp(0.0, 1.0)
            game.actions[rows, me, 2] = torch.where(leaves, 2.0 * throttle - 1.0, 1.0)
        game.step(game.actions)
        ended = running & (game.outcome >= 0)
        won |= ended & (game.outcome == 1 + me)
        lost |= ended & (game.outcome == 2 - me)
        running &= ~ended
    return least, last, won, lost


def pursue(
    pos: Tensor, vel: Tensor, nose: Tensor, up: Tensor, gap: Tensor, relative: Tensor, hold: Tensor, dive: float
) -> Tensor:
    """Return actions [N, 4]: to `hold` m on a course that meets the opponent, from `dive` m on the nose on it."""
    distance, speed = gap.norm(dim=1, keepdim=True), vel.norm(dim=1, keepdim=True)
    ahead, bearing = vel / speed, gap / distance
    turn = (relative - bearing * (relative * bearing).sum(1, keepdim=True)) / distance
    near = normalize(bearing - (nose - ahead) + turn / TURN_GAIN, dim=1)
    meets = normalize(gap + (relative + vel) * (distance / speed).clamp(max=15.0), dim=1) * torch.tensor(
        [1.0, 1.0, 0.0]
    )
    climb = (0.2 * (hold + pos[:, 2]).unsqueeze(1) / speed).clamp(-0.5, 0.3)
    far = normalize(normalize(meets, dim=1) + climb * ROOF, dim=1)
    flat = gap[:, :2].norm(dim=1, keepdim=True)
    wanted = torch.where(flat < dive, near, far)
    fire = ((distance < rules.CONE_FAR) & ((nose * bearing).sum(1, keepdim=True) > rules.CONE_COS)).float()
    return torch.cat([steer(vel, speed, ahead, up, wanted), torch.ones_like(fire), 2.0 * fire - 1.0], dim=1)


def steer(vel: Tensor, speed: Tensor, ahead: Tensor, up: Tensor, wanted: Tensor) -> Tensor:
    """Return pull and roll [N, 2] that turn the velocity towards `wanted`, as `kernels/steering.py` does."""
    cosine = (ahead * wanted).sum(1, keepdim=True).clamp(-1.0, 1.0)
    side = normalize(wanted - ahead * cosine, dim=1)
    most = (rules.LOAD_MOST**2 - 1.0) ** 0.5
    pull = side * (TURN_GAIN * cosine.acos() * speed / G).clamp(max=most)
    pull = pull + ROOF - ahead * (ahead @ ROOF).unsqueeze(1)
    right = torch.linalg.cross(ahead, up)
    lift = torch.linalg.cross(right, ahead)
    across, above = (pull * right).sum(1), (pull * lift).sum(1)
    size, roll = pull.norm(dim=1), torch.atan2(across, above)
    load = (size * roll.cos().clamp(min=0.0)).clamp(0.0, rules.LOAD_MOST)
    push = (above < 0.0) & (size < 1.2)
    load, roll = torch.where(push, above.clamp(min=-1.0), load), torch.where(push, 0.0, roll)
    stick = (load - 1.0) / torch.where(load > 1.0, rules.LOAD_MOST - 1.0, 1.0 - rules.LOAD_LEAST)
    return torch.stack([stick, (ROLL_GAIN * roll / rules.ROLL_MOST).clamp(-1.0, 1.0)], dim=1)


if __name__ == "__main__":
    sys.exit(run_script(main))
