"""A torch generator set back to a saved state, also where the state was saved on another kind of device.

A CPU's generator (Mersenne Twister, 5 kB) and a GPU's (Philox, 16 bytes) cannot take each other's state. A run that
moves from one to the other goes on with other draws in any case: there the generator is seeded by the state's hash, so
that the same state always goes on alike.
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
