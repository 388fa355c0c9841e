"""Every way by which a stranger's file could make code run, each with a canary that shows whether any did.

The canary is a module, a pickle or a program that makes a file. It must fire where users name it on their own command
line, or where the file is opened without care: else its silence shows nothing. It must not fire from a stranger's file.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml

from benchmarks.torture.commands import run
from benchmarks.torture.part import FAILED, Place, Step, Verdict, judged
from benchmarks.torture.runs import RUNS, TinyRun
from sparring.configs.core.tensor_file import sha256

MODULE = """
import pathlib
import numpy as np
pathlib.Path({mark!r}).write_text("fired")
class Bot:
    def act(self, obs):
        return np.zeros((len(obs), 3), dtype=np.float32)
class Orders:
    def act(self, view):
        return []
def reward(step):
    return step.builtin
"""
NAME = "canary_module"
SHORT = ("max_updates=1",)
FILES = ("final.pt", "state", "snapshot", "model.zip", "vecnormalize.pkl", "config.yaml", "mine.yaml", "sweep.yaml")
SELF_PLAY = RUNS["self_play"]


class Call:
    """Pickled, the call of `os.system`."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


@dataclass(frozen=True)
class Canary:
    """A folder with the module, a program and a pickle, of which each makes the file `fired`."""

    folder: Path

    @property
    def mark(self) -> Path:
        """The file that is made."""
        return self.folder / "fired"

    def build(self) -> Canary:
        """Write them; returns itself."""
        (self.folder / f"{NAME}.py").write_text(MODULE.format(mark=str(self.mark)))
        self.program.write_text(f"#!/bin/sh\ntouch {self.mark}\n")
        self.program.chmod(0o755)
        return self

    @property
    def program(self) -> Path:
        """The path of the program."""
        return self.folder / "engine"

    def pickle(self) -> bytes:
        """Return a pickle that fires."""
        return pickle.dumps({"weights": Call(f"touch {self.mark}")})

    def saved(self, content: Any = None) -> bytes:
        """Return a file of torch that fires when it is unpickled."""
        buffer = io.BytesIO()
        torch.save({"weights": {"w": torch.zeros(2)}, "trap": Call(f"touch {self.mark}"), **(content or {})}, buffer)
        return buffer.getvalue()

    def fired(self) -> bool:
        """Return whether it fired, and make it ready again."""
        there = self.mark.exists()
        self.mark.unlink(missing_ok=True)
        return there


Words = Callable[[Canary], Sequence[str]]
Own = Callable[[Canary], Sequence[str] | None]
"""The user's own command, or None where the call itself opened the file without care."""


def steps(place: Place) -> Iterator[Step]:
    """Yield a step for every way: the canary fires by the user's own hand, and not from the file."""
    ways = [(_by_name, (NAME, "engine")), (_by_pickle, FILES), (_by_model, ("model",))]
    for make, names in ways:
        for group, what, own, theirs in make(place):
            yield Step(group, what, _Way(place, own, theirs, names).attempt)


@dataclass(frozen=True)
class _Way:
    place: Place
    own: Own
    theirs: Words
    names: tuple[str, ...]
    """What the refusal must name one of: the module, or the file."""

    def attempt(self) -> Verdict:
        canary = Canary(self.place.fresh()).build()
        words = self.own(canary)
        ended = run(words, canary.folder / "own.log", path=str(canary.folder)) if words else None
        if not canary.fired():
            return Verdict(FAILED, f"the canary does not fire where it should: {ended or 'opened without care'}")
        ended = run(self.theirs(canary), canary.folder / "theirs.log", path=str(canary.folder))
        if canary.fired():
            return Verdict(FAILED, f"code of the file ran: {ended}")
        verdict = judged(ended, *self.names, harmless="read, and no code ran")
        if verdict.result != FAILED:
            self.place.done(canary.folder)
        return verdict


# ---- names of modules and programs


def _by_name(place: Place) -> Iterator[tuple[str, str, Own, Words]]:
    named = {
        "opponents": f"opponents=[{NAME}:Bot]",
        "a stage's bots": f"phases.0.stages.0.bots=[{NAME}:Bot]",
        "against": f"against={NAME}:Bot",
        "reward": f"reward={NAME}:reward",
        "env.id": f"env.id={NAME}:Stranger/Env-v0",
    }
    for key, option in named.items():
        words = _command("env.id" if key == "env.id" else key, option)
        yield "run file", key, words, partial(_run_file, option=option)
        yield "sweep file", key, words, partial(_sweep_file, option=option)
        yield "stored configuration", key, words, partial(_stored, place, option=option)
    yield "run file", "env.engine.path", _engine, lambda canary: _engine_file(canary)
    yield (
        "run file",
        "init_from a module",
        _command("", f"opponents=[{NAME}:Bot]"),
        lambda canary: _run_file(canary, f"init_from={NAME}:Bot"),
    )
    yield "saved game", "players", _orders, _saved_game
    yield (
        "league.json",
        "an opponent's name",
        _command("", f"opponents=[{NAME}:Bot]"),
        lambda canary: _league(place, canary),
    )


