"""An ONNX agent as a player: the model behind a `Policy`, under the contract that its input's size tells.

A model that this project exported states its contract, and is held to the version and the length of a step in it; of
any other model both are taken to be today's. The mirror of a policy trained with one is part of the exported model.
"""

from __future__ import annotations

from typing import Any, cast

import torch

from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.policy import Policy
from sparring.envs.dogfight.rules import ACTION_REPEAT, ENV_ID, VERSION
from sparring.eval.onnx_export.onnx_actor import OnnxActor
from sparring.eval.onnx_export.onnx_file import MAX_BYTES, MAX_PARAMETERS, OnnxFile


def contract_of(file: OnnxFile) -> dict[str, Any]:
    """The contract under which the model was trained, as far as the file tells."""
    game = {"id": ENV_ID, "version": VERSION, "action_repeat": ACTION_REPEAT, **file.stated}
    seen = {"rules": file.rules, "obs_dim": file.obs_dim, "observe_physics": file.observe_physics}
    return game | seen | {"continuous": 3, "binary": 0, "mirror": False}


def make_policy(file: OnnxFile, contract: dict[str, Any], *, name: str, device: str | torch.device) -> Policy:
    """The player `name` on `device`, its model run on the CPU; raises `OnnxError` where the model cannot play."""
    actor = OnnxActor(file, device=device, threads=torch.get_num_threads())
    return Policy(cast(ActorCritic, actor), contract, name=name, deterministic=True)


def notes_on(file: OnnxFile, name: str, *, deterministic: bool) -> tuple[str, ...]:
    """What has to be said of the model besides its results; `deterministic` is what was asked of all players."""
    notes = []
    if over := _over_the_limit(file):
        notes.append(f"{name} has {over}, so the public challenge would refuse it")
    if not deterministic:
        notes.append(f"{name} is an ONNX agent, whose actions are not sampled")
    return tuple(notes)


def _over_the_limit(file: OnnxFile) -> str:
    """What the public challenge would refuse the model for, empty where it would take it."""
    limits = {"parameters": (file.parameters, MAX_PARAMETERS), "bytes": (file.size, MAX_BYTES)}
    over = [f"{found:,} {what} (at most {most:,})" for what, (found, most) in limits.items() if found > most]
    return " and ".join(over) if file.rules == "challenge" else ""
