"""Pickles read without running anything in them: every object becomes an inert record.

A pickle names functions to call; here each name becomes a class of records, whose instances hold the arguments and the
state that the function or class would have got. Nothing is imported. Records of NumPy arrays and numbers are converted
by `numbers`.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparring.configs.core.archive import TensorFileError, check_pickle
from sparring.configs.core.errors import InputError

MOST_BYTES = 1 << 24
_ARRAYS = re.compile(r"numpy\.(_core|core)\.(multiarray\._reconstruct|numeric\._frombuffer)")
_SCALAR = re.compile(r"numpy\.(_core|core)\.multiarray\.scalar")


class PickleError(InputError):
    """A pickle that is not read; the message is the problem, without the file."""


class Record:
    """Inert stand-in for an object of a pickle."""

    name = ""
    args: tuple[Any, ...]
    state: Any

    def __new__(cls, *args: Any) -> Record:
        """Keep the arguments of the call."""
        record = object.__new__(cls)
        record.args, record.state = args, None
        return record

    def __init__(self, *args: Any) -> None:
        """Take the arguments that `__new__` keeps."""

    def __call__(self, *args: Any) -> Record:
        """Return the record of a call of what a call returned."""
        return Record(*args)

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _RecordReader(pickle.Unpickler):
    def __init__(self, data: bytes, modules: Sequence[str]) -> None:
        super().__init__(io.BytesIO(data))
        self._modules = modules

    def find_class(self, module: str, name: str) -> type[Record]:
        """Return a class of records, and import nothing."""
        if self._modules and not any(module == prefix or module.startswith(f"{prefix}.") for prefix in self._modules):
            raise PickleError(f"names {module}.{name}, which is not allowed and was not run")
        return type("Record", (Record,), {"name": f"{module}.{name}"})


def read_pickle(data: bytes, modules: Sequence[str] = ()) -> Any:
    """Return the content of a pickle, with records for all but plain data.

    Raises `PickleError` for one that is too large, or names an object outside `modules`, if any are listed; damage
    raises any exception.
    """
    if len(data) > MOST_BYTES:
        raise PickleError(f"has {len(data)} bytes; expected at most {MOST_BYTES}")
    try:
        check_pickle(data)
    except TensorFileError as error:
        raise PickleError(str(error)) from error
    return _RecordReader(data, modules).load()


def global_name(value: Any) -> str:
    """Return "module.name" of a class or function that a pickle names; empty for any other value."""
    return value.name if isinstance(value, type) and issubclass(value, Record) else ""


def numbers(value: Any) -> np.ndarray:
    """Return a number, or a record of an array or a NumPy number, as float64."""
    if isinstance(value, int | float):
        return np.array(value, dtype=np.float64)
    assert isinstance(value, Record)
    if _SCALAR.fullmatch(value.name):
        kind, data, shape = *value.args, ()
    elif _ARRAYS.fullmatch(value.name) and value.state:
        _, shape, kind, _, data = value.state
    else:
        data, kind, shape, _ = value.args
    letters, order = kind.args[0], kind.state[1]
    if letters not in ("f4", "f8", "i8"):
        raise PickleError(f"has an array of {letters}; expected numbers")
    return np.frombuffer(data, np.dtype(order + letters)).reshape(shape).astype(np.float64)
