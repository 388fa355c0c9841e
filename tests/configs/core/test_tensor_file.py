"""Tensor files: deterministic bytes, damage detection, no code execution."""

import io
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch

from sparring.configs.core import archive
from sparring.configs.core.archive import TensorFileError, read_arrays
from sparring.configs.core.tensor_file import pack, unpack


def content():
    weights = {"w": torch.arange(12, dtype=torch.float32).reshape(3, 4), "b": torch.tensor([0.5], dtype=torch.float64)}
    plain = {"shape": {"hidden": 4}, "note": "x", "list": [1, 2.5, None, True], 7: 2**100}
    return {"weights": weights, "rng": [torch.tensor([1, 2], dtype=torch.uint8)], **plain}


def test_round_trip_keeps_values_types_and_keys():
    written, read = content(), unpack(pack(content()))
    for tensors in (written, read):
        tensors["rng"] = tensors["rng"][0].tolist()
        tensors["weights"] = {name: (tensor.dtype, tensor.tolist()) for name, tensor in tensors["weights"].items()}
    assert read == written


def test_equal_content_gives_equal_bytes():
    shared, name = torch.zeros(20), "".join(["no", "te"])
    one = {"w": shared[:12].reshape(3, 4), "again": shared[:1], "note": name, name + "s": "note", "n": (1, 2)}
    other = {"w": torch.zeros(3, 4), "again": torch.zeros(1), "note": "note", "notes": "note", "n": [1, 2]}
    assert pack(one) == pack(other)


@pytest.mark.parametrize("value", [torch.device("cpu"), np.float64(1.0), np.zeros(1), {1, 2}])
def test_non_plain_data_is_rejected_on_write(value):
    with pytest.raises(TypeError, match="is neither a tensor nor plain data"):
        pack({"list": [value]})


@pytest.mark.parametrize("keep", [0, 1, 3, 100, 0.5, 0.9, -1])
def test_every_truncation_is_detected(keep):
    data = pack(content())
    cut = data[: int(keep * len(data))] if isinstance(keep, float) else data[:keep]
    with pytest.raises(TensorFileError):
        unpack(cut)


def test_flipped_weight_bit_is_detected():
    data = bytearray(pack(content()))
    data[data.index(torch.arange(12, dtype=torch.float32).numpy().tobytes()) + 5] ^= 4
    with pytest.raises(TensorFileError, match="fails its checksum"):
        unpack(bytes(data))


class Trap:
    ran = False

    def __reduce__(self):
        return setattr, (Trap, "ran", True)


def test_code_is_never_unpickled():
    buffer = io.BytesIO()
    torch.save({"weights": {}, "trap": Trap()}, buffer)
    for data in (buffer.getvalue(), pickle.dumps(Trap())):
        with pytest.raises(TensorFileError):
            unpack(data)
    assert Trap.ran is False


def test_other_files_are_rejected():
    buffer = io.BytesIO()
    torch.save([torch.zeros(1)], buffer)
    for data, complaint in ((b"hello", "not a file of tensors"), (b"", "empty"), (buffer.getvalue(), "named tensors")):
        with pytest.raises(TensorFileError, match=complaint):
            unpack(data)


def torch_file(pickled):
    """Return a torch file with this pickle."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/version", "3\n")
    return buffer.getvalue()


HEAD, MANY = b"\x80\x02", 110_000
GREEDY = {
    "lists in lists": HEAD + b"]" * MANY + b"a" * (MANY - 1) + b".",
    "lists in a list": HEAD + b"](" + b"]" * MANY + b"e.",
    "dicts in a list": HEAD + b"](" + b"}" * MANY + b"e.",
    "empty tuples": HEAD + b"](" + b")" * MANY + b"e.",
    "tuples in tuples": HEAD + b")" + b"\x85" * MANY + b".",
    "long integers": HEAD + b"](" + b"\x8a\x08" + b"\x01" * 8 + (b"\x8a\x08" + b"\x01" * 8) * MANY + b"e.",
    "marks": HEAD + b"(" * MANY + b".",
    "steps that leave no object": HEAD + b"N0" * MANY + b"}.",
    "a large memo": HEAD + b"}r\xff\xff\xff\x7f.",
    "text for a number": HEAD + b"I" + b"9" * MANY + b"\n.",
}


@pytest.mark.parametrize("kind", GREEDY)
@pytest.mark.parametrize("read", [unpack, read_arrays])
def test_pickle_with_many_objects_is_rejected_in_bounded_memory(kind, read, monkeypatch):
    """Readers are not called, and memory is bounded by the file size; most kinds use a smaller limit."""
    if kind != "lists in lists":
        monkeypatch.setattr(archive, "MOST_OPCODES", 100_000)
        monkeypatch.setattr(archive, "MOST_OBJECTS", 10_000)
    monkeypatch.setattr("torch.load", lambda *_, **__: pytest.fail("was unpickled"))
    data = torch_file(GREEDY[kind])
    tracemalloc.start()
    try:
        with pytest.raises(TensorFileError):
            read(data)
        assert tracemalloc.get_traced_memory()[1] < 8 * len(data) + (1 << 20)
    finally:
        tracemalloc.stop()


def test_file_with_many_plain_values_is_read():
    content = {"texts": [str(number) for number in range(10_000)], "pairs": [[number, 0.5] for number in range(4000)]}
    data = pack(content)
    assert unpack(data) == content
    assert read_arrays(data) == content
