"""Archives of tensors: validation, and reading without torch.

`torch.save` writes a zip with one pickle, `data.pkl`, and the raw bytes of each tensor, `data/0` and so on. Here the
members are stored, not compressed, no two have one name, and each has its CRC-32. `read_arrays` parses the pickle with
an unpickler that supports only tensors and ordered dicts, so code in a file never runs.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import zipfile
from collections import OrderedDict
from typing import Any

import numpy as np

MOST_OPCODES, MOST_OBJECTS = 1_000_000, 100_000
"""Steps of a pickle, and those of them that make an object. Files of this project have some thousand."""
OBJECTS = frozenset(
    {
        *("MARK", "EMPTY_LIST", "EMPTY_DICT", "EMPTY_SET", "EMPTY_TUPLE", "TUPLE1", "TUPLE2"),
        *("TUPLE3", "LIST", "DICT", "TUPLE", "FROZENSET", "REDUCE", "BUILD"),
        *("NEWOBJ", "NEWOBJ_EX", "OBJ", "INST", "BINPERSID", "PERSID", "GLOBAL"),
        *("STACK_GLOBAL", "LONG1", "LONG4", "BYTEARRAY8"),
    }
)
ZIP_MAGIC = b"PK\x03\x04"
STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "<i1",
    "ByteStorage": "<u1",
    "BoolStorage": "?",
}
"""NumPy's types of torch's storages, little-endian; NumPy has no bfloat16."""


class TensorFileError(ValueError):
    """Bytes that are damaged or not a tensor file. The message is a phrase to follow a file's name."""


def check_archive(data: bytes) -> None:
    """Raise `TensorFileError` unless `data` is a whole archive in which every member passes its checksum."""
    if not data.startswith(ZIP_MAGIC):
        raise TensorFileError("is empty" if not data else "is not a file of tensors")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            check_members(archive.infolist(), len(data))
            broken = archive.testzip()
            if broken is None:
                check_pickles(archive)
    except TensorFileError:
        raise
    except Exception as error:  # a flipped bit can change compression, encryption or size
        raise TensorFileError("is truncated or damaged") from error
    if broken is not None:
        raise TensorFileError(f"is damaged: {broken} fails its checksum")


def check_members(members: list[zipfile.ZipInfo], size: int) -> None:
    """Raise `TensorFileError` for members of a zip of `size` bytes that would expand, before any is read."""
    if packed := next((member for member in members if member.compress_type != zipfile.ZIP_STORED), None):
        raise TensorFileError(f"is compressed ({packed.filename}), but this project's files are not; save it again")
    if (total := sum(member.file_size for member in members)) > size:
        raise TensorFileError(f"claims {total} bytes of content but has {size}; it is damaged or malicious")
    if len({member.filename for member in members}) < len(members):
        raise TensorFileError("is damaged: two of its members have the same name")


def check_pickle(data: bytes) -> None:
    """Raise `TensorFileError` for a pickle that would take much more time or memory than a file of tensors needs.

    A pickle can create objects of some hundred bytes of memory per byte of the file. The opcodes are counted without
    running them, and the scan ends at the bound, which limits both for any file size. A memo index beyond the file's
    length would make the reader reserve that much memory.
    """
    objects = 0
    try:
        for number, (code, argument, _) in enumerate(pickletools.genops(data)):
            objects += code.name in OBJECTS
            if number >= MOST_OPCODES or objects > MOST_OBJECTS:
                most = f"at most {MOST_OBJECTS} objects and {MOST_OPCODES} steps"
                raise TensorFileError(f"holds too much that is not a tensor: {most} are read")
            if "PUT" in code.name and int(argument or 0) > len(data):
                raise TensorFileError("is damaged: it numbers more objects than it can contain")
    except ValueError as error:
        raise error if isinstance(error, TensorFileError) else TensorFileError("is not a file of tensors") from error


def check_pickles(archive: zipfile.ZipFile) -> None:
    """Raise `TensorFileError` for a member that `check_pickle` refuses, among those that torch would unpickle."""
    for name in archive.namelist():
        if name.endswith(".pkl"):
            check_pickle(archive.read(name))


def read_arrays(data: bytes) -> dict[str, Any]:
    """Return the content of a file of tensors, as arrays of NumPy, plain data, lists and dicts.

    Raises `TensorFileError` for what `check_archive` refuses, and for anything but arrays and plain data in it.
    """
    check_archive(data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        pickled = next((name for name in archive.namelist() if name.endswith("/data.pkl")), None)
        if pickled is None:
            raise TensorFileError("is not a file of tensors")
        folder = pickled.removesuffix("data.pkl")
        order = f"{folder}byteorder"
        if order in archive.namelist() and archive.read(order) != b"little":
            raise TensorFileError("was written by a big-endian machine; read it with torch")
        try:
            content = _Unpickler(archive, folder).load()
        except pickle.UnpicklingError as error:
            raise TensorFileError("holds something other than tensors and plain data, so it was not opened") from error
        except Exception as error:  # a crafted pickle can raise any exception
            raise TensorFileError("is not a file of tensors") from error
    if not isinstance(content, dict):
        raise TensorFileError("is not a file of named tensors")
    return content


class _Unpickler(pickle.Unpickler):
    """Reader of `data.pkl`: tensors become arrays; any other class is refused."""

    def __init__(self, archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(io.BytesIO(archive.read(f"{folder}data.pkl")))
        self._archive, self._folder = archive, folder

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a class of torch, or the ordered dict."""
        if module == "torch" and name in STORAGES:
            return np.dtype(STORAGES[name])
        allowed = {("torch._utils", "_rebuild_tensor_v2"): _array, ("collections", "OrderedDict"): OrderedDict}
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return allowed[module, name]

    def persistent_load(self, reference: Any) -> np.ndarray:
        """Return the numbers of a storage, one axis, from ("storage", type, member, device, count)."""
        _, kind, member, _, count = reference
        numbers = np.frombuffer(self._archive.read(f"{self._folder}data/{member}"), kind)
        if len(numbers) != count:
            raise pickle.UnpicklingError(f"{member}: holds {len(numbers)} numbers, not {count}")
        return numbers


def _array(storage: np.ndarray, start: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any) -> np.ndarray:
    """Return a tensor's numbers in its shape. Raises `UnpicklingError` if they are not in a row."""
    tensor = storage[start : start + int(np.prod(shape, dtype=np.int64))].reshape(shape)
    axes = zip(shape, strides, (step // max(storage.itemsize, 1) for step in tensor.strides), strict=True)
    if tensor.size and any(size > 1 and step != plain for size, step, plain in axes):
        raise pickle.UnpicklingError("a tensor that is not contiguous")
    return tensor
