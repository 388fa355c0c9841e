"""Sessions of small runs whose file operations fail, and what must hold afterwards.

A session is one start of the command line, in a process of its own: `start` trains a run from nothing to its end,
`resume` one that has done an update, `finished` one that is over.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sparring.agents.language.models.saved_model import WEIGHTS, verify_model
from sparring.agents.run.states import StateFolder, read_state
from sparring.configs.core.errors import InputError
from sparring.configs.core.manifest import read_listed
from sparring.configs.core.tensor_file import pack, sha256, unpack
from sparring.configs.load import load
from sparring.configs.schema import SelfPlayConfig
from tests.agents.faults import planted, victims
from tests.agents.faults.disk.faulty_files import FaultyFiles, Operation
from tests.agents.language.grpo.rollouts.small_games import small_config
from tests.agents.language.grpo.small_runs import CLOCKS
from tests.agents.language.grpo.toy_folder import toy_folder
from tests.agents.ppo.small_run import config

SESSIONS = {"start": None, "resume": 1, "finished": 0}
"""Updates that the run is limited to before the session; 0 for none, None for no run at all."""
COMMON = ("threads=1", "device=cpu", "logger.progress=false", "checkpoint_every=1", "keep_states=1")
"""A state after every update, and no earlier one to fall back to."""
GRPO = ("grpo.groups=1", "grpo.steps=2", "league.checkpoint_every=1", "league.cold_start_steps=1", "evaluation.every=0")
CLONE = (
    *("+run=diplomacy_clone", "name=small", "env.last_year=1902", "clone.hidden=16", "clone.layers=1"),
    *("clone.heads=2", "clone.games_per_update=2", "clone.updates=2", "clone.batch_tokens=4096", "evaluation.every=0"),
)
OTHER_OPPONENTS = ("no snapshot was taken", "plays on in its place", "alert: step_000001.pt was not saved")
"""Alerts after which a run that goes on differs from an undisturbed one."""
ROW_LOST, NOT_SAVED = "metrics.jsonl cannot be written", "{} was not saved"
DEATHS = ("kill", "torn")


@cache  # composing options takes as long as some sessions
def ppo(root: Path, updates: int = 0) -> Any:
    """Return the configuration of a self-play run, in which every snapshot evicts one."""
    pool = SelfPlayConfig(snapshot_every=1, pool_size=1, slots=1, deal_every=1)
    return config(root, checkpoint_every=1, keep_states=1, self_play=pool, max_updates=updates)


@cache
def grpo(root: Path, updates: int = 0, name: str = "small") -> Any:
    """Return the configuration of a GRPO run of the model `toy`, which inherits the league of the run `first`."""
    places = (f"checkpoint_dir={root}", f"model.name={root / 'toy'}", f"name={name}", f"max_updates={updates}")
    return small_config(*COMMON, *GRPO, *places, *(["league.inherit=first"] if name == "small" else []))


@cache
def clone(root: Path, updates: int = 0) -> Any:
    """Return the configuration of a cloning run, whose policy is a folder."""
    return load([*CLONE, *COMMON, f"checkpoint_dir={root}", f"max_updates={updates}"])


RUNS = {"ppo": ppo, "grpo": grpo, "clone": clone}


@dataclass(frozen=True)
class Bench:
    """Folders `before` each session of a run, a place for sessions, and the `whole` outcome."""

    run: str
    place: Path
    before: dict[str, Path]
    whole: Outcome

    def operations(self, session: str) -> list[Operation]:
        """Return the operations of a session without faults."""
        shutil.copytree(self.before[session], self.place)
        code, said = victims.listen(train_with, RUNS[self.run](self.place), self.place, "", -1)
        assert code == 0, said
        shutil.rmtree(self.place)
        return [Operation(*row) for row in json.loads(self.place.with_suffix(".json").read_text())]

    def wrong(self, session: str, fault: str, at: int) -> str:
        """Return what is wrong with a faulty session, its folder, or the next session; "" if nothing is."""
        shutil.copytree(self.before[session], self.place)
        newest = _newest(self.place)
        code, said = victims.listen(train_with, RUNS[self.run](self.place), self.place, fault, at)
        try:
            wrong = _ending(code, said, fault) or _folder(self.place / "small", newest) or self._continuation(said)
            return wrong and f"{wrong}\nThe session said:\n{said[-2000:]}"
        finally:
            shutil.rmtree(self.place)

    def _continuation(self, said: str) -> str:
        code, more = victims.listen(planted.run, RUNS[self.run](self.place))
        if code != 0 or "Traceback" in more or "alert" in more:
            return f"The next session ended with {code}: {more[-2000:]}"
        if left := [str(path) for path in self.place.rglob(".*.tmp")]:
            return f"left: {left}"
        if any(text in said for text in OTHER_OPPONENTS):
            return ""
        found = Outcome.of(self.place / "small")
        if found.state != self.whole.state:
            return "The last state is another one."
        if ROW_LOST not in said and found.rows != self.whole.rows:
            return "The rows are others."
        wrong = [
            name
            for name, policy in self.whole.policies.items()
            if found.policies.get(name, policy if NOT_SAVED.format(name) in said else "") != policy
        ]
        return f"missing or different: {wrong}" if wrong else ""


@dataclass(frozen=True)
class Outcome:
    """What a finished run repeats: the hash of its last state, its rows, and the hashes of its policies' weights."""

    state: str
    rows: list[dict[str, float]]
    policies: dict[str, str]

    @classmethod
    def of(cls, folder: Path) -> Outcome:
        """Return the outcome of the run in `folder`."""
        content = read_state(max((folder / "state").glob("update_*"))).content
        del content["logger"]["bytes"]
        content.pop("seconds", None)  # the time that cloning took
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        untimed = [{key: row[key] for key in row if not any(clock in key for clock in CLOCKS)} for row in rows]
        return cls(sha256(pack(content)), untimed, _policies(folder))


