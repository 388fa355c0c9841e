"""Sizes that a model's config.json declares, compared with the stored tensors before the model is built.

A safetensors file begins with the names, types and shapes of its tensors, so nothing is loaded. Building without memory
(torch's device "meta") takes time with every layer and expert, hence no count may exceed the number of tensors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import torch

from sparring.agents.llm.decoding.output_layer import ModelError
from sparring.agents.llm.models.quiet import quietly

COUNTS = ("layers", "n_layer", "experts", "n_head", "heads")
"""Parts of the names of options that count something with tensors of its own."""
LONGEST_CONTEXT = 2**24
"""More tokens than any model reads."""


def check_sizes(folder: Path) -> None:
    """Raise `ModelError` if a model of these sizes has other tensors than those stored in `folder`."""
    stored = dict(_stored(folder))
    numbers = sum(map(prod, stored.values()))
    try:
        config = json.loads((folder / "config.json").read_bytes())
        for name, value in _integers(config, ""):
            counted = any(word in name for word in COUNTS)
            limit = max(numbers, 1) if not counted else max(len(stored) * 64, 1)
            limit = LONGEST_CONTEXT if "position" in name or "context" in name or "length" in name else limit
            if not -1 <= value <= limit:
                raise ModelError(f"model {folder}: {name}={value} in config.json; its tensors allow at most {limit}")
    except (ValueError, OSError, RecursionError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"model {folder}: its config.json is damaged") from error
    wanted = _declared(folder)
    for name, shape in stored.items():
        if name in wanted and wanted[name] != shape:
            raise ModelError(f"model {folder}: {name} is stored as {shape}, config.json declares {wanted[name]}")
    if sum(map(prod, wanted.values())) > 4 * numbers + 1_000_000:
        raise ModelError(f"model {folder}: config.json declares far more weights than the {numbers} that are stored")


def _stored(folder: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of every stored tensor."""
    from safetensors import SafetensorError, safe_open

    for file in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(file, framework="pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118
                    yield name, tuple(tensors.get_slice(name).get_shape())
        except (SafetensorError, OSError) as error:
            raise ModelError(f"model {folder}: cannot be loaded ({file.name}: {error})") from error


def _declared(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return name and shape of every weight of the model that config.json describes."""
    from transformers import AutoConfig, AutoModelForCausalLM

    maker: Any = AutoModelForCausalLM
    try:
        with quietly(), torch.device("meta"):
            config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            model = maker.from_config(config, trust_remote_code=False)
    except Exception as error:  # transformers raises whatever a value breaks
        raise ModelError(f"model {folder}: cannot be loaded (its config.json: {error})") from error
    return {name: tuple(weight.shape) for name, weight in model.state_dict().items()}


def _integers(value: Any, place: str) -> Iterator[tuple[str, int]]:
    """Yield every integer in nested JSON with its place."""
    if isinstance(value, dict | list):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _integers(item, f"{place}.{name}" if place else str(name))
    elif type(value) is int:
        yield place, value
