"""Every way by which a stranger's file could make code run or have another file read, each with a canary.

The canary must fire where users name it on their own command line, or where the file is opened without care: else its
silence shows nothing. It must not fire from a stranger's file.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

from benchmarks.torture.canary import NAME, SELF_PLAY, SHORT, Canary, Own, Words, base, copied, resume
from benchmarks.torture.code_in_files import FILES, by_model, by_onnx, by_pickle
from benchmarks.torture.commands import run
from benchmarks.torture.part import FAILED, Place, Step, Verdict, judged
from benchmarks.torture.runs import TinyRun

PRIMARY = {"measure": "last(train/entropy)", "goal": "higher"}


def steps(place: Place) -> Iterator[Step]:
    """Yield a step for every way: the canary fires by the user's own hand, and not from the file."""
    ways = [
        (_by_name, (NAME, "engine")),
        (by_pickle, FILES),
        (by_model, ("model",)),
        (by_onnx, ("agent.onnx",)),
    ]
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
        ended = run(words, canary.folder / "own.log", place=canary.folder) if words else None
        if not canary.fired():
            return Verdict(FAILED, f"the canary does not fire where it should: {ended or 'opened without care'}")
        ended = run(self.theirs(canary), canary.folder / "theirs.log", place=canary.folder)
        if canary.fired():
            return Verdict(FAILED, f"code of the file ran, or another file was read: {ended}")
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


def _command(key: str, option: str) -> Words:
    """The user's own command: the option is typed."""

    def words(canary: Canary) -> list[str]:
        if key == "env.id":
            return ["train.py", "+run=gymnasium", option, "name=own", *SHORT, *base(canary)]
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
    return ["train.py", f"+run={path}", "name=theirs", *SHORT, *base(canary)]


def _sweep_file(canary: Canary, option: str) -> list[str]:
    path = canary.folder / "sweep.yaml"
    trained = "gymnasium" if option.startswith("env.id") else "quickstart"
    content = {"hypothesis": "none", "run": trained, "defaults": {"max_updates": 1}, "primary": PRIMARY}
    runs = {"A": {"description": "one", "changes": _nested(option)}, "B": {"description": "two", "changes": {}}}
    path.write_text(yaml.safe_dump({**content, "runs": runs}))
    return ["train.py", "+sweep=sweep", *base(canary)]


def _stored(place: Place, canary: Canary, option: str) -> list[str]:
    """A run folder whose stored configuration names the module, its state and manifest made to agree."""
    target = copied(place, canary)
    stored = OmegaConf.load(target / "config.yaml")
    OmegaConf.save(OmegaConf.merge(stored, _nested(option)), target / "config.yaml")
    shutil.rmtree(target / "state")
    return resume(target)


def _engine(canary: Canary) -> list[str]:
    chess = ["--env", "chess", "--ckpt", "bot:random", "--opponents", "stockfish:1", "--games", "2", "--plies", "8"]
    return ["eval/run.py", *chess, "--engine", str(canary.program), "--out", str(canary.folder)]


def _engine_file(canary: Canary) -> list[str]:
    path = canary.folder / "mine.yaml"
    content = {"trainer": "clone", "env": {"id": "sparring/Chess-v0", "engine": {"path": str(canary.program)}}}
    path.write_text("# @package _global_\n" + yaml.safe_dump(content | {"tasks": {"analysis_share": 1.0}}))
    data = ("env.data.train=8", "env.data.validation=2", "env.data.held_out=2", "clone.updates=1", "clone.hidden=16")
    return ["train.py", f"+run={path}", "name=theirs", *data, *base(canary)]


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
    path.write_text(path.read_text().replace('"random"', json.dumps(player)))
    return path


def _league(place: Place, canary: Canary) -> list[str]:
    target = copied(place, canary)
    text = (target / "league.json").read_text()
    (target / "league.json").write_text(text.replace('"ace"', f'"{NAME}:Bot"'))
    return [*resume(target), "max_updates=0"]
