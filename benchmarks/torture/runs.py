"""The smallest runs of five trainers that pass through everything a real one does, and the comparison of two of them.

Equal means to the bit: weights, optimizer, generators, counters, metrics. Only clocks, and the length of the logs that
holds their digits, may differ. The commands that read a run are here as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sparring.configs.core.tensor_file import pack, sha256

LOCAL = ("device=cpu", "threads=1", "logger.progress=false")
COMMON = (*LOCAL, "checkpoint_every=1", "evaluation.every=0")
FOLDERS = ("training",)
"""Parts of a policy's file that depend on its folder; their numbers are in the training state as well."""
CLOCKS = ("time/", "_time_s", "_overlap_s", "_total_s", "_reload_s")
"""Parts of the names of metrics that a clock makes."""
OPTIONS = {
    # Steps of a second, so that matches end; a curriculum, an event, snapshots, ratings, widening physics.
    "self_play": "+run=unified_dr_cpu scale=0.005 env.num_envs=16 env.action_repeat=120 network.hidden=16 "
    "ppo.rollout_steps=48 ppo.minibatch_size=128 ppo.epochs=2 ppo.precision=fp32 self_play.pool_size=4 "
    "self_play.snapshot_every=1 self_play.slots=3 self_play.deal_every=1 keep_states=2",
    "diplomacy": "+run=diplomacy_ppo env.num_envs=7 env.last_year=1902 network.hidden=8 network.blocks=1 "
    "ppo.rollout_steps=2 ppo.minibatch_size=14 ppo.precision=fp32 phases.0.updates=12 "
    "phases.0.stages=[{at:0,bots:[random]},{at:6,bots:[random,chaos]}] keep_states=2",
    # Games are played in the trainer's process: a process of workers would import everything after every kill.
    "grpo": "+run=diplomacy_exp1_quick grpo.buffer_depth=0 grpo.groups=2 grpo.samples_per_group=2 grpo.steps=10 "
    "grpo.rollout_horizon_years=1 grpo.rollout_long_horizon_years=1 grpo.rollout_warmup_phases=1 "
    "grpo.minibatch_samples=8 env.last_year=1902 league.checkpoint_schedule=even league.checkpoint_every=2 "
    "league.cold_start_steps=1 keep_states=2",
    "clone": "+run=diplomacy_clone env.last_year=1902 clone.hidden=16 clone.layers=1 clone.heads=2 "
    "clone.games_per_update=2 clone.updates=16 clone.batch_tokens=4096 keep_states=2",
    "chess": "+run=rookworld_sft env.data.train=40 env.data.validation=5 env.data.held_out=5 clone.hidden=16 "
    "clone.layers=1 clone.heads=2 clone.games_per_update=8 clone.updates=16 evaluation.games=5 keep_states=2",
}
UPDATES = {"self_play": 40, "diplomacy": 12, "grpo": 10, "clone": 16, "chess": 16}


@dataclass(frozen=True)
class TinyRun:
    """A run by its options; `updates` is its length."""

    name: str
    updates: int
    words: tuple[str, ...]

    def command(self, folder: Path, *more: str) -> list[str]:
        """Return the command that begins it in `folder`, or continues it there."""
        return ["train.py", *self.words, f"name={self.name}", *COMMON, f"checkpoint_dir={folder}", *more]


RUNS = {name: TinyRun(name, UPDATES[name], tuple(options.split())) for name, options in OPTIONS.items()}


def resume(folder: Path, *more: str) -> list[str]:
    """Return the command that continues the run in `folder`."""
    return ["train.py", f"resume={folder.name}", f"checkpoint_dir={folder.parent}", *more]


def match(policy: Path | str, out: Path, *more: str, opponent: Path | str = "ace") -> list[str]:
    """Return the command that plays two games of a dogfight policy."""
    few = ["--games", "2", "--threads", "1", "--device", "cpu", "--out", str(out)]
    return ["eval/run.py", "--ckpt", str(policy), "--opponents", str(opponent), *few, *more]


def diplomacy(player: Path | str, out: Path, *more: str) -> list[str]:
    """Return the command that plays seven short games of Diplomacy against random players."""
    game = ["--env", "diplomacy", "--ckpt", str(player), "--opponents", "random", "--games", "7"]
    return ["eval/run.py", *game, "--last-year", "1901", "--out", str(out), *more]


def newest_state(folder: Path) -> Path:
    """Return the folder of a run's newest training state. Raises `ValueError` if there is none."""
    return max(path for path in (folder / "state").glob("update_*") if path.name[7:].isdigit())


def updates_done(folder: Path) -> int:
    """Return the update of the newest training state, -1 before the first."""
    try:
        return int(newest_state(folder).name[7:])
    except ValueError:
        return -1


def differences(whole: Path, other: Path) -> list[str]:
    """Return what differs between the run folders of two runs that should have ended alike."""
    one, two = (dict(_content(folder)) for folder in (whole, other))
    unequal = [name for name in one | two if one.get(name) != two.get(name)]
    wrong = [f"{name} differs" if name in one and name in two else f"{name} is in one only" for name in unequal]
    return [*wrong, *(f"{path.relative_to(other)} is left over" for path in other.rglob(".*"))]


def _content(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what a run has learned and written, as digests by name."""
    state = newest_state(folder)
    for key, value in load(state / "state.pt").items():
        if key not in ("logger", "seconds"):  # positions in the logs, which hold the digits of clocks, and a clock
            yield f"{state.name}/{key}", _digest(value)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    timeless = [{key: value for key, value in row.items() if not any(clock in key for clock in CLOCKS)} for row in rows]
    yield "metrics.jsonl", _digest(timeless)
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.startswith("state/") or not path.is_file():
            continue
        if path.suffix == ".pt":
            yield name, _digest({key: value for key, value in load(path).items() if key not in FOLDERS})
        elif path.suffix == ".safetensors" or path.name in ("league.json", "index.json"):
            yield name, sha256(path.read_bytes())


def load(path: Path) -> Any:
    """Return the tensors and plain data in a file that a run has written."""
    return torch.load(path, map_location="cpu", weights_only=True)


def _digest(value: Any) -> str:
    """Return the SHA-256 of nested data, its tensors bit for bit."""
    return sha256(pack({"value": value}))
