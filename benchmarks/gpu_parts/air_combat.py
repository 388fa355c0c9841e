"""Air combat on the device: kernels compared with the CPU's, reruns, and aircraft steps per second at growing sizes.

Every pilot and given actions meet each other in both seats, under both flight models. First in step: after each tick
the device's matches are set to the CPU's, and each tick is compared from the same state. Then freely, where only the
first ticks count: a fight is chaotic. The same matches played twice on the device must be bit-identical: one thread
plays a match, without atomics.
"""

from __future__ import annotations

import statistics
from functools import partial

import numpy as np
import torch

from benchmarks.gpu_parts.agreement import Comparison, pairings
from benchmarks.gpu_parts.part import Found, PartOptions, rate
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch

TICKS, COPIES = 240, 4
SEEN = ("obs", "reward", "terminated", "truncated", "outcome", "length", "final_hp")
TOLERANCES = {f"planes.{name}": 1e-4 for name in ("vel", "nose", "up", "alpha", "rates", "past_acceleration")} | {
    "planes.load": 1e-3,
    "planes.past_rotation": 1e-3,
    "planes.roll_rate": 2e-3,
    "planes.surfaces": 5e-2,
}
"""Relative to a value's size, at least 1; other states keep 1e-5. Measured on a CPU by moving the whole state by its
last bit. A pilot on target rolls by the angle of a tiny pull (roll rate 6e-4, load 2e-4, velocity 1e-5 in a tick). The
inner loop of the F-16 divides roundings of moments by the effect of the surfaces (2e-2 degrees, 3e-5 of the turn). Each
tolerance is three to ten times these."""
LOOKS = (1, 10, 60, 240)
"""Ticks after which free play is compared."""
SIZES, ROUNDS, SECONDS = (4096, 16384, 65536), 3, 0.5
BAR = 10e6
"""Aircraft steps per second at the largest size. A step is one tick, 1/60 s, of one aircraft."""
FIGHTING = ("chaser", "dogfighter", "brawler")


def measure(options: PartOptions) -> Found:
    """Compare, play again and measure the speed, for each flight model."""
    found = Found()
    agreed, rows = [], []
    for model in rules.MODELS:
        agreed += agreement(model, options, found)
        steps = options.sized(200, 5)
        name = f"{model}: {steps} steps played twice on {options.device} are equal to the bit"
        found.checks[name] = played(model, options, steps) == played(model, options, steps)
        rows += speeds(model, options, found)
    columns = ["equal to the bit", "different", "largest gap of the rest: state", "seen", "fields that differ most"]
    found.table("Each tick from the CPU's state, then each on its own:", ["model", "tick", "rows", *columns], agreed)
    device = f"{options.device}: M aircraft steps / s"
    found.table("", ["model", "matches", device, "spread", "M decisions / s", "CPU: M aircraft steps / s"], rows)
    found.notes.append(
        f"An aircraft step is a tick of 1/60 s; a decision is {rules.ACTION_REPEAT} of them, observed and rewarded. "
        "Seat 0 plays given actions, seat 1 pilots that fight."
    )
    return found


def agreement(model: str, options: PartOptions, found: Found) -> list[list[str]]:
    """Compare in step and freely; add the checks and return rows of the table."""
    stepwise, looks = compared(model, options).judge(model, options.sized(TICKS, 8), LOOKS, found)
    found.numbers[model] = {
        "rows": stepwise.rows,
        "equal_share": stepwise.equal_share,
        "different_share": stepwise.different_share,
        "largest": stepwise.largest,
        "free_different_share": {str(tick): look.different_share for tick, look in looks.items()},
    }
    return [[model, str(tick), *look.cells()] for tick, look in [("each", stepwise), *looks.items()]]


def compared(model: str, options: PartOptions) -> Comparison:
    """Return the comparison of every pairing."""
    return Comparison(partial(_batch, model, options=options), _step, _everything, TOLERANCES, options)


def played(model: str, options: PartOptions, steps: int) -> list[bytes]:
    """Return the bytes of the state and the results after some steps on the device."""
    batch, draws = _batch(model, options.device, options), torch.Generator().manual_seed(options.seed)
    for _ in range(steps):
        _step((batch,), draws)
    arrays = _everything(batch)
    batch.close()
    return [arrays[name].tobytes() for name in sorted(arrays)]


def speeds(model: str, options: PartOptions, found: Found) -> list[list[str]]:
    """Measure the device at growing sizes beside the CPU, with all its cores, at the smallest."""
    sizes, rows = options.sized(SIZES, (4, 8)), []
    cpu = _aircraft_steps(model, sizes[0], "cpu", options)
    for matches in sizes:
        rates = _aircraft_steps(model, matches, options.device, options)
        mine, spread = statistics.median(rates), max(rates) - min(rates)
        beside = f"{statistics.median(cpu) / 1e6:.2f}" if matches == sizes[0] else ""
        decisions = mine / rules.ACTION_REPEAT / 1e6
        rows.append([model, f"{matches:,}", f"{mine / 1e6:.1f}", f"{spread / mine:.1%}", f"{decisions:.2f}", beside])
        found.numbers[f"{model}/{matches}"] = {"aircraft_steps": mine, "all": rates, "cpu": cpu}
    if options.cuda and not options.quick:
        found.checks[f"{model}: {BAR / 1e6:.0f} M aircraft steps / s at {sizes[-1]:,} matches"] = mine >= BAR
    return rows


def _aircraft_steps(model: str, matches: int, device: str, options: PartOptions) -> list[float]:
    """Return the aircraft steps per second in each round, of matches that are fighting."""
    batch = AirCombatBatch(matches, device=device, model=model, seed=options.seed)
    bots = np.full((matches, 2), rules.ACTIONS)
    bots[:, 1] = np.resize([rules.bot_id(name) for name in FIGHTING], matches)
    batch.assign(bots)
    batch.actions[:] = torch.tensor([0.3, 0.05, 0.8, 1.0], device=batch.device)
    step = partial(batch.step, batch.actions)
    for _ in range(options.sized(20, 1)):
        step()
    seconds = options.sized(SECONDS, 0.0)
    rates = [rate(step, seconds=seconds, device=str(batch.device)) for _ in range(options.sized(ROUNDS, 1))]
    batch.close()
    return [found * matches * 2 * rules.ACTION_REPEAT for found in rates]


def _batch(model: str, device: str, options: PartOptions) -> AirCombatBatch:
    bots = pairings(len(rules.BOTS), rules.ACTIONS, options.sized(COPIES, 1))
    batch = AirCombatBatch(len(bots), device=device, model=model, action_repeat=1, seed=options.seed)
    batch.assign(bots)
    _bring_together(batch)
    return batch


def _bring_together(batch: AirCombatBatch) -> None:
    """Move the aircraft to a third of their distance; shots are then fired within the ticks compared."""
    planes = batch.snapshot()["planes"]
    planes["pos"][..., :2] /= 3.0
    batch.load({"planes": planes})


def _step(batches: tuple[AirCombatBatch, ...], draws: torch.Generator) -> None:
    """Play the same random actions in all."""
    actions = 2.0 * torch.rand(batches[0].num_envs, 2, batches[0].action_size, generator=draws) - 1.0
    for batch in batches:
        batch.step(actions.to(batch.device))


def _everything(batch: AirCombatBatch) -> dict[str, np.ndarray]:
    """Return the state and the results of a step on the host."""
    return batch.snapshot() | {name: getattr(batch, name).cpu().numpy() for name in SEEN}
