"""Restoring a torch generator from a saved state, also one saved on another kind of device.

The states of a CPU generator (Mersenne Twister, 5 kB) and a GPU generator (Philox, 16 bytes) are incompatible. A run
that moves from one to the other continues with other draws in any case; the generator is then seeded with the state's
hash, so that equal states continue identically.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor


def restore_generator(generator: torch.Generator, state: Tensor) -> None:
    """Set `generator` to a `get_state()` of its own kind, or seed it from one of another kind."""
    state = state.cpu()
    if len(state) == len(generator.get_state()):
        generator.set_state(state)
        return
    digest = hashlib.sha256(state.numpy().tobytes()).digest()
    generator.manual_seed(int.from_bytes(digest[:8], "little") >> 1)
