"""Export of a policy of air combat, of Gymnasium or of another package's game to ONNX: legal, greedy, with memory.

The model maps `observation` float32 [N, D] to `action` float32 [N, A]. A row of the observation holds features, mask
and role (`agents/policies/seat_network.py`). An action has the means of continuous actions, which the game clips, 1 or
0 for a switch, and the index of each choice's likeliest legal alternative. A policy with memory also takes `memory`
float32 [N, S] and returns `next_memory`. Pass zeros at the first decision of an episode, then the output of this seat's
last decision. S are the columns of the actor's state; the critic is not included. With several roles, all networks are
computed and the row's role picks one. A row of Gymnasium is the flattened observation; the statistics that normalize it
are part of the model. Its means are in [-1, 1] where the contract in the metadata says `scale_actions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sparring.agents.policies.checkpoint import Checkpoint
from sparring.agents.policies.encoders import PictureEncoder
from sparring.agents.policies.memory import Sequences
from sparring.agents.policies.networks import PolicyNetwork
from sparring.agents.policies.role_trunks import Trunk
from sparring.envs.spaces import EPSILON, REACH, Normalizer
from sparring.eval.onnx_export.onnx_model import DECISIONS, ModelGraph, run_recurrent, write_model

END = 2**31 - 1
"""End of a slice up to the last column."""


def export_seats(checkpoint: Checkpoint, path: Path, *, free: bool = True) -> float:
    """Write the policy to `path` atomically if it agrees with torch; return the largest difference.

    The model takes one observation, or with `free` any number of them. Raises `ExportError` for a policy that differs
    from torch, and `InputError` if a package is missing.
    """
    network = checkpoint.network.cpu().eval()
    data = build_seats(network, checkpoint, free=free)
    difference = seat_disagreement(network, data, normalizer_of(checkpoint))
    write_model(checkpoint, path, data, difference)
    return difference


def normalizer_of(checkpoint: Checkpoint) -> Normalizer:
    """Return the statistics that normalize a policy's observations; they change nothing where there are none."""
    stored = checkpoint.contract.get("normalizer", {"count": 0.0})
    normalizer = Normalizer((checkpoint.network.obs_dim,), enabled=stored["count"] > 0)
    if normalizer.enabled:
        normalizer.load_state_dict(stored)
    return normalizer


def build_seats(network: PolicyNetwork, checkpoint: Checkpoint, *, free: bool) -> bytes:
    """Return the greedy policy as a serialized, checked ONNX model with its contract as metadata."""
    graph = ModelGraph()
    normalized = _add_normalized(graph, normalizer_of(checkpoint))
    if not network.routed:
        _add_greedy(graph, network, graph.layer(network.actor, normalized))
        sizes = {"observation": network.obs_dim}, {"action": network.action_size}
        return graph.model(*sizes, checkpoint.contract, batch="N" if free else 1)
    features = graph.columns(normalized, 0, network.features)
    inputs, outputs = {"observation": network.obs_dim}, {"action": network.action_size}
    if network.memory_size:
        inputs["memory"] = outputs["next_memory"] = network.memory_size // 2
        state = _by_role(
            graph, network, lambda trunk: graph.cell(trunk.memory, _add_rows(graph, trunk, features), "memory")
        )
        graph.add("Identity", state, outputs=["next_memory"])
        hidden = graph.columns(state, 0, network.config.hidden)
        output = _by_role(graph, network, lambda trunk: graph.layer(trunk.head, hidden))
    else:
        output = _by_role(graph, network, lambda trunk: graph.layer(trunk.head, _add_rows(graph, trunk, features)))
    _add_greedy(graph, network, output)
    return graph.model(inputs, outputs, checkpoint.contract, batch="N" if free else 1)


@torch.no_grad()
def seat_disagreement(
    network: PolicyNetwork, data: bytes, normalizer: Normalizer | None = None, *, lanes: int = 64, seed: int = 0
) -> float:
    """Return the largest difference between the model and torch over a few decisions of `lanes` seats.

    For a choice, it is how much likelier torch's own choice is, because two alternatives may differ only by rounding.
    It is infinite for an illegal one.
    """
    generator = torch.Generator().manual_seed(seed)
    memory, half = torch.zeros(lanes, network.memory_size), network.memory_size // 2
    state, largest = memory[:, :half].numpy(), 0.0
    for _ in range(DECISIONS if network.memory_size else 1):
        rows = random_rows(network, lanes, generator)
        if normalizer is not None and normalizer.enabled:
            spread, mean = (
                torch.from_numpy(values) for values in (4.0 * np.sqrt(normalizer.variance), normalizer.mean)
            )
            rows = (rows.double() * spread + mean).float()
        actions, state = run_recurrent(data, rows.numpy(), state)
        obs = rows if normalizer is None else torch.from_numpy(normalizer.apply(rows.double().numpy())).float()
        decision: Tensor | Sequences = obs
        if network.memory_size:
            begins = torch.zeros(1, lanes, dtype=torch.bool)
            decision = Sequences(obs.unsqueeze(0), memory, begins, torch.arange(lanes))
        likelihood, _ = network.evaluate(decision, torch.from_numpy(actions))
        expected, best, memory = network.step(obs, memory, deterministic=True)
        means = np.abs(actions - expected.numpy())[:, : network.continuous]
        parts = (means, np.abs(state - memory[:, :half].numpy()), (best - likelihood).abs().numpy())
        largest = float(np.max([largest, *(part.max(initial=0.0) for part in parts)]))  # NaN stays NaN
    return largest


