"""Read masks of legal actions in imported games: their format and location.

`action_mask` at the top of an observation or of the infos is read. A mask holds 1 for every legal action and 0 for the
others: K values, the alternatives of all choices one after the other, or one array for each choice. Entries that look
like masks elsewhere are not read. `unread_masks` finds them, and a run reports them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete, MultiDiscrete, Space

from sparring.configs.core.errors import InputError

MASK = "action_mask"
METHODS = (
    *("action_masks", "action_mask", "valid_action_mask", "valid_action_masks", "legal_action_mask"),
    *("legal_actions_mask", "get_action_mask", "get_action_masks", "get_valid_actions", "get_legal_actions"),
)
"""Methods through which environments provide masks to other trainers; these are not read either."""
NAMES = re.compile(r"mask|legal|valid|avail|allowed|feasible|permitted", re.IGNORECASE)
"""Parts of names that games use for masks."""
LISTS = re.compile(r"(legal|valid|avail\w*|allowed|feasible|permitted)_?(actions?|moves?)", re.IGNORECASE)
"""Names that say the same whatever the form of their values, such as indices of the legal actions."""


def alternatives_of(space: Space[Any]) -> list[int]:
    """Return the number of alternatives of each choice of an action space; none for numbers and switches."""
    if isinstance(space, Discrete):
        return [int(space.n)]
    return space.nvec.ravel().tolist() if isinstance(space, MultiDiscrete) else []


def flat_mask(mask: Any, sizes: Sequence[int], owner: str) -> np.ndarray:
    """Return a mask [K] of choices with `sizes` alternatives, as given: its values are not checked.

    Takes K values in any one axis, or for several choices one mask each. Raises `InputError`, with `owner` as the
    player in the message, for another number of values or another shape.
    """
    count = sum(sizes)
    if type(mask) is np.ndarray and mask.shape == (count,) and mask.dtype.kind in "biuf":
        return mask  # the usual case
    if isinstance(mask, np.ndarray) and mask.dtype == object:
        mask = mask.tolist()
    if isinstance(mask, list | tuple) and 1 < len(mask) == len(sizes) and (len(sizes) != count or np.ndim(mask[0])):
        parts = enumerate(zip(mask, sizes, strict=True))
        return np.concatenate([flat_mask(part, [size], f"{owner} in choice {k}") for k, (part, size) in parts])
    try:
        array = np.asarray(mask)
    except ValueError:  # lists of unequal lengths
        array = np.empty(0, dtype=object)
    if array.dtype.kind in "biuf" and array.size == count == max(array.shape, default=0):
        return array.reshape(-1)
    kind = type(mask).__name__ if array.dtype.kind not in "biuf" or not array.ndim else f"the shape {array.shape}"
    content = f"{len(array)} values" if array.ndim == 1 and array.dtype.kind in "biuf" else kind
    raise InputError(f"the mask of {owner} has {content}; return one for each of its {count} actions")


def draw_legal(space: Space[Any], mask: np.ndarray | None, random: np.random.Generator) -> Any:
    """Return a random action of a Discrete or MultiDiscrete `space` that a mask [K] allows; without one, any.

    Actions of other spaces are sampled by the space, which is seeded.
    """
    sizes = alternatives_of(space)
    if not sizes:
        space.seed(int(random.integers(2**31)))
        return space.sample()
    allowed = np.ones(sum(sizes), dtype=bool) if mask is None else np.asarray(mask) == 1
    chosen = [random.choice(np.flatnonzero(part)) for part in np.split(allowed, np.cumsum(sizes)[:-1])]
    if isinstance(space, MultiDiscrete):
        return (np.reshape(chosen, space.nvec.shape) + space.start).astype(space.dtype)
    assert isinstance(space, Discrete)
    return int(chosen[0]) + int(space.start)


def unread_masks(value: Any, sizes: Sequence[int], *, top: bool = True) -> Iterator[str]:
    """Yield the keys, as in `state.legal_moves`, of entries in `value` that look like masks and are not read.

    `value` is an observation or the infos of a player whose choices have `sizes` alternatives. At the `top`,
    `action_mask` is read.
    """
    for key, inner in value.items() if isinstance(value, Mapping) else ():
        if isinstance(inner, Mapping):
            yield from (f"{key}.{name}" for name in unread_masks(inner, sizes, top=False))
        elif key == MASK:
            if not top or not sizes:
                yield key
        elif isinstance(key, str) and sizes and (LISTS.search(key) or (NAMES.search(key) and _is_mask(inner, sizes))):
            yield key


def _is_mask(value: Any, sizes: Sequence[int]) -> bool:
    try:
        return bool(np.isin(flat_mask(value, sizes, ""), (0, 1, -np.inf)).all())
    except InputError:
        return False