def _base(canary: Canary) -> list[str]:
    return ["device=cpu", "threads=1", "logger.progress=false", f"checkpoint_dir={canary.folder}"]


def _command(key: str, option: str) -> Words:
    """The user's own command: the option is typed."""

    def words(canary: Canary) -> list[str]:
        if key == "env.id":
            return ["train.py", "+run=gymnasium", option, "name=own", *SHORT, *_base(canary)]
        run = SELF_PLAY if key != "against" else TinyRun("own", 1, ("+run=best_response", "env.num_envs=8"))
        tiny = () if key != "against" else ("ppo.rollout_steps=8", "ppo.minibatch_size=32")
        return run.command(canary.folder, option, *tiny, *SHORT)

    return words


def _nested(option: str) -> dict[str, Any]:
    """Return a typed option as a file would hold it."""
    key, _, text = option.partition("=")
    if key.startswith("phases"):
        return {"phases": [{"name": "one", "updates": 2, "stages": [{"at": 0, "bots": [f"{NAME}:Bot"]}]}]}
    value: Any = yaml.safe_load(text)
    for part in reversed(key.split(".")):
        value = {part: value}
    return dict(value)


def _run_file(canary: Canary, option: str) -> list[str]:
    path = canary.folder / "mine.yaml"
    content = {"phases": [{"name": "one", "updates": 2, "stages": [{"at": 0, "bots": ["ace"]}]}]} | _nested(option)
    path.write_text("# @package _global_\n" + yaml.safe_dump(content))
    return ["train.py", f"+run={path}", "name=theirs", *SHORT, *_base(canary)]


def _sweep_file(canary: Canary, option: str) -> list[str]:
    path = canary.folder / "sweep.yaml"
    content = {"hypothesis": "none", "run": "quickstart", "seeds": [0], "defaults": {"max_updates": 1}}
    runs = {"A": {"description": "one", "changes": _nested(option)}, "B": {"description": "two", "changes": {}}}
    path.write_text(yaml.safe_dump({**content, "runs": runs}))
    return ["train.py", f"+sweep={path}", *_base(canary)]


def _stored(place: Place, canary: Canary, option: str) -> list[str]:
    """A run folder whose stored configuration names the module, its state and manifest made to agree."""
    target = _copied(place, canary)
    stored = yaml.safe_load((target / "config.yaml").read_text())
    _merge(stored, _nested(option))
    (target / "config.yaml").write_text(yaml.safe_dump(stored, sort_keys=False))
    shutil.rmtree(target / "state")
    return _resume(target)


def _copied(place: Place, canary: Canary) -> Path:
    target = canary.folder / "theirs" / "self_play"
    shutil.copytree(place.cut("self_play"), target)
    return target


def _resume(target: Path) -> list[str]:
    return ["train.py", f"resume={target.name}", f"checkpoint_dir={target.parent}"]


def _merge(into: dict[str, Any], changes: dict[str, Any]) -> None:
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _engine(canary: Canary) -> list[str]:
    chess = ["--env", "chess", "--ckpt", "bot:random", "--opponents", "stockfish:1", "--games", "2", "--plies", "8"]
    return ["eval/run.py", *chess, "--engine", str(canary.program), "--out", str(canary.folder)]


def _engine_file(canary: Canary) -> list[str]:
    path = canary.folder / "mine.yaml"
    content = {"trainer": "clone", "env": {"id": "sparring/Chess-v0", "engine": {"path": str(canary.program)}}}
    path.write_text("# @package _global_\n" + yaml.safe_dump(content | {"tasks": {"analysis_share": 1.0}}))
    data = ("env.data.train=8", "env.data.validation=2", "env.data.held_out=2", "clone.updates=1", "clone.hidden=16")
    return ["train.py", f"+run={path}", "name=theirs", *data, *_base(canary)]


def _orders(canary: Canary) -> list[str]:
    game = ["--env", "diplomacy", "--ckpt", f"{NAME}:Orders", "--opponents", "random", "--games", "7"]
    return ["eval/run.py", *game, "--last-year", "1901", "--out", str(canary.folder)]


