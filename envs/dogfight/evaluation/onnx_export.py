"""Export of a dogfight policy's deterministic actor to ONNX.

The model maps `observation` float32 [N, D] to `action` float32 [N, 3]. D is from the checkpoint's contract: 59, 46, or
224 under challenge rules (four frames of 56, newest first, zeros for missing frames). N is free, or 1 for the public
challenge. An action is turn clamped to [-1, 1], throttle to [0, 1], and shoot, 1 if the policy fires (p > 1/2), else 0.
The mirror of a policy is included; the critic is not.

The model is stateless. A policy with memory also has an input `memory` float32 [N, S] and an output `next_memory`. Pass
zeros at the first decision of a match, then the output of this seat's last decision. S are the columns of the actor's
state.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.agents.opponents.onnx_file import export_package, parameter_count
from sparring.agents.policies.checkpoint import Checkpoint
from sparring.agents.policies.networks import PolicyNetwork
from sparring.agents.policies.policy import Policy
from sparring.agents.policies.role_trunks import Trunk
from sparring.envs.dogfight.batch import Mirror
from sparring.envs.dogfight.rules import ENV_ID
from sparring.envs.dogfight.training.opponents import load
from sparring.eval.onnx_export.onnx_model import (
    DECISIONS,
    TOLERANCE,
    ExportError,
    ModelGraph,
    run_recurrent,
    write_model,
)

ACTIONS = 3
STEERING = 2
"""Number of steering outputs: turn and throttle. The third (Bernoulli logit or Gaussian mean) fires above 0."""
ACTION_LOW = (-1.0, 0.0)
ACTION_HIGH = (1.0, 1.0)


def export(checkpoint: Checkpoint, path: Path, *, free: bool = False) -> float:
    """Write the policy to `path` atomically if it agrees with torch; return the largest difference.

    The model takes one observation, or with `free` any number of them. Raises `ExportError` for a policy that is too
    large, of another environment or different from torch, and if a package is missing.
    """
    if checkpoint.contract["id"] != ENV_ID:
        old = checkpoint.contract["id"]
        raise ExportError(f"{checkpoint.path}: was trained in {old}; only policies of {ENV_ID} can be exported")
    data = build(checkpoint.network, checkpoint.contract, free=free)
    count = parameter_count(export_package("onnx").load_model_from_string(data))
    if count > load.MAX_PARAMETERS:
        raise ExportError(
            f"{checkpoint.path}: the model has {count:,} parameters, at most {load.MAX_PARAMETERS:,} are allowed; "
            "train a narrower one (network.hidden, network.blocks)"
        )
    if len(data) > load.MAX_BYTES:
        raise ExportError(
            f"{checkpoint.path}: the model has {len(data):,} bytes, at most {load.MAX_BYTES:,} are allowed"
        )
    difference = disagreement(checkpoint, data)
    write_model(checkpoint, path, data, difference)
    return difference


def build(network: PolicyNetwork, contract: Mapping[str, Any], *, free: bool = False) -> bytes:
    """Return the deterministic policy as a serialized, checked ONNX model with its contract as metadata.

    It takes one observation, or with `free` any number of them.
    """
    batch = "N" if free else 1
    graph = ModelGraph()
    mirror = Mirror(contract["rules"], network.obs_dim) if contract["mirror"] else None
    observation = _add_mirror(graph, mirror) if mirror else "observation"
    inputs, outputs = {"observation": network.obs_dim}, {"action": ACTIONS}
    if network.memory_size:
        inputs["memory"] = outputs["next_memory"] = network.memory_size // 2
        (trunk,) = network.actor
        assert isinstance(trunk, Trunk)
        state = graph.cell(trunk.memory, graph.layer(trunk.body, observation), "memory")
        graph.add("Identity", state, outputs=["next_memory"])
        output = graph.layer(trunk.head, graph.columns(state, 0, network.config.hidden))
    else:
        output = graph.layer(network.actor, observation)
    _add_action(graph, output, mirrored=mirror is not None)
    return graph.model(inputs, outputs, contract, batch=batch)


def disagreement(checkpoint: Checkpoint, data: bytes, *, observations: int = 256, seed: int = 0) -> float:
    """Return the largest absolute difference between the model `data` and torch, over random observations.

    Infinite if the two differ in shooting and torch's logit is not within rounding of zero.
    """
    generator = torch.Generator().manual_seed(seed)
    columns = getattr(checkpoint.network, "memory_size", 0)
    memory, largest = torch.zeros(observations, columns), 0.0
    states = {size: memory[:, : columns // 2].numpy() for size in (1, observations)}
    for _ in range(DECISIONS if columns else 1):
        obs = torch.randn(observations, checkpoint.network.obs_dim, generator=generator)
        expected, logit, memory = _torch_actions(checkpoint, obs, memory)
        for size, state in states.items():
            actual, states[size] = run_recurrent(data, obs.numpy(), state, size=size)
            fires = (actual[:, STEERING:] != expected[:, STEERING:]) & (np.abs(logit) > TOLERANCE)
            steering = np.abs(actual - expected)[:, :STEERING].max()
            drift = np.abs(states[size] - memory[:, : columns // 2].numpy()).max(initial=0.0)
            worst = float(np.max([largest, steering, drift]))  # NaN stays NaN
            largest = float("inf") if fires.any() else worst
    return largest


def run_model(data: bytes, observations: np.ndarray, *, size: int = 1) -> np.ndarray:
    """Return actions float32 [B, 3] of the model `data` for observations float32 [B, D], run `size` at once.

    A model of batch 1 takes them one by one.
    """
    return run_recurrent(data, observations, np.zeros((len(observations), 0), np.float32), size=size)[0]


def _add_mirror(graph: ModelGraph, mirror: Mirror) -> str:
    """Add `Mirror.show`: the observation with the opponent on the right; defines "swapped" [1, 1]."""
    take = lambda columns: graph.add("Gather", "observation", graph.constant(columns), axis=1)  # noqa: E731
    zero = graph.constant([0.0])
    swapped = graph.add("Less", take(torch.tensor([mirror.opponent_x])), zero, outputs=["swapped"])
    bearing = take(mirror.bearing)
    ahead = graph.add("And", graph.add("Equal", bearing, zero), graph.add("Greater", take(mirror.bullet_x), zero))
    turned = graph.add("Add", graph.add("Sign", bearing), graph.add("Cast", ahead, to=graph.onnx.TensorProto.FLOAT))
    places = torch.nn.functional.one_hot(mirror.bearing, len(mirror.sign)).float()
    negated = graph.add("Mul", "observation", graph.constant(mirror.sign))
    image = graph.add("Add", negated, graph.add("MatMul", turned, graph.constant(places)))
    return graph.add("Where", swapped, image, "observation")


def _add_action(graph: ModelGraph, output: str, *, mirrored: bool) -> None:
    """Add the conversion of the actor's outputs to a legal action: steering clamped and unmirrored, shoot 0 or 1."""
    sizes = graph.constant([STEERING, ACTIONS - STEERING])
    graph.add("Split", output, sizes, outputs=["means", "logits"], axis=1)
    raised = graph.add("Max", "means", graph.constant(ACTION_LOW))
    steering = graph.add("Min", raised, graph.constant(ACTION_HIGH))
    if mirrored:
        back = graph.add("Where", "swapped", graph.constant([-1.0, 1.0]), graph.constant([1.0, 1.0]))
        steering = graph.add("Mul", steering, back)
    fires = graph.add("Greater", "logits", graph.constant([0.0]))
    shoot = graph.add("Cast", fires, to=graph.onnx.TensorProto.FLOAT)
    graph.add("Concat", steering, shoot, outputs=["action"], axis=1)


@torch.no_grad()
def _torch_actions(checkpoint: Checkpoint, obs: Tensor, memory: Tensor) -> tuple[np.ndarray, np.ndarray, Tensor]:
    """Return torch's actions, clamped as in the environment, the shoot logits, and the memory."""
    network = checkpoint.network.cpu().eval()
    actions, after = Policy(network, checkpoint.contract).step(obs, memory)
    steering = actions[:, :STEERING]
    actions[:, STEERING:] = (actions[:, STEERING:] > 0.0).float()
    steering.copy_(torch.maximum(torch.minimum(steering, torch.tensor(ACTION_HIGH)), torch.tensor(ACTION_LOW)))
    mirror = Mirror(checkpoint.contract["rules"], network.obs_dim) if checkpoint.contract["mirror"] else None
    observed = mirror.show(obs)[0] if mirror else obs
    if network.memory_size:
        output = network.actor.heads(after[:, : network.config.hidden], None)
    else:
        output = network.actor(observed)
    return actions.numpy(), output[:, STEERING:].numpy(), after
