"""Every way by which a stranger's file could make code run, each with a canary.

The canary must fire where users name it on their own command line, or where the file is opened without care: else its
silence shows nothing. It must not fire from a stranger's file.
"""

from __future__ import annotations

import base64
import io
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml
from omegaconf import OmegaConf

from benchmarks.torture.canary import NAME, SHORT, Canary, Own, Words, copied
from benchmarks.torture.commands import SECONDS, run
from benchmarks.torture.part import FAILED, Place, Step, Verdict, judged
from benchmarks.torture.runs import RUNS, diplomacy, match, resume
from sparring.configs.core.tensor_file import sha256

FILES = ("final.pt", "state", "snapshot", "model.zip", "vecnormalize.pkl", "config.yaml", "mine.yaml", "sweep.yaml")
"""What a refusal may name, beside `model`."""
BOT = f"{NAME}:Bot"


def _stages(bot: str) -> dict[str, Any]:
    return {"phases": [{"name": "one", "updates": 2, "stages": [{"at": 0, "bots": [bot]}]}]}


NAMED: dict[str, tuple[str, Mapping[str, Any]]] = {
    "opponents": (f"opponents=[{BOT}]", {"opponents": [BOT]}),
    "a stage's bots": (f"phases.0.stages.0.bots=[{BOT}]", _stages(BOT)),
    "against": (f"against={BOT}", {"against": BOT}),
    "reward": (f"reward={NAME}:reward", {"reward": f"{NAME}:reward"}),
    "env.id": (f"env.id={NAME}:Stranger/Env-v0", {"env": {"id": f"{NAME}:Stranger/Env-v0"}}),
}
"""Options that name a module, as they are typed and as a file holds them."""


def steps(place: Place) -> Iterator[Step]:
    """Yield a step for every way: the canary fires by the user's own hand, and not from the file."""
    families = ((_by_name, (NAME, "engine")), (by_pickle, FILES), (by_model, ("model",)))
    for ways, names in families:
        for group, what, own, theirs in ways(place):
            yield Step(group, what, partial(_try, place, own, theirs, names))


def _try(place: Place, own: Own, theirs: Words, names: tuple[str, ...]) -> Verdict:
    """Let the canary fire, then read the file, whose refusal must name one of `names`."""
    canary = Canary(place.fresh()).build()
    words = own(canary)
    ended = run(words, canary.folder / "own.log", canary.folder) if words else None
    if not canary.fired():
        return Verdict(FAILED, f"the canary does not fire where it should: {ended or 'opened without care'}")
    ended = run(theirs(canary), canary.folder / "theirs.log", canary.folder)
    if canary.fired():
        return Verdict(FAILED, f"code of the file ran: {ended}")
    return judged(ended, *names, harmless="read, and no code ran")


def _by_name(place: Place) -> Iterator[tuple[str, str, Own, Words]]:
    """Yield the ways by which a file could name a module or a program: group, what, own command, theirs."""
    for what, (option, content) in NAMED.items():
        typed = partial(_typed, option)
        yield "run file", what, typed, partial(_run_file, content)
        yield "sweep file", what, typed, partial(_sweep_file, content)
        yield "stored configuration", what, typed, partial(_stored, place, content)
    typed = partial(_typed, NAMED["opponents"][0])
    yield "run file", "env.engine.path", _engine, _engine_file
    yield "run file", "init_from a module", typed, partial(_run_file, {"init_from": BOT})
    yield "saved game", "players", lambda canary: diplomacy(f"{NAME}:Orders", canary.folder), _saved_game
    yield "league.json", "an opponent's name", typed, partial(_league, place)


def _typed(option: str, canary: Canary) -> list[str]:
    """Return the user's own command: the option is typed."""
    if option.startswith("env.id"):
        return canary.train("+run=gymnasium", option, "name=own", *SHORT)
    if option.startswith("against"):
        tiny = ("env.num_envs=8", "ppo.rollout_steps=8", "ppo.minibatch_size=32")
        return canary.train("+run=best_response", option, "name=own", *tiny, *SHORT)
    return RUNS["self_play"].command(canary.folder, option, *SHORT)


def _run_file(content: Mapping[str, Any], canary: Canary) -> list[str]:
    return canary.run_file(yaml.safe_dump({**_stages("ace"), **content}), *SHORT)


def _sweep_file(content: Mapping[str, Any], canary: Canary) -> list[str]:
    primary = {"measure": "last(train/entropy)", "goal": "higher"}
    base = {"run": "gymnasium" if "env" in content else "quickstart", "defaults": {"max_updates": 1}}
    runs = {"A": {"description": "one", "changes": content}, "B": {"description": "two", "changes": {}}}
    return canary.sweep_file(yaml.safe_dump({"hypothesis": "none", **base, "primary": primary, "runs": runs}))


def _stored(place: Place, content: Mapping[str, Any], canary: Canary) -> list[str]:
    """A run folder whose stored configuration names the module, without the states that hold its hash."""
    target = copied(place, canary)
    stored = OmegaConf.load(target / "config.yaml")
    OmegaConf.save(OmegaConf.merge(stored, content), target / "config.yaml")
    shutil.rmtree(target / "state")
    return resume(target)


def _engine(canary: Canary) -> list[str]:
    chess = ["--env", "chess", "--ckpt", "bot:random", "--opponents", "stockfish:1", "--games", "2", "--plies", "8"]
    return ["eval/run.py", *chess, "--engine", str(canary.program), "--out", str(canary.folder)]


def _engine_file(canary: Canary) -> list[str]:
    env = {"id": "sparring/Chess-v0", "engine": {"path": str(canary.program)}}
    text = yaml.safe_dump({"trainer": "clone", "env": env, "tasks": {"analysis_share": 1.0}})
    data = ("env.data.train=8", "env.data.validation=2", "env.data.held_out=2", "clone.updates=1", "clone.hidden=16")
    return canary.run_file(text, *data)


def _saved_game(canary: Canary) -> list[str]:
    path = saved_game(canary.folder, f"{NAME}:Orders")
    return ["eval/diplomacy_replay.py", "--game", str(path), "--out", str(canary.folder / "game.html")]


def saved_game(folder: Path, player: str) -> Path:
    """Write a game of Diplomacy between bots that are called `player`."""
    path = folder / "game.json"
    words = ["eval/diplomacy_replay.py", "--players", "random", "--last-year", "1901", "--save", str(path), "--quiet"]
    run(words, folder / "made.log")
    path.write_text(path.read_text().replace('"random"', json.dumps(player)))
    return path


def _league(place: Place, canary: Canary) -> list[str]:
    target = copied(place, canary)
    text = (target / "league.json").read_text()
    (target / "league.json").write_text(text.replace('"ace"', f'"{BOT}"'))
    return resume(target, "max_updates=0")


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
