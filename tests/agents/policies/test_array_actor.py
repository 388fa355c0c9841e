"""Policies without torch: same actions as with torch, and rejected files."""

import io
import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import sparring
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.array_actor import actor_of, read_actor
from sparring.agents.policies.policy import Policy
from sparring.configs.core.archive import TensorFileError, read_arrays
from sparring.configs.core.errors import InputError
from sparring.configs.core.tensor_file import pack
from sparring.configs.schema import NetworkConfig

ROOT = Path(__file__).resolve().parents[3]
RELEASED, PILOTS = (
    sorted((ROOT / "checkpoints" / "released").glob(f"{name}_*.pt")) for name in ("dogfight", "air_combat")
)
MIXTURE = ROOT / "checkpoints" / "released" / "dogfight_population.pt"
RELEASED = [path for path in RELEASED if path not in (MIXTURE, MIXTURE.with_stem("dogfight_mixture"))]
CONTRACT = {"id": "sparring/Dogfight-v1", "rules": "classic", "mirror": False}
WITHOUT_TORCH = """
import json, sys
class Absent:
    def find_spec(self, name, *_):
        if name.split(".")[0] in ("torch", "warp", "scipy"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from pathlib import Path
import numpy as np
from sparring.agents.policies.array_actor import read_actor
obs = np.array(json.loads(sys.stdin.read()), np.float32)
print(json.dumps(read_actor(Path(sys.argv[1]), "mine").act(obs).tolist()))
"""


def observations():
    rng = np.random.default_rng(3)
    obs = rng.normal(0, 1, (200, 59)).astype(np.float32)
    obs[::3, 13:29:4] = obs[::3, 16:29:4] = 0.0  # free slots of bullets
    obs[1::3, 16:29:4] = 0.0
    return obs


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
def test_released_policies_act_as_with_torch(path):
    obs = observations()
    expected = Policy.load(path).act(torch.from_numpy(obs)).numpy()
    given = read_actor(path, path.stem).act(obs)
    assert given.dtype == np.float32
    # Sums of 128 products of some ten each: an error is measured by the largest output.
    np.testing.assert_allclose(given, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    assert len(np.unique(expected[:, 2])) == 2  # fires and does not
    assert (obs[:, 6] < 0).any()


@pytest.mark.parametrize("path", PILOTS, ids=lambda path: path.stem)
def test_released_pilots_act_as_with_torch(path):
    actor = read_actor(path, path.stem)
    obs = np.random.default_rng(4).normal(0, 1, (200, actor.shape["obs_dim"])).astype(np.float32)
    expected = sparring.load(path).policy.act(torch.from_numpy(obs)).numpy()
    np.testing.assert_allclose(actor.act(obs), expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_array_actor_does_not_need_torch():
    obs = observations()[:4]
    command = [sys.executable, "-c", WITHOUT_TORCH, str(RELEASED[0])]
    done = subprocess.run(command, input=json.dumps(obs.tolist()), capture_output=True, text=True, cwd=ROOT, check=True)
    expected = Policy.load(RELEASED[0]).act(torch.from_numpy(obs)).numpy()
    np.testing.assert_allclose(json.loads(done.stdout), expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("blocks", "activation", "sizes"), [(0, "tanh", (2, 1, 0)), (2, "relu", (1, 0, [3, 4])), (1, "tanh", (0, 0, 5))]
)
def test_every_network_shape_acts_as_with_torch(blocks, activation, sizes):
    continuous, binary, categorical = sizes
    config = NetworkConfig(hidden=16, blocks=blocks, activation=activation)
    network = ActorCritic(7, continuous, binary, config, categorical=categorical, seed=4)
    with torch.no_grad():
        for parameter in network.parameters():  # no bias is zero and no scale one
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)) / 8)
    obs = torch.randn(50, 7, generator=torch.Generator().manual_seed(2))
    stored = read_arrays(pack({"weights": network.state_dict()}))["weights"]
    actor = actor_of("mine", CONTRACT, network.shape, stored)
    np.testing.assert_allclose(
        actor.act(obs.numpy()), network.act(obs, deterministic=True)[0].numpy(), rtol=1e-6, atol=1e-6
    )


def test_content_matches_torch():
    tensors = {
        "wide": torch.arange(6, dtype=torch.float64).view(2, 3),
        "half": torch.tensor([0.5], dtype=torch.float16),
        "whole": torch.tensor([[1], [2]], dtype=torch.int32),
        "flags": torch.tensor([True, False]),
        "empty": torch.zeros(0, 3),
        "one": torch.tensor(2.5),
    }
    read = read_arrays(pack({"tensors": tensors, "plain": [1, "two", None, {"three": 3.0}]}))
    assert read["plain"] == [1, "two", None, {"three": 3.0}]
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(read["tensors"][name], tensor.numpy(), strict=True)


class Harmful:
    def __reduce__(self):
        return (print, ("code ran",))


def archive(content, extra=()):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps(content, 2))
        for name, data in extra:
            file.writestr(name, data)
    return buffer.getvalue()


def changed(data):
    at = data.index(b"archive/data/0") + 80
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04 no more", "is truncated or damaged"),
        (archive({"run": Harmful()}), "something other than tensors"),
        (archive([1]), "is not a file of named tensors"),
        (archive({}, [("archive/byteorder", b"big")]), "big-endian"),
        (changed(pack({"a": torch.ones(64)})), "fails its checksum"),
        (pack({"a": torch.ones(2, dtype=torch.bfloat16)}), "something other than tensors"),
    ],
)
def test_other_bytes_are_rejected_without_running_code(data, words, capsys):
    with pytest.raises(TensorFileError, match=words):
        read_arrays(data)
    assert capsys.readouterr().out == ""


def test_mismatched_weights_and_other_families_are_rejected(tmp_path):
    network = ActorCritic(7, 2, 1, NetworkConfig(hidden=8, blocks=0))
    weights = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    for change in ({"actor.2.bias": np.zeros(9)}, {"actor.0.weight": np.full((8, 7), np.nan)}):
        with pytest.raises(InputError, match=f"mine: {next(iter(change))} is missing, not finite, or not of shape"):
            actor_of("mine", CONTRACT, network.shape, weights | change)
    with pytest.raises(InputError, match="a network with masked plays with torch only"):
        actor_of("mine", CONTRACT, network.shape | {"masked": True}, weights)
    with pytest.raises(InputError, match=r"styles plays with torch only"):
        read_actor(MIXTURE, "dogfight_population")
    with pytest.raises(InputError, match=r"styles plays with torch only.*name one of its styles"):
        actor_of("mine", CONTRACT, network.shape | {"styles": 3}, weights)
    path = tmp_path / "state.pt"
    path.write_bytes(pack({"format": "other"}))
    with pytest.raises(InputError, match=r"state\.pt: is not a policy of this project"):
        read_actor(path, "state")
