"""Adapter files: only tensors and plain data, written atomically and verified when read.

An adapter is valid only for the base it was trained on, so the file holds a hash of that base.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sparring.agents.llm.models.adapters import AdapterError
from sparring.agents.llm.models.identity import base_identity, identity_like
from sparring.agents.llm.models.lora import LoraShape
from sparring.configs.core.manifest import ManifestError, read_listed, write_listed
from sparring.configs.core.tensor_file import TensorFileError, pack, unpack

FORMAT, VERSION = "sparring-adapter", 1


@dataclass(frozen=True)
class AdapterFile:
    """Content of a file: shape and weights of an adapter, the identity of its base, and data on its training."""

    shape: LoraShape
    weights: dict[str, Tensor]
    base: str
    training: dict[str, Any]


def save_adapter(
    path: Path, model: Any, shape: LoraShape, weights: Mapping[str, Tensor], *, training: Mapping[str, Any]
) -> None:
    """Write an adapter of `model` to `path`, and its entry to the folder's manifest; equal arguments give equal bytes.

    Raises `OSError` as `open` does, `AdapterError` for a damaged manifest.
    """
    header = {"format": FORMAT, "version": VERSION, "base": base_identity(model)}
    body = {"shape": asdict(shape), "training": dict(training), "weights": dict(weights)}
    try:
        write_listed(path, pack(header | body))
    except ManifestError as error:
        raise AdapterError(str(error)) from error


def load_adapter(path: Path, model: Any = None) -> AdapterFile:
    """Read an adapter, and check that it belongs to `model` if one is given.

    Raises `AdapterError` for a file that is missing, damaged, not an adapter, of another version, or of another base.
    """
    try:
        content = unpack(read_listed(path))
    except OSError as error:
        raise AdapterError(f"{path}: cannot be read ({error.strerror})") from error
    except ManifestError as error:
        raise AdapterError(str(error)) from error
    except TensorFileError as error:
        raise AdapterError(f"{path}: {error}") from error
    found = _parse(path, content)
    if model is not None and found.base != identity_like(found.base, model):
        raise AdapterError(f"{path}: was trained on another base model: choose that one with model.name")
    return found


def _parse(path: Path, content: dict[str, Any]) -> AdapterFile:
    if content.get("format") != FORMAT:
        raise AdapterError(f"{path}: is no adapter of Sparring's")
    if content.get("version") != VERSION:
        raise AdapterError(f"{path}: has version {content.get('version')}, this Sparring reads {VERSION}; update it")
    try:
        shape = LoraShape(**content["shape"])
        base, training, weights = str(content["base"]), dict(content["training"]), dict(content["weights"])
    except (KeyError, TypeError, ValueError) as error:
        raise AdapterError(f"{path}: lacks what an adapter has ({error})") from error
    if not all(isinstance(value, torch.Tensor) for value in weights.values()):
        raise AdapterError(f"{path}: has weights that are no tensors")
    return AdapterFile(shape, weights, base, training)
