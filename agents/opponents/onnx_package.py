"""The packages onnx and onnxruntime, which are optional, and the weights that a model holds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from sparring.configs.core.errors import InputError

CONTRACT = "contract"
"""Metadata key of an exported policy's training contract, as JSON."""


def export_package(package: str) -> Any:
    """Import onnx or onnxruntime. Raises `InputError` with the pip command if it is missing."""
    try:
        return import_module(package)
    except ImportError as error:
        raise InputError(f"{package} is not installed; run `sparring install export`") from error


def parameter_count(model: Any) -> int:
    """Return the number of floating-point values stored in the model, learned or not."""
    types = export_package("onnx").TensorProto
    floats = (types.FLOAT, types.FLOAT16, types.BFLOAT16, types.DOUBLE)
    return sum(math.prod(tensor.dims) for tensor in stored_tensors(model) if tensor.data_type in floats)


def stored_tensors(model: Any) -> Iterator[Any]:
    """Yield every stored tensor wherever it is: in graphs and attributes, sparse ones, defaults of functions."""
    waiting = [model]
    while waiting:
        message = waiting.pop()
        if message.DESCRIPTOR.name == "TensorProto":
            yield message
        for field, value in message.ListFields():
            if field.message_type:
                waiting.extend([value] if hasattr(value, "ListFields") else value)
