"""Tensors and plain data in one file: equal content gives equal bytes, and reading detects damage.

The file is what `torch.save` writes (a zip of raw tensor bytes and one pickle), so `torch.load(weights_only=True)`
reads it anywhere. In addition, the archive is built in memory under a fixed name from fresh copies, so the bytes depend
on the content alone. Reading checks every member's CRC-32, which `torch.load` does not, and never unpickles code.
Policies, pool snapshots and training states are such files.

A file never expands: members are stored, not compressed, no two are the same, and every tensor has its own numbers.
Reading needs about as much memory as the file size.

Before anything is copied, stored tensors are checked against those they replace (`check_...`; `ContentError`): names,
types, shapes. `torch` itself would convert types in a copy, broadcast shapes, and accept NaN.
"""

from __future__ import annotations

import hashlib
import io
import math
import pickle
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import torch
from pydantic import AfterValidator
from torch import Tensor
from torch.optim import Optimizer

from sparring.configs.core.archive import TensorFileError, check_archive
from sparring.configs.core.typed import ContentError, read, require, shown

DEEPEST = 32
"""Levels of nested content."""
LARGEST = 2**128
"""Integers are smaller: those of numpy's generators have 128 bits."""
DTYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
)


def pack(content: Mapping[str, Any]) -> bytes:
    """Build the bytes of a file holding `content`: dicts and lists of tensors, numbers, text and None.

    `unpack` returns tuples as lists and every tensor with its own storage. Raises `TypeError` for other types.
    """
    buffer = io.BytesIO()
    torch.save(_copy(content, {}), buffer)
    return buffer.getvalue()


def unpack(data: bytes, device: str | torch.device = "cpu") -> dict[str, Any]:
    """Return the content given to `pack`, its tensors on `device`.

    Raises `TensorFileError` for truncated or altered bytes, for files that would expand, and for those that hold more
    than tensors and plain data.
    """
    check_archive(data)
    try:
        content = torch.load(io.BytesIO(data), map_location=device, weights_only=True)
    except pickle.UnpicklingError as error:
        raise TensorFileError("holds something other than tensors and plain data, so it was not opened") from error
    except Exception as error:  # a crafted pickle can raise any exception
        raise TensorFileError("is not a file of tensors") from error
    if not isinstance(content, dict):
        raise TensorFileError("is not a file of named tensors")
    _check_content(content, len(data))
    return content


def sha256(data: bytes) -> str:
    """Return the hexadecimal SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def _copy(value: Any, texts: dict[str, str]) -> Any:
    """Copy `value`, with one object for equal `texts`: pickles differ between equal and identical objects."""
    if isinstance(value, Tensor):
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


def _check_content(content: Any, size: int) -> None:
    """Reject what `pack` never writes: other objects, deep or repeated nesting, and tensors that share storage.

    Content repeated by reference could expand beyond any memory; a file of `size` bytes has at most that many leaves.
    """
    storages: set[int] = set()
    for number, (key, value) in enumerate(_walk(content, "", DEEPEST)):
        if number > size:
            raise TensorFileError("repeats its content more often than its size allows")
        if isinstance(value, Tensor):
            _check_plain(key, value, storages)
        elif isinstance(value, int) and abs(value) >= LARGEST:
            raise TensorFileError(f"{key}: is a number of {value.bit_length()} bits; at most 128 are allowed")
        elif type(value) not in (bool, int, float, str, type(None)):
            raise TensorFileError(f"{key}: is a {type(value).__name__}, neither a tensor nor plain data")


def _walk(value: Any, prefix: str, levels: int) -> Iterator[tuple[str, Any]]:
    """Yield every leaf with its path."""
    if not isinstance(value, dict | list | tuple):
        yield prefix, value
        return
    if not levels:
        raise TensorFileError(f"is nested deeper than {DEEPEST} levels")
    yield prefix, None
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if type(key) not in (str, int):
            raise TensorFileError(f"{prefix}: has a {type(key).__name__} as a name")
        yield from _walk(item, f"{prefix}.{key}" if prefix else str(key), levels - 1)


def _check_plain(key: str, tensor: Tensor, storages: set[int]) -> None:
    if tensor.layout != torch.strided or tensor.dtype not in DTYPES or not tensor.is_contiguous():
        raise TensorFileError(f"{key}: is not a tensor of plain numbers with all of them stored")
    if not tensor.numel():
        return
    if (storage := tensor.untyped_storage().data_ptr()) in storages:
        raise TensorFileError(f"{key}: shares its storage with another tensor; each needs its own")
    storages.add(storage)


def _tensor(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise ValueError("must be a tensor")
    return value


AnyTensor = Annotated[Any, AfterValidator(_tensor)]
"""A tensor whose type and shape are checked elsewhere."""
Tensors = dict[str, AnyTensor]


def check_tensor(value: Any, expected: Tensor, key: str) -> Any:
    """Return `value` if it has the type and shape of `expected`, and finite values."""
    same = isinstance(value, Tensor) and value.dtype == expected.dtype and value.shape == expected.shape
    require(same, f"{key}={shown(value)}: must be {shown(expected)}")
    if value.is_floating_point() and not bool(value.isfinite().all()):
        raise ContentError(f"{key}: holds NaN or infinity; every value must be finite")
    return value


def check_finite(value: Any, prefix: str = "") -> None:
    """Raise `ContentError` with the place of the first number in nested plain data and tensors that is not finite."""
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    for key, item in items:
        check_finite(item, f"{prefix}.{key}" if prefix else str(key))
    if isinstance(value, float) and not math.isfinite(value):
        raise ContentError(f"{prefix}={value}: must be a finite number")
    if isinstance(value, Tensor) and value.is_floating_point() and not bool(value.isfinite().all()):
        raise ContentError(f"{prefix}: holds NaN or infinity; every value must be finite")


def check_tensors(value: Any, expected: Mapping[str, Tensor], key: str) -> dict[str, Tensor]:
    """Return the tensors `value` if they have the names, types and shapes of `expected`, and finite values."""
    named = read(Tensors, value, key)
    for name in sorted(map(str, named.keys() ^ expected.keys())):
        raise ContentError(f"{key}.{name} {'is missing' if name in expected else 'is not the name of a tensor here'}")
    return {name: check_tensor(named[name], tensor, f"{key}.{name}") for name, tensor in expected.items()}


def check_optimizer(state: Any, optimizer: Optimizer, key: str) -> dict[str, Any]:
    """Return Adam's or Muon's stored `state_dict` for `optimizer.load_state_dict`: its moments and rates.

    Other options follow from the configuration, so those of `optimizer` count. Raises `ContentError` for moments of
    other shapes than the parameters, which torch would not notice.
    """
    moments, groups_now = state["state"], optimizer.state_dict()["param_groups"]
    groups = [group | {"lr": stored["lr"]} for group, stored in zip(groups_now, state["param_groups"], strict=True)]
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, named in moments.items():
        for name, moment in named.items():
            expected = () if name == "step" else parameters[index].shape
            require(moment.shape == expected, f"{key}.state.{index}.{name}: has shape {tuple(moment.shape)}")
    return {"state": moments, "param_groups": groups}
