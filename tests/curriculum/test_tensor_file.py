"""Tensor files: content decides the bytes, damage is noticed, code is never run."""

import io
import pickle

import pytest
import torch

from curriculum.tensor_file import TensorFileError, pack, unpack

PLAIN = {"shape": {"hidden": 4}, "note": "x", "list": [1, 2.5, None, True]}


def weights():
    return {"w": torch.arange(12, dtype=torch.float32).reshape(3, 4), "b": torch.tensor([0.5], dtype=torch.float64)}


def test_round_trip_keeps_values_types_and_plain_data():
    content = unpack(pack(weights(), PLAIN))
    assert {key: content[key] for key in PLAIN} == PLAIN
    for name, tensor in weights().items():
        assert content["weights"][name].dtype == tensor.dtype
        assert torch.equal(content["weights"][name], tensor)


def test_equal_content_gives_equal_bytes_whatever_the_objects():
    shared, name = torch.zeros(20), "".join(["no", "te"])
    views = {"w": shared[:12].reshape(3, 4), "b": torch.zeros(1)}
    copies = {"w": torch.zeros(3, 4), "b": torch.zeros(1)}
    assert pack(views, {"note": name, "n": (1, 2)}) == pack(copies, {"note": "note", "n": [1, 2]})


def test_data_that_is_not_plain_is_refused_when_writing():
    with pytest.raises(TypeError, match="not JSON serializable"):
        pack(weights(), {"device": torch.device("cpu")})


@pytest.mark.parametrize("keep", [0, 1, 3, 100, 0.5, 0.9, -1])
def test_every_truncation_is_noticed(keep):
    data = pack(weights(), PLAIN)
    cut = data[: int(keep * len(data))] if isinstance(keep, float) else data[:keep]
    with pytest.raises(TensorFileError):
        unpack(cut)


def test_a_flipped_weight_bit_is_noticed():
    data = bytearray(pack(weights(), PLAIN))
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


def test_other_files_are_not_taken_for_weights():
    with pytest.raises(TensorFileError, match="is not a file of tensors"):
        unpack(b"hello")
    with pytest.raises(TensorFileError, match="is empty"):
        unpack(b"")
