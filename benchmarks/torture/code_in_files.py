"""Pickles, YAML tags, folders of models and ONNX files that would run code or read another file, each with a canary."""

from __future__ import annotations

import base64
import io
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
import yaml

from benchmarks.torture import external_data
from benchmarks.torture.canary import NAME, SELF_PLAY, SHORT, Canary, Own, Words, base, copied, resume
from benchmarks.torture.commands import SECONDS
from benchmarks.torture.part import Place
from sparring.configs.core.tensor_file import sha256

FILES = ("final.pt", "state", "snapshot", "model.zip", "vecnormalize.pkl", "config.yaml", "mine.yaml", "sweep.yaml")
"""What a refusal may name, beside `model` and `agent.onnx`."""


def careless(canary: Canary) -> None:
    """Open a file of torch as a reader would that trusts it."""
    torch.load(io.BytesIO(canary.saved()), weights_only=False)


# ---- pickles


def by_pickle(place: Place) -> Iterator[tuple[str, str, Own, Words]]:
    """Yield the ways by which a file could make Python build any object: group, what, own command, theirs."""

    def unsafe_yaml(canary: Canary) -> None:
        yaml.unsafe_load(_tag(canary))

    ways: dict[str, tuple[Own, Words]] = {
        "policy, --ckpt": (careless, lambda c: _evaluate(_policy(c), c)),
        "policy, --opponents": (careless, lambda c: _evaluate("bot:ace", c, str(_policy(c)))),
        "policy, init_from": (careless, lambda c: SELF_PLAY.command(c.folder, f"init_from={_policy(c)}", *SHORT)),
        "policy, against": (careless, lambda c: _against(c)),
        "training state": (careless, lambda c: _state(place, c)),
        "snapshot in the pool": (careless, lambda c: _snapshot(place, c)),
        "zip of SB3": (_by_sb3_load, lambda c: _evaluate(_sb3(c), c)),
        "VecNormalize of SB3": (
            _by_sb3_statistics,
            lambda c: [*_evaluate(_sb3(c), c), "--vecnormalize", str(_normalize(c))],
        ),
    }
    for what, (own, theirs) in ways.items():
        yield "pickle", what, own, theirs
    yield "YAML tag", "stored configuration", unsafe_yaml, lambda c: _tagged(place, c)
    yield "YAML tag", "run file", unsafe_yaml, _tagged_run
    yield "YAML tag", "sweep file", unsafe_yaml, _tagged_sweep


def _evaluate(ckpt: Path | str, canary: Canary, opponent: str = "ace") -> list[str]:
    few = ["--games", "2", "--out", str(canary.folder / "out"), "--threads", "1", "--device", "cpu"]
    return ["eval/run.py", "--env", "dogfight", "--ckpt", str(ckpt), "--opponents", opponent, *few]


def _policy(canary: Canary) -> Path:
    path = canary.folder / "final.pt"
    path.write_bytes(canary.saved())
    (canary.folder / "manifest.json").write_text(json.dumps({"final.pt": {"sha256": sha256(path.read_bytes())}}))
    return path


def _against(canary: Canary) -> list[str]:
    path = _policy(canary)
    return ["train.py", "+run=best_response", f"against={path}", "name=theirs", *SHORT, *base(canary)]


def _state(place: Place, canary: Canary) -> list[str]:
    target = copied(place, canary)
    for state in (target / "state").glob("update_*"):
        data, file = canary.saved(), state / "manifest.json"
        (state / "state.pt").write_bytes(data)
        file.write_text(json.dumps(json.loads(file.read_text()) | {"sha256": sha256(data), "bytes": len(data)}))
    return resume(target)


def _snapshot(place: Place, canary: Canary) -> list[str]:
    target = copied(place, canary)
    index = target / "pool" / "index.json"
    data, text = canary.saved(), index.read_text()
    for path in (target / "pool").glob("*.pt"):
        text = text.replace(sha256(path.read_bytes()), sha256(data))
        path.write_bytes(data)
    index.write_text(text)
    return resume(target)


def _by_sb3_load(canary: Canary) -> None:
    _with_sb3(f"from stable_baselines3 import PPO; PPO.load({str(_sb3(canary))!r}, device='cpu')")