def _saved_game(canary: Canary) -> list[str]:
    path = saved_game(canary.folder, f"{NAME}:Orders")
    return ["eval/diplomacy_replay.py", "--game", str(path), "--out", str(canary.folder / "game.html")]


def saved_game(folder: Path, player: str) -> Path:
    """Write a game of Diplomacy between bots that are called `player`."""
    path = folder / "game.json"
    words = ["eval/diplomacy_replay.py", "--players", "random", "--last-year", "1901", "--save", str(path), "--quiet"]
    run(words, folder / "made.log")
    path.write_text(json.dumps(_replaced(json.loads(path.read_text()), "random", player)))
    return path


def _replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, old, new) for item in value]
    return new if value == old else value


def _league(place: Place, canary: Canary) -> list[str]:
    target = _copied(place, canary)
    text = (target / "league.json").read_text()
    (target / "league.json").write_text(text.replace('"ace"', f'"{NAME}:Bot"'))
    return [*_resume(target), "max_updates=0"]


# ---- pickles


def _by_pickle(place: Place) -> Iterator[tuple[str, str, Own, Words]]:
    def careless(canary: Canary) -> None:
        torch.load(io.BytesIO(canary.saved()), weights_only=False)

    def unpickled(canary: Canary) -> None:
        pickle.loads(canary.pickle())

    def unsafe_yaml(canary: Canary) -> None:
        yaml.unsafe_load(_tag(canary))

    ways: dict[str, tuple[Own, Words]] = {
        "policy, --ckpt": (careless, lambda c: _evaluate(_policy(c), c)),
        "policy, --opponents": (careless, lambda c: _evaluate("bot:ace", c, str(_policy(c)))),
        "policy, init_from": (careless, lambda c: SELF_PLAY.command(c.folder, f"init_from={_policy(c)}", *SHORT)),
        "policy, against": (careless, lambda c: _against(c)),
        "training state": (careless, lambda c: _state(place, c)),
        "snapshot in the pool": (careless, lambda c: _snapshot(place, c)),
        "zip of SB3": (unpickled, lambda c: _evaluate(_sb3(c), c)),
        "VecNormalize of SB3": (unpickled, lambda c: [*_evaluate(_sb3(c), c), "--vecnormalize", str(_normalize(c))]),
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
    return ["train.py", "+run=best_response", f"against={path}", "name=theirs", *SHORT, *_base(canary)]


def _state(place: Place, canary: Canary) -> list[str]:
    target = _copied(place, canary)
    for state in (target / "state").glob("update_*"):
        data, file = canary.saved(), state / "manifest.json"
        (state / "state.pt").write_bytes(data)
        file.write_text(json.dumps(json.loads(file.read_text()) | {"sha256": sha256(data), "bytes": len(data)}))
    return _resume(target)


def _snapshot(place: Place, canary: Canary) -> list[str]:
    target = _copied(place, canary)
    index = target / "pool" / "index.json"
    data, text = canary.saved(), index.read_text()
    for path in (target / "pool").glob("*.pt"):
        text = text.replace(sha256(path.read_bytes()), sha256(data))
        path.write_bytes(data)
    index.write_text(text)
    return _resume(target)


def _sb3(canary: Canary) -> Path:
    path = canary.folder / "model.zip"
    trap = {":type:": "<class 'dict'>", ":serialized:": canary.pickle().hex()}
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
    target = _copied(place, canary)
    (target / "config.yaml").write_text((target / "config.yaml").read_text() + _tag(canary))
    return _resume(target)


def _tagged_run(canary: Canary) -> list[str]:
    (canary.folder / "mine.yaml").write_text("# @package _global_\n" + _tag(canary))
    return ["train.py", f"+run={canary.folder / 'mine.yaml'}", *_base(canary)]


def _tagged_sweep(canary: Canary) -> list[str]:
    (canary.folder / "sweep.yaml").write_text("run: quickstart\n" + _tag(canary))
    return ["train.py", f"+sweep={canary.folder / 'sweep.yaml'}", *_base(canary)]


# ---- folders of models


def _by_model(place: Place) -> Iterator[tuple[str, str, Own, Words]]:
    def trusted(canary: Canary) -> None:
        exec((canary.folder / f"{NAME}.py").read_text(), {"__name__": NAME})  # what trust_remote_code does with it

    def careless(canary: Canary) -> None:
        torch.load(io.BytesIO(canary.saved()), weights_only=False)

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
