"""Every way by which a stranger's file could make code run or have another file read, each with a canary.

The canary must fire where users name it on their own command line, or where the file is opened without care: else its
silence shows nothing. It must not fire from a stranger's file.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

from benchmarks.torture.canary import NAME, SHORT, Canary, Own, Words, copied
from benchmarks.torture.code_in_files import FILES, by_model, by_onnx, by_pickle
from benchmarks.torture.commands import run
from benchmarks.torture.part import FAILED, Place, Step, Verdict, judged
from benchmarks.torture.runs import RUNS, diplomacy, resume

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
    families = ((_by_name, (NAME, "engine")), (by_pickle, FILES), (by_model, ("model",)), (by_onnx, ("agent.onnx",)))
    for ways, names in families:
        for group, what, own, theirs in ways(place):
            yield Step(group, what, partial(_try, place, own, theirs, names))


def _try(place: Place, own: Own, theirs: Words, names: tuple[str, ...]) -> Verdict:
    """Let the canary fire, then read the file, whose refusal must name one of `names`."""
    canary = Canary(place.fresh()).build()
    words = own(canary)
    ended = run(words, canary.folder / "own.log", place=canary.folder) if words else None
    if not canary.fired():
        return Verdict(FAILED, f"the canary does not fire where it should: {ended or 'opened without care'}")
    ended = run(theirs(canary), canary.folder / "theirs.log", place=canary.folder)
    if canary.fired():
        return Verdict(FAILED, f"code of the file ran, or another file was read: {ended}")
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