def random_rows(network: PolicyNetwork, count: int, generator: torch.Generator) -> Tensor:
    """Return random rows [count, D] of a network; every choice has a legal alternative, every role a row."""
    obs = torch.rand(count, network.obs_dim, generator=generator)
    if not network.routed:
        return obs * 2.0 - 1.0
    start = network.features
    for number in network.categorical if network.masked else ():
        legal = obs[:, start : start + number].round_()
        legal.scatter_(1, torch.randint(number, (count, 1), generator=generator), 1.0)
        start += number
    if network.roles > 1:
        obs[:, -1] = torch.arange(count) % network.roles
    return obs


def _add_normalized(graph: ModelGraph, normalizer: Normalizer) -> str:
    """Add `Normalizer.apply`, in float64 as there."""
    if not normalizer.enabled:
        return "observation"
    types = graph.onnx.TensorProto
    mean, spread, low, high = (
        graph.constant(torch.as_tensor(values, dtype=torch.float64))
        for values in (normalizer.mean, np.sqrt(normalizer.variance + EPSILON), -REACH, REACH)
    )
    exact = graph.add("Cast", "observation", to=types.DOUBLE)
    units = graph.add("Div", graph.add("Sub", exact, mean), spread)
    return graph.add("Cast", graph.add("Clip", units, low, high), to=types.FLOAT)


def _by_role(graph: ModelGraph, network: PolicyNetwork, add: Callable[[Trunk], str]) -> str:
    """Add every role's trunk and return the output of the row's own."""
    outputs = [add(trunk) for trunk in network.actor if isinstance(trunk, Trunk)]
    chosen = outputs[0]
    if len(outputs) > 1:
        role = graph.columns("observation", network.obs_dim - 1, network.obs_dim)
    for number, output in enumerate(outputs[1:], start=1):
        is_role = graph.add("Equal", role, graph.constant([float(number)]))
        chosen = graph.add("Where", is_role, output, chosen)
    return chosen


def _add_rows(graph: ModelGraph, trunk: Trunk, features: str) -> str:
    """Add `Trunk.rows`."""
    encoder = getattr(trunk, "encoder", None)
    return graph.layer(trunk.body, features if encoder is None else _add_picture(graph, encoder, features))


def _add_picture(graph: ModelGraph, encoder: PictureEncoder, features: str) -> str:
    """Add `PictureEncoder.forward`."""
    picture = encoder.picture
    size = [picture.height, picture.width]
    size = [picture.channels, *size] if picture.channels_first else [*size, picture.channels]
    pixels = graph.add("Reshape", graph.columns(features, picture.start, picture.stop), graph.constant([-1, *size]))
    if not picture.channels_first:
        pixels = graph.add("Transpose", pixels, perm=[0, 3, 1, 2])
    encoded = graph.add("Flatten", graph.layer(encoder.layers, pixels), axis=1)
    before = graph.columns(features, 0, picture.start)
    return graph.add("Concat", encoded, before, graph.columns(features, picture.stop, END), axis=1)


def _add_greedy(graph: ModelGraph, network: PolicyNetwork, output: str) -> None:
    """Add the greedy, legal actions of the actor's outputs."""
    number, columns = graph.onnx.TensorProto.FLOAT, []
    offset = network.continuous + network.binary
    if network.continuous:
        columns.append(graph.columns(output, 0, network.continuous))
    if network.binary:
        logits = graph.columns(output, network.continuous, offset)
        columns.append(graph.add("Cast", graph.add("Greater", logits, graph.constant([0.0])), to=number))
    mask = network.features - offset
    for count in network.categorical:
        logits = graph.columns(output, offset, offset + count)
        if network.masked:
            legal = graph.columns("observation", mask + offset, mask + offset + count)
            illegal = graph.add("Less", legal, graph.constant([0.5]))
            logits = graph.add("Where", illegal, graph.constant([-math.inf]), logits)
        columns.append(graph.add("Cast", graph.add("ArgMax", logits, axis=1, keepdims=1), to=number))
        offset += count
    graph.add("Concat", *columns, outputs=["action"], axis=1)
