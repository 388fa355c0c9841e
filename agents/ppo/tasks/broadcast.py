"""The dogfight in several processes: process 0 assigns all opponents, and states are split and joined by matches.

Only process 0 has the league with its pool. Its calls to the environment are broadcast to the other processes, with
the weights, so that no other process needs the run's folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.agents.distributed.processes import Processes
from sparring.agents.distributed.shards import Shard
from sparring.agents.play.learner_env import LearnerEnv, PlayState
from sparring.configs.core.tensor_checks import AnyTensor
from sparring.configs.core.typed import ContentError, read, require

PER_MATCH = ("obs", "bots", "match_id", "invalid_actions")
"""Tensors in a batch's `state_dict` with a row per match; its `arrays`, flat and in bytes, have one too."""


class BroadcastEnv:
    """Wrapper of the environment of process 0 that repeats the league's calls in all `processes`."""

    def __init__(self, env: LearnerEnv, processes: Processes) -> None:
        self._env, self._processes = env, processes
        self.bots, self.slots, self.device = env.bots, env.slots, env.device

    @property
    def opponents(self) -> np.ndarray:
        """Opponents of all matches of the run."""
        return self._env.opponents

    def assign(self, opponents: np.ndarray) -> None:
        """Call `LearnerEnv.assign` in all processes, which ends `follow` in the others."""
        self._processes.broadcast((None, opponents))
        self._env.assign(opponents)

    def load_slot(self, slot: int, weights: dict[str, Tensor]) -> None:
        """Call `LearnerEnv.load_slot` in all processes."""
        self._processes.broadcast((slot, {name: tensor.cpu() for name, tensor in weights.items()}))
        self._env.load_slot(slot, weights)


def follow(env: LearnerEnv, processes: Processes) -> None:
    """In every other process: repeat the calls of process 0 on `env`, until all opponents are assigned."""
    while True:
        told: tuple[int | None, Any] = processes.broadcast((None, None))
        slot, what = told
        if slot is None:
            env.assign(what)
            return
        env.load_slot(slot, what)


def join(state: Mapping[str, Any], processes: Processes) -> dict[str, Any]:
    """Join the `LearnerEnv.state_dict` of each process into one of all matches."""
    batch = dict(state["batch"])
    batch["arrays"] = {name: processes.gather(rows) for name, rows in batch["arrays"].items()}
    batch |= {name: processes.gather(batch[name]) for name in PER_MATCH}
    quarantined = processes.add_up(state["quarantined"].clone())
    return {**state, "batch": batch, "return": processes.gather(state["return"]), "quarantined": quarantined}


def cut(state: Mapping[str, Any], share: Shard) -> dict[str, Any]:
    """Return the part of a `LearnerEnv.state_dict` of all matches that belongs to `share`."""
    found = read(PlayState, state)
    if share.whole:
        return dict(found)
    batch = dict(found["batch"])
    arrays = read(dict[str, AnyTensor], batch.get("arrays"), "batch.arrays")
    batch["arrays"] = {name: _rows(rows, share, f"batch.arrays.{name}") for name, rows in arrays.items()}
    batch |= {name: _rows(batch.get(name), share, f"batch.{name}") for name in PER_MATCH}
    once = found["quarantined"] if share.first == 0 else torch.zeros_like(found["quarantined"])
    return {**found, "batch": batch, "return": _rows(found["return"], share, "return"), "quarantined": once}


def _rows(joint: Any, share: Shard, place: str) -> Tensor:
    if not isinstance(joint, Tensor) or not joint.dim():
        raise ContentError(f"{place}: must be a tensor with a row for every match")
    width = len(joint) // share.total
    require(width * share.total == len(joint), f"{place}: {len(joint)} rows are not equally many for all matches")
    return joint[share.first * width : (share.first + share.count) * width]
