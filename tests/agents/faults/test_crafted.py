"""Malicious files never run code, and the error names the file.

A crafted file comes with the right SHA-256 beside it, so that only the reader protects.
"""

import base64
import io
import json
import os
import pickle
import pickletools
import zipfile

import pytest
import torch

from sparring.agents.policies.checkpoint import CheckpointError, load_checkpoint
from sparring.agents.policies.sb3_files import SB3Error, read_zip
from sparring.agents.run.states import DamagedStateError, StateFolder, read_state
from sparring.configs.core.errors import InputError
from sparring.configs.core.tensor_file import pack, sha256
from sparring.curriculum.pool import Pool, PoolError
from tests.agents.policies.sb3_data import data_of


class Call:
    """An object whose pickle calls a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def in_archive(data):
    """Wrap `data` as the only pickle of a file that torch opens."""
    buffer = io.BytesIO()
    torch.save({"w": torch.zeros(2)}, buffer)
    crafted = io.BytesIO()
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(crafted, "w") as new:
        for name in old.namelist():
            new.writestr(name, data if name.endswith("data.pkl") else old.read(name))
    return crafted.getvalue()


def saved(content):
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def payloads(canary):
    """Return several ways to create a file `canary` on loading."""
    system, touch = Call(os.system, f"touch {canary}"), Call(open, str(canary), "w")
    protocol_0 = f"cposix\nsystem\n(S'touch {canary}'\ntR.".encode()
    named = f"c__builtin__\neval\n(S'open({str(canary)!r}, \"w\")'\ntR.".encode()
    jit = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), jit)
    return {
        "beside the weights": saved({"weights": {"w": torch.zeros(2)}, "trap": system}),
        "as a weight": saved({"weights": {"w": touch}}),
        "as a key": saved({"weights": {Call(os.system, f"touch {canary}"): 1}}),
        "instead of everything": saved(system),
        "a bare pickle": pickle.dumps(touch),
        "torch's old format": pickle.dumps(0x1950A86A20F9469CFC6C) + pickle.dumps(touch),
        "written by hand": in_archive(protocol_0),
        "eval under its old name": in_archive(named),
        "after the end": pack({"weights": {}}) + pickle.dumps(touch),
        "a network of torch itself": saved(torch.nn.Linear(2, 2)),
        "a script of torch": jit.getvalue(),
        "no pickle at all": in_archive(b"\xff\xfe"),
        "a stack that is empty": in_archive(b"."),
        "what was never stored": in_archive(b"h\x07."),
        "marks without end": in_archive(b"(" * 1000 + b"."),
        "tuples in tuples": in_archive(b"(" * 100_000 + b"t" * 100_000 + b"."),
        "a number where a tensor is rebuilt": in_archive(b"ctorch._utils\n_rebuild_tensor_v2\n(K\x01tR."),
        "a storage that is not there": in_archive(b"(U\x07storagectorch\nFloatStorage\nU\x019U\x03cpuK\x02tQ."),
        "a list": saved([torch.zeros(1)]),
        "nothing inside": saved({}),
    }  # fmt: skip


KINDS = sorted(payloads("x"))


def read_policy(folder, data):
    path = folder / "final.pt"
    path.write_bytes(data)
    (folder / "manifest.json").write_text(json.dumps({"final.pt": {"sha256": sha256(data)}}))
    load_checkpoint(path)


def read_training_state(folder, data):
    states = StateFolder(folder / "state", 3, alert=lambda text: None)
    path = states.publish(5, {"w": torch.zeros(2)}, {"update": 5})
    plain = json.loads((path / "manifest.json").read_text())
    (path / "state.pt").write_bytes(data)
    (path / "manifest.json").write_text(json.dumps(plain | {"sha256": sha256(data), "bytes": len(data)}))
    read_state(path)


def read_snapshot(folder, data):
    (folder / "index.json").unlink(missing_ok=True)
    pool = Pool(folder, 3, shape={"obs_dim": 4})
    pool.add(7, {})
    pool.path("snapshot_000007").write_bytes(data)
    rows = [row | {"sha256": sha256(data)} for row in pool.rows()]
    (folder / "index.json").write_text(json.dumps(rows))
    Pool(folder, 3, shape={"obs_dim": 4}).load("snapshot_000007")


def read_model(folder, data):
    with zipfile.ZipFile(folder / "model.zip", "w") as archive:
        archive.writestr("data", json.dumps(data_of(4, 3)))
        archive.writestr("policy.pth", data)
    read_zip(folder / "model.zip")


READERS = {
    "final.pt": (read_policy, CheckpointError),
    "state.pt": (read_training_state, DamagedStateError),
    "snapshot_000007.pt": (read_snapshot, PoolError),
    "model.zip": (read_model, SB3Error),
}


@pytest.mark.parametrize("file", READERS)
def test_code_in_file_never_runs(tmp_path, file):
    read, error = READERS[file]
    for kind, data in payloads(tmp_path / "canary").items():
        if (file, kind) == ("state.pt", "nothing inside") or (file, kind) == ("state.pt", "after the end"):
            continue  # a state without anything in it is refused by the run, not by the reader
        with pytest.raises(error) as caught:
            read(tmp_path, data)
        assert file in str(caught.value), kind
        assert "\n" not in str(caught.value), kind
        assert not (tmp_path / "canary").exists(), kind


def test_payloads_run_when_unpickled_unsafely(tmp_path):
    """Without this, the tests above would prove nothing."""
    canary = tmp_path / "canary"
    for kind in ("beside the weights", "as a weight", "instead of everything", "written by hand"):
        torch.load(io.BytesIO(payloads(canary)[kind]), weights_only=False)
        assert canary.exists(), kind
        canary.unlink()


def test_pickled_zip_values_are_never_unpickled(tmp_path):
    """Stable-Baselines3 unpickles each of them on loading."""
    canary = tmp_path / "canary"
    call = pickletools.optimize(pickle.dumps(Call(open, str(canary), "w")))
    serialized = {":type:": "<class 'dict'>", ":serialized:": base64.b64encode(call).decode()}
    names = ("policy_class", "policy_kwargs", "lr_schedule", "clip_range", "observation_space", "action_space")
    weights = io.BytesIO()
    torch.save({"log_std": torch.zeros(3)}, weights)
    for data in (dict.fromkeys(names, serialized), *(data_of(4, 3) | {name: serialized} for name in names)):
        for member in (call, weights.getvalue()):
            with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
                archive.writestr("data", json.dumps(data))
                archive.writestr("policy.pth", member)
                for other in ("policy.optimizer.pth", "pytorch_variables.pth"):
                    archive.writestr(other, call)
            with pytest.raises(InputError, match=r"model\.zip: "):
                read_zip(tmp_path / "model.zip")
            assert not canary.exists()
