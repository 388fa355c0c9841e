"""Files of a run as leaves: every number, text and tensor by its path, such as `learner/optimizer/state/0/exp_avg`.

Numbers in JSON stay as they were written, since a recording promises the same digits. Paths of the machine are replaced
by the words that the recording gives for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
import yaml

Leaf = Any
"""A tensor, text, a `Written` number, or a plain value of Python's."""
Leaves = dict[str, Leaf]
FORECAST = re.compile(r"about [\d.]+ (s|min|h|days) on this machine; ")
"""How long a run will take, which depends on what else the machine does."""


class Written(str):
    """A number as it stands in a JSON file."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def read_leaves(file: Path, places: Mapping[str, str]) -> Leaves:
    """Read every leaf of a file; `places` has words for paths. A kind of file not known is one leaf, its SHA-256.

    Raises `ValueError` or an error of torch's for a damaged file.
    """
    return dict(_flat(_content(file), "", places))


def _content(file: Path) -> Any:
    if file.suffix == ".pt":
        return torch.load(file, map_location="cpu", weights_only=True)
    if file.suffix == ".safetensors":
        from safetensors.torch import load_file  # an optional package, which only language models need

        return load_file(file)
    if file.suffix == ".jsonl":
        return [_json(line) for line in file.read_text(encoding="utf-8").splitlines()]
    if file.suffix == ".json":
        return _json(file.read_text(encoding="utf-8"))
    if file.suffix == ".yaml":
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    return sha256(file.read_bytes()).hexdigest()


def _json(text: str) -> Any:
    return json.loads(text, parse_float=Written, parse_int=Written)


def _flat(value: Any, key: str, places: Mapping[str, str]) -> Iterable[tuple[str, Leaf]]:
    """Leaves of nested mappings and lists; one that is empty is a leaf, too."""
    if isinstance(value, Mapping | list | tuple) and value:
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for name, item in items:
            yield from _flat(item, f"{key}/{name}" if key else str(name), places)
    elif type(value) is str:
        yield key, _placeless(value, places)
    else:
        yield key, value


def _placeless(text: str, places: Mapping[str, str]) -> str:
    for path, word in places.items():
        text = text.replace(path, word)
    return FORECAST.sub("", text)


def same(first: Leaf, second: Leaf) -> bool:
    """Are two leaves the same, to the bit? NaN is the same as NaN, 0.0 is not -0.0."""
    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        alike = (first.dtype, first.shape) == (second.dtype, second.shape)
        return alike and torch.equal(_bytes(first), _bytes(second))
    return type(first) is type(second) and repr(first) == repr(second)


def both(first: Leaf, second: Leaf) -> tuple[str, str]:
    """Describe two leaves that differ; of tensors of one shape, the first element that does."""
    if not (isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor)):
        return short(first), short(second)
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return short(first), short(second)
    width = first.element_size()
    unequal = (_bytes(first).view(-1, width) != _bytes(second).view(-1, width)).any(dim=1)
    at = int(unequal.nonzero()[0])
    about = f"element {at} of {first.numel()}, {int(unequal.sum())} differ"
    return f"{_element(first, at)} ({about})", _element(second, at)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def _element(tensor: torch.Tensor, at: int) -> str:
    return repr(tensor.reshape(-1)[at].item())


def short(leaf: Leaf) -> str:
    """Describe a leaf in one line: a tensor by type and shape."""
    if isinstance(leaf, torch.Tensor):
        return f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}"
    text = repr(leaf)
    return text if len(text) <= 120 else f"{text[:117]}..."