def _by_sb3_statistics(canary: Canary) -> None:
    opened = f"VecNormalize.load({str(_normalize(canary))!r}, None)"
    _with_sb3(f"from stable_baselines3.common.vec_env import VecNormalize; {opened}")


def _with_sb3(code: str) -> None:
    """Open a file as SB3 does, in a process of its own; what the file sets off comes before SB3 notices the rest."""
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=SECONDS)


def _sb3(canary: Canary) -> Path:
    path = canary.folder / "model.zip"
    trap = {":type:": "<class 'dict'>", ":serialized:": base64.b64encode(canary.pickle()).decode()}
    names = ("policy_class", "policy_kwargs", "lr_schedule", "observation_space", "action_space")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", json.dumps(dict.fromkeys(names, trap)))
        for member in ("policy.pth", "policy.optimizer.pth", "pytorch_variables.pth"):
            archive.writestr(member, canary.saved())
    return path


def _normalize(canary: Canary) -> Path:
    path = canary.folder / "vecnormalize.pkl"
    path.write_bytes(canary.pickle())
    return path


def _tag(canary: Canary) -> str:
    return f"seed: !!python/object/apply:os.system ['touch {canary.mark}']\n"


def _tagged(place: Place, canary: Canary) -> list[str]:
    target = copied(place, canary)
    (target / "config.yaml").write_text((target / "config.yaml").read_text() + _tag(canary))
    return resume(target)


def _tagged_run(canary: Canary) -> list[str]:
    (canary.folder / "mine.yaml").write_text("# @package _global_\n" + _tag(canary))
    return ["train.py", f"+run={canary.folder / 'mine.yaml'}", *base(canary)]


def _tagged_sweep(canary: Canary) -> list[str]:
    (canary.folder / "sweep.yaml").write_text("run: quickstart\n" + _tag(canary))
    return ["train.py", "+sweep=sweep", *base(canary)]


# ---- folders of models


def by_model(place: Place) -> Iterator[tuple[str, str, Own, Words]]:
    """Yield the ways by which a language model's folder could run code."""

    def trusted(canary: Canary) -> None:
        exec((canary.folder / f"{NAME}.py").read_text(), {"__name__": NAME})  # what trust_remote_code does with it

    yield "model folder", "code named by auto_map", trusted, lambda c: _model(place, c, remote=True)
    yield "model folder", "weights as a pickle", careless, lambda c: _model(place, c, remote=False)


def _model(place: Place, canary: Canary, *, remote: bool) -> list[str]:
    """The model of a cloning run, that names its own code, or has a pickle in place of its weights."""
    target = canary.folder / "model"
    shutil.copytree(place.cut("clone") / "final", target)
    if remote:
        config = json.loads((target / "config.json").read_text())
        kinds = dict.fromkeys(("AutoConfig", "AutoModelForCausalLM", "AutoTokenizer"), f"{NAME}.Bot")
        (target / "config.json").write_text(json.dumps(config | {"auto_map": kinds, "model_type": "stranger"}))
        shutil.copy(canary.folder / f"{NAME}.py", target)
    else:
        (target / "model.safetensors").unlink()
        (target / "pytorch_model.bin").write_bytes(canary.saved())
    (target / "manifest.json").unlink()
    game = ["--env", "diplomacy", "--ckpt", str(target), "--opponents", "random", "--games", "7"]
    return ["eval/run.py", *game, "--last-year", "1901", "--out", str(canary.folder)]


# ---- ONNX


def by_onnx(place: Place) -> Iterator[tuple[str, str, Own, Words]]:
    """Yield the ways by which an ONNX file could have another file read."""

    def read(canary: Canary) -> None:
        canary.secret.read_bytes()

    for part in external_data.PARTS:
        for where in ("an absolute path", "outside its folder", "in the working directory", "in memory"):
            yield f"ONNX, {part}", f"data {where}", read, partial(_agent, part=part, where=where)


def _agent(canary: Canary, part: str, where: str) -> list[str]:
    """Play an agent whose weights are not in its file."""
    path = canary.folder / "theirs" / "agent.onnx"
    path.parent.mkdir()
    place = {
        "an absolute path": str(canary.secret),
        "outside its folder": f"../{canary.secret.name}",
        "in the working directory": canary.secret.name,
        "in memory": external_data.MEMORY,
    }[where]
    path.write_bytes(external_data.agent(part, place))
    return _evaluate(path, canary)
