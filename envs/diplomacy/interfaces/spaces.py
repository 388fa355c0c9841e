"""Action and observation spaces of one power, and the check of actions before they become orders.

A power has at most 17 slots, one for each unit that may be ordered; an action holds the index of an order listed for
each slot. No position exceeds `MAX_ORDERS`, so that a mask never leaves out an order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, MultiBinary, MultiDiscrete

from sparring.envs.diplomacy.board.board import location_name
from sparring.envs.diplomacy.board.codes import SLOTS
from sparring.envs.diplomacy.observation import SHAPE
from sparring.envs.diplomacy.orders.listing import MAX_ORDERS
from sparring.envs.diplomacy.orders.order_choices import CHOICES

Slot = tuple[int, np.ndarray]
"""A province, and the orders int32 [n] listed for it."""


class OrderSpace(MultiDiscrete):
    """`MultiDiscrete([MAX_ORDERS] * 17)`; `sample` also takes an observation's flat action mask as it is."""

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__([MAX_ORDERS] * SLOTS, seed=seed)

    def sample(self, mask: Any = None, probability: Any = None) -> np.ndarray:
        """Draw a random action; with a mask int8 [17 * MAX_ORDERS] a legal one, uniform in every slot."""
        if not isinstance(mask, np.ndarray):
            return super().sample(mask, probability)
        slots, orders = np.nonzero(mask.reshape(SLOTS, MAX_ORDERS))
        counts = np.bincount(slots, minlength=SLOTS)
        picks = np.cumsum(counts) - counts + (self.np_random.random(SLOTS) * counts).astype(np.int64)
        return np.where(counts > 0, np.append(orders, 0)[np.minimum(picks, len(orders))], 0)


def observation_space() -> Dict:
    """Return the observation space of one power: the board and the action mask."""
    return Dict(
        {
            "observation": Box(0.0, 1.0, SHAPE, dtype=np.float32),
            "action_mask": MultiBinary(SLOTS * MAX_ORDERS),
        }
    )


def choice_space() -> MultiDiscrete:
    """Return the space of the actions of `MovementBatch`: a choice for each of 17 units, 0 to 36."""
    return MultiDiscrete([CHOICES] * SLOTS)


def action_mask(slots: Sequence[Slot]) -> np.ndarray:
    """Return the mask of listed orders, int8 [17 * MAX_ORDERS]; a slot without a unit allows only 0."""
    mask = np.zeros((SLOTS, MAX_ORDERS), dtype=np.int8)
    mask[len(slots) :, 0] = 1
    for number, (_, listed) in enumerate(slots):
        mask[number, : len(listed)] = 1
    return mask.reshape(-1)


def check_action(action: Any, slots: Sequence[Slot], whose: str, *, lenient: bool = False) -> np.ndarray:
    """Return an action as int64 [17]. Raises `ValueError` for an unlisted index; with `lenient`, it becomes 0."""
    try:
        array = np.asarray(action)
    except ValueError:  # Lists of different lengths.
        raise ValueError(f"{whose}: {action!r} is no array; give the number of an order for every slot") from None
    if array.shape != (SLOTS,):
        raise ValueError(f"{whose}: shape {array.shape} is not ({SLOTS},); give the number of an order for every slot")
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{whose}: type {array.dtype} is no integer; give the numbers of listed orders")
    most = np.array([len(listed) for _, listed in slots] + [1] * (SLOTS - len(slots)))
    wrong = np.flatnonzero((array < 0) | (array >= most))
    if len(wrong) and not lenient:
        slot = int(wrong[0])
        where = f" ({location_name(slots[slot][0])})" if slot < len(slots) else ", a slot without a unit,"
        raise ValueError(
            f"{whose}[{slot}]{where} = {array[slot]}: must be in [0, {most[slot] - 1}]; "
            "the observation's action_mask marks the legal ones, and infos list the orders"
        )
    array = array.astype(np.int64)
    array[wrong] = 0
    return array
