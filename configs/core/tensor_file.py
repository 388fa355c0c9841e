"""Tensors and plain data in one file: equal content gives equal bytes, and reading detects damage.

The file is what `torch.save` writes (a zip of raw tensor bytes and one pickle), so `torch.load(weights_only=True)`
reads it anywhere. Three things are added: the archive is built in memory under a fixed name from fresh copies, so the
bytes depend on the content alone; reading checks every member's CRC-32, which `torch.load` does not; and code is never
unpickled. Policies, pool snapshots and training states are such files.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import zipfile
from collections.abc import Mapping
from typing import Any

import torch

ZIP_MAGIC = b"PK\x03\x04"


class TensorFileError(ValueError):
    """Bytes that are damaged, or were never written by `pack`. The message is a phrase for after a file's name."""


def pack(content: Mapping[str, Any]) -> bytes:
    """Build the bytes of a file holding `content`: dicts and lists of tensors, numbers, text and None.

    `unpack` returns tuples as lists and every tensor with its own storage. Raises `TypeError` for other types.
    """
    buffer = io.BytesIO()
    torch.save(_copy(content, {}), buffer)
    return buffer.getvalue()


def unpack(data: bytes, device: str | torch.device = "cpu") -> dict[str, Any]:
    """Return the content given to `pack`, its tensors on `device`.

    Raises `TensorFileError` for truncated or altered bytes, and for files that hold more than tensors and plain data.
    """
    _check_archive(data)
    try:
        content = torch.load(io.BytesIO(data), map_location=device, weights_only=True)
    except pickle.UnpicklingError as error:
        raise TensorFileError("holds something other than tensors and plain data, so it was not opened") from error
    except Exception as error:  # a crafted pickle can raise any exception
        raise TensorFileError("is not a file of tensors") from error
    if not isinstance(content, dict):
        raise TensorFileError("is not a file of named tensors")
    return content


def sha256(data: bytes) -> str:
    """Return the hexadecimal SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def _copy(value: Any, texts: dict[str, str]) -> Any:
    """Copy `value`, with one object for equal `texts`: pickles differ between equal and identical objects."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True).contiguous()
    if isinstance(value, Mapping):
        return {_copy(key, texts): _copy(item, texts) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(item, texts) for item in value]
    if isinstance(value, str):
        return texts.setdefault(value, value)
    if value is None or type(value) in (bool, int, float):
        return value
    raise TypeError(f"{type(value).__name__} is neither a tensor nor plain data: {value!r}")


def _check_archive(data: bytes) -> None:
    if not data.startswith(ZIP_MAGIC):
        raise TensorFileError("is empty" if not data else "is not a file of tensors")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            broken = archive.testzip()
    except Exception as error:  # a flipped bit can change compression, encryption or size
        raise TensorFileError("is truncated or damaged") from error
    if broken is not None:
        raise TensorFileError(f"is damaged: {broken} fails its checksum")
