"""Restoring a torch generator from a saved state, also one saved on another kind of device.

The states of a CPU generator (Mersenne Twister, 5 kB) and a GPU generator (Philox, 16 bytes) are incompatible. A run
that moves from one to the other continues with other draws in any case; the generator is then seeded with the state's
hash, so that equal states continue identically.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import torch

from sparring.configs.core.tensor_checks import check_tensor
from sparring.configs.core.typed import ContentError, require

MERSENNE, PHILOX = 5056, 16
"""Bytes of a state on a CPU and on a GPU."""
WORDS = 624
"""Of the Mersenne Twister."""


def restore_generator(generator: torch.Generator, state: Any, place: str) -> None:
    """Set `generator` to a `get_state()` of its own kind, or seed it from one of another kind.

    `place` names the state in the `ContentError` that is raised if it is none.
    """
    size = state.numel() if isinstance(state, torch.Tensor) and state.numel() in (MERSENNE, PHILOX) else MERSENNE
    state = check_tensor(state, torch.empty(size, dtype=torch.uint8), place).cpu()
    data = state.numpy().tobytes()
    if size == MERSENNE:
        _, left, _, position = struct.unpack_from("<QiiQ", data)
        # torch reads word number `position`, `left` - 1 times before it makes new words, and checks each for itself.
        require(left == 1 or left + position <= WORDS + 1, f"{place}: is no state of a generator")
    if size != len(generator.get_state()):
        generator.manual_seed(int.from_bytes(hashlib.sha256(data).digest()[:8], "little") >> 1)
        return
    try:
        generator.set_state(state)
    except RuntimeError as error:
        raise ContentError(f"{place}: is no state of a generator") from error