def train_with(options: Any, root: Path, fault: str, at: int) -> None:
    """Train in this process with a fault; write the operations to `root`.json if the process reaches its end."""
    files = FaultyFiles(root, fault, at)
    files.install()
    try:
        planted.run(options)
    finally:
        root.with_suffix(".json").write_text(json.dumps(files.operations))


def prepare(run: str, folder: Path) -> Bench:
    """Make the folders that sessions begin with."""
    place, common, before = folder / "sessions", folder / "common", {}
    place.mkdir()
    if run == "grpo":
        toy_folder(place / "toy")
        _train(grpo(place, 1, name="first"))
    place.rename(common)
    for session, updates in SESSIONS.items():
        shutil.copytree(common, place)
        if updates is not None:
            _train(RUNS[run](place, updates))
        before[session] = place.rename(folder / session)
    return Bench(run, place, before, Outcome.of(before["finished"] / "small"))


def _train(options: Any) -> None:
    code, said = victims.listen(planted.run, options)
    assert code == 0, said


def _ending(code: int | None, said: str, fault: str) -> str:
    """Return what is wrong with the end of a session."""
    if fault in DEATHS:
        return "" if code == -9 else f"It was not killed but ended with {code}."
    if "Traceback" in said or code not in (0, 2):
        return f"It ended with {code}."
    lines = sum(line.startswith("train.py: ") for line in said.splitlines())
    return "" if lines == (code == 2) else f"It ended with {code} and {lines} lines."


def _folder(folder: Path, newest: int) -> str:
    """Return what is damaged: every named file must be valid, no state lost, and no file marked as damaged."""
    alerts: list[str] = []
    try:
        found = StateFolder(folder / "state", 1, alert=alerts.append).latest()
        damaged = [*alerts, *map(str, folder.rglob("*.damaged"))]
        if damaged:
            return f"thought damaged: {damaged}"
        if (found is None and newest >= 0) or (found and found.summary["update"] < newest):
            return f"The state of update {newest} is lost."
        _policies(folder)
    except InputError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _policies(folder: Path) -> dict[str, str]:
    """Return the hash of the weights of each policy."""
    found = {path.name: sha256(pack(unpack(read_listed(path))["weights"])) for path in folder.glob("*.pt")}
    if (model := folder / "final").is_dir():
        verify_model(model)
        found["final"] = sha256((model / WEIGHTS).read_bytes())
    return found


def _newest(root: Path) -> int:
    """Return the update of the newest state, -1 without one."""
    return max((int(path.name.removeprefix("update_")) for path in root.glob("small/state/update_*")), default=-1)
