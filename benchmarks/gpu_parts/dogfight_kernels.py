"""The dogfight's kernels on the device compared with those on the CPU, over 600 ticks, a tick at a time.

Every bot and given actions meet each other in both seats, under both rule sets and full randomization. First in step:
after each tick the device's matches are set to the CPU's, so that each tick is compared from the same state, the bots'
memories, observations and rewards included. Then freely: both play on from the same start, and how long they agree is
reported. A dogfight is chaotic (one bullet that misses by a rounding changes the rest of its match), so of that only
the first ticks are judged.
"""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.gpu_parts.agreement import Agreement
from benchmarks.gpu_parts.part import Found, PartOptions, percent
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch

TICKS = 600
SEEN = ("obs", "final_obs", "reward", "terminated", "truncated", "outcome", "length", "final_hp")
TOLERANCES = {"clock.closing": 3e-2}
"""In m/s: the closing speed is the difference of two distances after a tick of 1/120 s, and four last bits of 1,000 m,
6e-5 each, are 3 cm/s. On a GPU 5 % of the ticks were off by more than 1e-5 of it, none by more than this."""
LOOKS = (1, 10, 60, 120, 300, 600)
"""Ticks after which free play is compared."""
AT_MOST_DIFFERENT = 0.001
"""Share of matches x ticks, each from the same state, in which a decision may depend on rounding."""
JUDGED_TICK, AT_LEAST_CLOSE = 10, 0.98


def measure(options: PartOptions) -> Found:
    """Compare under both rule sets, in step and freely."""
    found = Found()
    copies, ticks = options.sized((8, TICKS), (1, 20))
    stepwise, free = [], []
    for rule_set in rules.RULES:
        agreement = in_step(rule_set, options, copies, ticks)
        stepwise.append([rule_set, *_row(agreement)])
        share = agreement.different_share
        found.checks[f"{rule_set}: at most {AT_MOST_DIFFERENT:.1%} of ticks differ"] = share <= AT_MOST_DIFFERENT
        looks = freely(rule_set, options, copies, ticks)
        free += [[rule_set, str(tick), *_row(look)] for tick, look in looks.items()]
        early = looks[min(looks, key=lambda tick: abs(tick - JUDGED_TICK))]
        close = early.different_share <= 1.0 - AT_LEAST_CLOSE
        found.checks[f"{rule_set}: playing freely, {AT_LEAST_CLOSE:.0%} agree after {JUDGED_TICK} ticks"] = close
        found.numbers[rule_set] = {
            "ticks": ticks,
            "rows": agreement.rows,
            "equal_share": agreement.equal_share,
            "different_share": agreement.different_share,
            "largest": agreement.largest,
            "largest_seen": agreement.largest_seen,
            "free_different_share": {str(tick): look.different_share for tick, look in looks.items()},
        }
    gaps = ["largest gap of the rest: state", "seen"]
    columns = ["equal to the bit", "different", *gaps, "fields that differ most"]
    found.table("Each tick from the CPU's state:", ["rules", "matches x ticks", *columns], stepwise)
    found.table("Each on its own from the same start:", ["rules", "tick", "matches", *columns], free)
    return found


def in_step(rule_set: str, options: PartOptions, copies: int, ticks: int) -> Agreement:
    """Compare every tick; before each, the device's matches are set to the CPU's."""
    cpu, device = (_batch(rule_set, where, copies, options.seed) for where in ("cpu", options.device))
    draws, agreement = torch.Generator().manual_seed(options.seed), Agreement(TOLERANCES)
    try:
        for _ in range(ticks):
            device.load_state_dict(cpu.state_dict())
            _step((cpu, device), draws)
            agreement.add(_everything(cpu), _everything(device))
    finally:
        cpu.close()
        device.close()
    return agreement


def freely(rule_set: str, options: PartOptions, copies: int, ticks: int) -> dict[int, Agreement]:
    """Compare the states after the ticks of `LOOKS`, and at the end, without synchronization."""
    cpu, device = (_batch(rule_set, where, copies, options.seed) for where in ("cpu", options.device))
    draws, looks = torch.Generator().manual_seed(options.seed), {}
    try:
        for tick in range(1, ticks + 1):
            _step((cpu, device), draws)
            if tick in LOOKS or tick == ticks:
                looks[tick] = Agreement(TOLERANCES)
                looks[tick].add(cpu.snapshot(), device.snapshot())
    finally:
        cpu.close()
        device.close()
    return looks


def pairings(copies: int) -> np.ndarray:
    """Return players int32 [N, 2]: every bot and given actions against each other in both seats, `copies` of each."""
    players = (*range(len(rules.BOTS)), rules.ACTIONS)
    return np.array([[one, other] for one in players for other in players] * copies, dtype=np.int32)


def _batch(rule_set: str, device: str, copies: int, seed: int) -> DogfightBatch:
    bots = pairings(copies)
    batch = DogfightBatch(len(bots), device=device, rules=rule_set, action_repeat=1, seed=seed)
    batch.set_ranges(rules.ranges("full"))
    batch.assign(bots)
    batch.reset(seed)
    return batch


def _step(batches: tuple[DogfightBatch, DogfightBatch], draws: torch.Generator) -> None:
    """Return the same random actions for both."""
    actions = torch.rand(batches[0].num_envs, 2, 3, generator=draws)
    actions[..., 0] = 2.0 * actions[..., 0] - 1.0
    for batch in batches:
        batch.step(actions.to(batch.device))


def _everything(batch: DogfightBatch) -> dict[str, np.ndarray]:
    """Return the state and the results of a step on the host; last observations only of matches that ended."""
    seen = {name: getattr(batch, name).cpu().numpy() for name in SEEN}
    ended = seen["terminated"] | seen["truncated"]
    seen["final_obs"] = np.where(ended[:, None, None], seen["final_obs"], np.float32(0.0))
    return batch.snapshot() | seen


def _row(agreement: Agreement) -> list[str]:
    return [
        f"{agreement.rows:,}",
        percent(agreement.equal_share),
        percent(agreement.different_share),
        f"{agreement.largest:.2g}",
        f"{agreement.largest_seen:.2g}",
        agreement.worst_fields(),
    ]
