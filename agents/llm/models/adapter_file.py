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
from typing_extensions import TypedDict

from sparring.agents.llm.models.adapters import AdapterError
from sparring.agents.llm.models.identity import base_identity, identity_like
from sparring.agents.llm.models.lora import LoraShape
from sparring.configs.core.manifest import ManifestError, read_listed, write_listed
from sparring.configs.core.run_contents import TrainingStateError
from sparring.configs.core.tensor_checks import Tensors, check_tensor
from sparring.configs.core.tensor_file import TensorFileError, pack, unpack
from sparring.configs.core.typed import Count, NotNegative, Plain, Positive, Text, naming, read, require, shown
from sparring.configs.language import ADAPTER, LORA_TARGETS

VERSION = 1


class StoredLora(TypedDict):
    """A `LoraShape`."""

    rank: Positive
    alpha: NotNegative
    targets: Text


class StoredAdapter(TypedDict):
    """Content of a file, apart from format and version."""

    shape: StoredLora
    base: Text
    training: Plain
    weights: Tensors


class StoredAdapterTraining(TypedDict, total=False):
    """Summary of an adapter's training."""

    run: Text
    seed: Count
    step: Count
    decisions: Count


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
    header = {"format": ADAPTER, "version": VERSION, "base": base_identity(model)}
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
    except (ManifestError, TrainingStateError) as error:
        raise AdapterError(str(error)) from error
    except TensorFileError as error:
        raise AdapterError(f"{path}: {error}") from error
    found = _parse(path, content)
    if model is not None and found.base != identity_like(found.base, model):
        raise AdapterError(f"{path}: was trained on another base model: choose that one with model.name")
    return found


def _parse(path: Path, content: dict[str, Any]) -> AdapterFile:
    version = content.get("version")
    if content.get("format") != ADAPTER or type(version) is not int:
        raise AdapterError(f"{path}: is no adapter of Sparring's")
    if version != VERSION:
        raise AdapterError(f"{path}: has version {shown(version)}, this Sparring reads {VERSION}; update it")
    with naming(path, AdapterError, "restore it, or train another"):
        found = read(StoredAdapter, content)
        read(StoredAdapterTraining, found["training"], "training")
        _check_weights(found["shape"], found["weights"])
    return AdapterFile(LoraShape(**found["shape"]), found["weights"], found["base"], found["training"])


def _check_weights(shape: StoredLora, weights: dict[str, Tensor]) -> None:
    """Compare the shape with the stored matrices, A [rank, inputs] and B [outputs, rank], before a model has them."""
    rank, alpha, targets = shape["rank"], shape["alpha"], shape["targets"]
    require(targets in LORA_TARGETS, f"shape.targets={targets!r}: choose from {', '.join(LORA_TARGETS)}")
    require(alpha > 0, f"shape.alpha={alpha}: must be above 0")
    require(bool(weights), "weights: has none")
    for name, weight in weights.items():
        axis = 0 if name.endswith(".lora_A.weight") else 1 if name.endswith(".lora_B.weight") else None
        require(axis is not None and weight.dim() == 2, f"weights.{name}: is no matrix of an adapter")
        assert axis is not None
        require(weight.shape[axis] == rank, f"shape.rank={rank}: weights.{name} has {weight.shape[axis]}")
        check_tensor(weight, torch.empty(weight.shape, dtype=torch.float32, device="meta"), f"weights.{name}")
