"""The dogfight's kernels on the device compared with those on the CPU, over 600 ticks, a tick at a time.

Every bot and given actions meet each other in both seats, under both rule sets and full randomization. First in step:
after each tick the device's matches are set to the CPU's. Each tick is compared from the same state, including the
bots' memories, observations and rewards. Then freely: both continue from the same start, and the report says how long
they agree. A dogfight is chaotic (one bullet that misses by a rounding changes the rest of its match), so only the
first ticks count.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from benchmarks.gpu_parts.agreement import Comparison, pairings
from benchmarks.gpu_parts.part import Found, PartOptions
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch

TICKS = 600
SEEN = ("obs", "final_obs", "reward", "terminated", "truncated", "outcome", "length", "final_hp")
TOLERANCES = {"clock.closing": 3e-2}
"""In m/s: the closing speed is the difference of two distances after a tick of 1/120 s, and four last bits of 1,000 m,
6e-5 each, are 3 cm/s. On a GPU 5 % of the ticks were off by more than 1e-5 of it, none by more than this."""
LOOKS = (1, 10, 60, 120, 300, 600)
"""Ticks after which free play is compared."""


def measure(options: PartOptions) -> Found:
    """Compare under both rule sets, in step and freely."""
    found = Found()
    copies, ticks = options.sized((8, TICKS), (1, 20))
    stepwise, free = [], []
    for rule_set in rules.RULES:
        agreement, looks = compared(rule_set, options, copies).judge(rule_set, ticks, LOOKS, found)
        stepwise.append([rule_set, *agreement.cells()])
        free += [[rule_set, str(tick), *look.cells()] for tick, look in looks.items()]
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


def compared(rule_set: str, options: PartOptions, copies: int) -> Comparison:
    """Return the comparison of every pairing, `copies` of each."""
    build = partial(_batch, rule_set, copies=copies, seed=options.seed)
    return Comparison(build, _step, _everything, TOLERANCES, options)


def _batch(rule_set: str, device: str, copies: int, seed: int) -> DogfightBatch:
    bots = pairings(len(rules.BOTS), rules.ACTIONS, copies)
    batch = DogfightBatch(len(bots), device=device, rules=rule_set, action_repeat=1, seed=seed)
    batch.set_ranges(rules.ranges("full"))
    batch.assign(bots)
    batch.reset(seed)
    return batch


def _step(batches: tuple[DogfightBatch, DogfightBatch], draws: torch.Generator) -> None:
    """Play the same random actions in both."""
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
