"""Pickles, YAML tags, folders of models and ONNX files that would run code or read another file, each with a canary."""

from __future__ import annotations

import base64
import io
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
import yaml

from benchmarks.torture import external_data
from benchmarks.torture.canary import NAME, SHORT, Canary, Own, Words, copied
from benchmarks.torture.commands import SECONDS
from benchmarks.torture.part import Place
from benchmarks.torture.runs import RUNS, diplomacy, match, resume
from sparring.configs.core.tensor_file import sha256

FILES = ("final.pt", "state", "snapshot", "model.zip", "vecnormalize.pkl", "config.yaml", "mine.yaml", "sweep.yaml")
"""What a refusal may name, beside `model` and `agent.onnx`."""


def _careless(canary: Canary) -> None:
    """Open a file of torch as a reader would that trusts it."""
    torch.load(io.BytesIO(canary.saved()), weights_only=False)


def by_pickle(place: Place) -> Iterator[tuple[str, str, Own, Words]]:
    """Yield the ways by which a file could make Python build any object: group, what, own command, theirs."""

    def unsafe_yaml(canary: Canary) -> None:
        yaml.unsafe_load(_tag(canary))

    ways: dict[str, Words] = {
        "policy, --ckpt": lambda c: _evaluate(_policy(c), c),
        "policy, --opponents": lambda c: _evaluate("bot:ace", c, opponent=_policy(c)),
        "policy, init_from": lambda c: RUNS["self_play"].command(c.folder, f"init_from={_policy(c)}", *SHORT),
        "policy, against": lambda c: c.train("+run=best_response", f"against={_policy(c)}", "name=theirs", *SHORT),
        "training state": partial(_state, place),
        "snapshot in the pool": partial(_snapshot, place),
    }
    for what, theirs in ways.items():
        yield "pickle", what, _careless, theirs
    load = partial(_by_sb3, _sb3, "from stable_baselines3 import PPO; PPO.load({!r}, device='cpu')")
    yield "pickle", "zip of SB3", load, lambda c: _evaluate(_sb3(c), c)
    code = "from stable_baselines3.common.vec_env import VecNormalize; VecNormalize.load({!r}, None)"
    statistics = partial(_by_sb3, _normalize, code)
    yield "pickle", "VecNormalize of SB3", statistics, lambda c: _evaluate(_sb3(c), c, "--vecnormalize", _normalize(c))
    yield "YAML tag", "stored configuration", unsafe_yaml, partial(_tagged, place)
    yield "YAML tag", "run file", unsafe_yaml, lambda c: c.run_file(_tag(c))
    yield "YAML tag", "sweep file", unsafe_yaml, lambda c: c.sweep_file("run: quickstart\n" + _tag(c))


def _evaluate(ckpt: Path | str, canary: Canary, *more: Path | str, opponent: Path | str = "ace") -> list[str]:
    words = match(ckpt, canary.folder / "out", "--env", "dogfight", opponent=opponent)
    return [*words, *map(str, more)]


def _policy(canary: Canary) -> Path:
    path = canary.folder / "final.pt"
    path.write_bytes(canary.saved())
    (canary.folder / "manifest.json").write_text(json.dumps({"final.pt": {"sha256": sha256(path.read_bytes())}}))
    return path


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


def _by_sb3(make: Callable[[Canary], Path], code: str, canary: Canary) -> None:
    """Open a file as SB3 does, in a process of its own; what the file sets off comes before SB3 notices the rest."""
    words = [sys.executable, "-c", code.format(str(make(canary)))]
    subprocess.run(words, capture_output=True, check=False, timeout=SECONDS)


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


def by_model(place: Place) -> Iterator[tuple[str, str, Own, Words]]:
    """Yield the ways by which a language model's folder could run code."""

    def trusted(canary: Canary) -> None:
        exec((canary.folder / f"{NAME}.py").read_text(), {"__name__": NAME})  # what trust_remote_code does with it

    yield "model folder", "code named by auto_map", trusted, lambda c: _model(place, c, remote=True)
    yield "model folder", "weights as a pickle", _careless, lambda c: _model(place, c, remote=False)


def _model(place: Place, canary: Canary, *, remote: bool) -> list[str]:
    """The model of a cloning run, that names its own code, or has a pickle in place of its weights."""
    target = Path(shutil.copytree(place.cut("clone") / "final", canary.folder / "model"))
    if remote:
        config = json.loads((target / "config.json").read_text())
        kinds = dict.fromkeys(("AutoConfig", "AutoModelForCausalLM", "AutoTokenizer"), f"{NAME}.Bot")
        (target / "config.json").write_text(json.dumps(config | {"auto_map": kinds, "model_type": "stranger"}))
        shutil.copy(canary.folder / f"{NAME}.py", target)
    else:
        (target / "model.safetensors").unlink()
        (target / "pytorch_model.bin").write_bytes(canary.saved())
    (target / "manifest.json").unlink()
    return diplomacy(target, canary.folder)


def by_onnx(place: Place) -> Iterator[tuple[str, str, Own, Words]]:
    """Yield the ways by which an ONNX file could have another file read."""

    def read(canary: Canary) -> None:
        canary.secret.read_bytes()

    for part in external_data.PARTS:
        for where in ("an absolute path", "outside its folder", "in the working directory", "in memory"):
            yield f"ONNX, {part}", f"data {where}", read, partial(_agent, part, where)


def _agent(part: str, where: str, canary: Canary) -> list[str]:
    """Play an agent whose weights are not in its file."""
    path = canary.folder / "theirs" / "agent.onnx"
    path.parent.mkdir()
    location = {
        "an absolute path": str(canary.secret),
        "outside its folder": f"../{canary.secret.name}",
        "in the working directory": canary.secret.name,
        "in memory": external_data.MEMORY,
    }[where]
    path.write_bytes(external_data.agent(part, location))
    return _evaluate(path, canary)
