"""Whether a continued run goes on bit for bit: what a state's summary says of the machine of then, and this one.

Sums depend on the device, on how many threads share them, and on the version of torch; batches on how many play.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

KEYS = ("num_envs", "processes", "device", "torch_threads", "halves", "torch")
"""Of a summary: what the bits of a run depend on."""


def machine(device: torch.device) -> dict[str, Any]:
    """What a summary says of this machine."""
    return {"device": str(device), "torch_threads": torch.get_num_threads(), "torch": torch.__version__}


def inexact(found: Mapping[str, Any], now: Mapping[str, Any], *, deterministic: bool) -> list[str]:
    """Why a run continued from a state with the summary `found` will not go on bit for bit; empty where it will.

    `now` is the summary that a state would have here; keys that it lacks do not matter to this trainer.
    """
    keys = [key for key in KEYS if key in now and found.get(key) != now[key]]
    reasons = [f"{key} was {found.get(key, 'not noted')} and is {now[key]}" for key in keys]
    if not keys and not str(now["device"]).startswith("cpu") and not deterministic:
        reasons.append("sums on an accelerator have no fixed order without deterministic=true")
    return reasons
