"""Reasons why a resumed run is not bit-exact, from the summary of its state and that of a state made now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KEYS = ("num_envs", "processes", "device", "torch_threads", "halves", "torch")
"""Keys of a summary that affect bit-exact resuming: sums depend on device, threads and torch, batches on the rest."""
SETS = "instruction_sets"


def inexact(found: Mapping[str, Any], now: Mapping[str, Any], *, deterministic: bool) -> list[str]:
    """Return reasons why a run continued from a state with summary `found` is not bit-exact; empty if it is.

    `now` is the summary of a state on this machine; keys that it lacks are irrelevant to this trainer.
    """
    keys = [key for key in KEYS if key in now and found.get(key) != now[key]]
    reasons = [f"{key} was {found.get(key, 'not noted')} and is {now[key]}" for key in keys]
    if not keys and not str(now["device"]).startswith("cpu") and not deterministic:
        reasons.append("sums on an accelerator have no fixed order without deterministic=true")
    if not found.get("episodes", True):
        reasons.append("the matches were lost with a process and start again")
    return reasons + _machine(found, now)


def _machine(found: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Compare fingerprints and the replayed minibatch."""
    if "fingerprint" not in now:
        return []
    if "fingerprint" not in found:
        return ["processor and libraries were not noted"]
    before, present = found["fingerprint"], now["fingerprint"]
    names = [name for name in {**before, **present} if before.get(name) != present.get(name)]
    reasons = [_difference(name, before.get(name, ""), present.get(name, "")) for name in names]
    if "minibatch" not in now or "minibatch" not in found or found.get("device") != now["device"]:
        return reasons
    if found["minibatch"] != now["minibatch"]:
        return [*reasons, "a replayed minibatch gives other bits"]
    return [*reasons, "a replayed minibatch gives the same bits all the same"] if reasons else []


def _difference(name: str, before: str, now: str) -> str:
    if name != SETS:
        return f"{name} was {before or 'not set'} and is {now or 'not set'}"
    lost, gained = (sorted(set(a.split()) - set(b.split())) for a, b in ((before, now), (now, before)))
    parts = [f"lacks {', '.join(lost)}"] * bool(lost) + [f"also has {', '.join(gained)}"] * bool(gained)
    return f"the processor {' and '.join(parts)}"
