"""The packages of the extra `export`, imported where they are needed; a missing one is named with its command."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sparring.configs.core.errors import InputError


def export_package(package: str) -> Any:
    """Import onnx or onnxruntime; raises `InputError` with the pip command where it is missing."""
    try:
        return import_module(package)
    except ImportError as error:
        raise InputError(f'{package} is not installed; run pip install -e ".[export]"') from error
