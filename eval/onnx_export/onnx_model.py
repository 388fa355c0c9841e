"""Export of a policy's deterministic actor to ONNX, built layer by layer, one operator each.

The model maps `observation` float32 [N, D], D from the checkpoint's contract (59, 46, or under challenge rules 224:
four frames of 56, newest first, zeros for missing frames), to `action` float32 [N, 3]. N is free,
or 1 as the public challenge asks. An action is turn clamped to [-1, 1], throttle to [0, 1], and shoot, 1 if the policy
fires (p > 1/2) and 0 otherwise. The mirror of a policy trained with one is included, the critic is not.

It is stateless, but a policy with memory also takes `memory` float32 [N, S] and returns `next_memory`: zeros at the
first decision of a match, then what the last decision of this seat returned. S are the columns of the actor's state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sparring.agents.opponents.dogfight import onnx_file
from sparring.agents.policies.actor_critic import Residual
from sparring.agents.policies.checkpoint import Checkpoint
from sparring.agents.policies.encoders import ImpalaBlock
from sparring.agents.policies.memory import LSTM, Memory
from sparring.agents.policies.networks import PolicyNetwork
from sparring.agents.policies.policy import Policy
from sparring.agents.policies.role_trunks import Trunk
from sparring.agents.policies.seat_network import SeatNetwork
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import write_atomically
from sparring.envs.dogfight.mirror import Mirror
from sparring.envs.dogfight.rules import ENV_ID

TOLERANCE = 1e-5
OPSET = 17
"""First opset with LayerNormalization."""
IR_VERSION = 8

DECISIONS = 4
"""Decisions in a row whose memory is compared with torch's."""
ACTIONS = 3
STEERING = 2
"""Number of steering outputs: turn and throttle. The third (Bernoulli logit or Gaussian mean) fires above 0."""
ACTION_LOW = (-1.0, 0.0)
ACTION_HIGH = (1.0, 1.0)


class ExportError(InputError):
    """Raised for a policy that cannot be exported; the message is one line with reason and remedy."""


def export(checkpoint: Checkpoint, path: Path, *, free: bool = False) -> float:
    """Write the policy to `path` atomically if it agrees with torch; return the largest difference.

    The model takes one observation, or with `free` any number of them. Raises `ExportError` for a policy that is too
    large, of another environment or different from torch, and if a package is missing.
    """
    if checkpoint.contract["id"] != ENV_ID:
        old = checkpoint.contract["id"]
        raise ExportError(f"{checkpoint.path}: was trained in {old}, only policies of {ENV_ID} can be exported")
    data = build(checkpoint.network, checkpoint.contract, free=free)
    count = onnx_file.parameter_count(onnx_file.export_package("onnx").load_model_from_string(data))
    if count > onnx_file.MAX_PARAMETERS:
        raise ExportError(
            f"{checkpoint.path}: the model has {count:,} parameters, at most {onnx_file.MAX_PARAMETERS:,} are allowed; "
            "train a narrower one (network.hidden, network.blocks)"
        )
    if len(data) > onnx_file.MAX_BYTES:
        raise ExportError(
            f"{checkpoint.path}: the model has {len(data):,} bytes, at most {onnx_file.MAX_BYTES:,} are allowed"
        )
    difference = disagreement(checkpoint, data)
    write_model(checkpoint, path, data, difference)
    return difference


def write_model(checkpoint: Checkpoint, path: Path, data: bytes, difference: float) -> None:
    """Write a model if its `difference` from torch is at most `TOLERANCE`; raises `ExportError`."""
    if not difference <= TOLERANCE:
        raise ExportError(f"{checkpoint.path}: the exported model differs from torch by {difference:.2g}; not written")
    try:
        write_atomically(path, data)
    except OSError as error:
        raise ExportError(f"{path}: cannot be written ({error.strerror}); give another --out") from error


def build(network: PolicyNetwork, contract: Mapping[str, Any], *, free: bool = False) -> bytes:
    """Return the deterministic policy as a serialized, checked ONNX model with its contract as metadata.

    It takes one observation, or with `free` any number of them.
    """
    batch = "N" if free else 1
    graph = ModelGraph()
    mirror = Mirror(contract["rules"], network.obs_dim) if contract["mirror"] else None
    shown = _add_mirror(graph, mirror) if mirror else "observation"
    inputs, outputs = {"observation": network.obs_dim}, {"action": ACTIONS}
    if isinstance(network, SeatNetwork):  # here all of them are recurrent
        inputs["memory"] = outputs["next_memory"] = network.memory_size // 2
        (trunk,) = network.actor
        assert isinstance(trunk, Trunk)
        state = graph.cell(trunk.memory, graph.layer(trunk.body, shown), "memory")
        graph.add("Identity", state, outputs=["next_memory"])
        output = graph.layer(trunk.head, graph.columns(state, 0, network.config.hidden))
    else:
        output = graph.layer(network.actor, shown)
    _add_action(graph, output, mirrored=mirror is not None)
    return graph.model(inputs, outputs, contract, batch=batch)


def disagreement(checkpoint: Checkpoint, data: bytes, *, observations: int = 256, seed: int = 0) -> float:
    """Return the largest absolute difference between the model `data` and torch, over random observations.

    Infinite if the two differ in shooting and torch's logit is not within rounding of zero.
    """
    generator = torch.Generator().manual_seed(seed)
    columns = getattr(checkpoint.network, "memory_size", 0)
    memory, largest = torch.zeros(observations, columns), 0.0
    given = {size: memory[:, : columns // 2].numpy() for size in (1, observations)}
    for _ in range(DECISIONS if columns else 1):
        obs = torch.randn(observations, checkpoint.network.obs_dim, generator=generator)
        expected, logit, memory = _torch_actions(checkpoint, obs, memory)
        for size, state in given.items():
            actual, given[size] = run_recurrent(data, obs.numpy(), state, size=size)
            fires = (actual[:, STEERING:] != expected[:, STEERING:]) & (np.abs(logit) > TOLERANCE)
            steering = np.abs(actual - expected)[:, :STEERING].max()
            kept = np.abs(given[size] - memory[:, : columns // 2].numpy()).max(initial=0.0)
            worst = float(np.max([largest, steering, kept]))  # NaN stays NaN
            largest = float("inf") if fires.any() else worst
    return largest


def run_model(data: bytes, observations: np.ndarray, *, size: int = 1) -> np.ndarray:
    """Return actions float32 [B, 3] of the model `data` for observations float32 [B, D], run `size` at once.

    A model of batch 1 takes them one by one.
    """
    return run_recurrent(data, observations, np.zeros((len(observations), 0), np.float32), size=size)[0]


def run_recurrent(
    data: bytes, obs: np.ndarray, memory: np.ndarray, *, size: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return actions [B, A] and memory [B, S] of the model `data` after rows [B, D] and memory [B, S]; S may be 0.

    It runs `size` rows at once, by default all; a model of batch 1 takes them one by one.
    """
    runtime = onnx_file.export_package("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    size = 1 if session.get_inputs()[0].shape[0] == 1 else size or len(obs)
    names = [value.name for value in session.get_inputs()]
    actions: list[np.ndarray] = []
    states: list[np.ndarray] = []
    for start in range(0, len(obs), size):
        rows = {"observation": obs[start : start + size], "memory": memory[start : start + size]}
        action, *after = session.run(None, {name: rows[name] for name in names})
        actions.append(action)
        states.extend(after or [rows["memory"]])
    return np.concatenate(actions), np.concatenate(states)


class ModelGraph:
    """Builder of ONNX nodes and weights, layer by layer; values are referred to by name."""

    def __init__(self) -> None:
        self.onnx: Any = onnx_file.export_package("onnx")
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def add(self, operator: str, *inputs: str, outputs: Sequence[str] = (), **attributes: Any) -> str:
        """Add a node and return its first output."""
        names = list(outputs) or [f"{operator.lower()}_{len(self.nodes)}"]
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), names, **attributes))
        return names[0]

    def constant(self, values: Tensor | Sequence[float] | Sequence[int]) -> str:
        """Add numbers, int64 or float32, and return their name."""
        name = f"weight_{len(self.weights)}"
        array = torch.as_tensor(values).detach().cpu().numpy()
        self.weights.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def layer(self, module: nn.Module, x: str) -> str:
        """Add a network layer applied to `x` and return its output. Raises `TypeError` for an unsupported layer."""
        if isinstance(module, nn.Sequential):
            for child in module:
                x = self.layer(child, x)
            return x
        if isinstance(module, nn.Linear):
            return self.add("Gemm", x, self.constant(module.weight), self.constant(module.bias), transB=1)
        if isinstance(module, nn.ReLU):
            return self.add("Relu", x)
        if isinstance(module, nn.Tanh):
            return self.add("Tanh", x)
        if isinstance(module, Residual):
            return self.add("Add", x, self.layer(module.branch, x))
        if isinstance(module, nn.Conv2d):
            assert module.bias is not None
            weights = self.constant(module.weight), self.constant(module.bias)
            return self.add("Conv", x, *weights, strides=list(module.stride), pads=[*module.padding, *module.padding])
        if isinstance(module, nn.MaxPool2d):
            sides, steps = [module.kernel_size] * 2, [module.stride] * 2
            return self.add("MaxPool", x, kernel_shape=sides, strides=steps, pads=[module.padding] * 4)
        if isinstance(module, ImpalaBlock):
            inner = self.layer(module.first, self.add("Relu", x))
            return self.add("Add", x, self.layer(module.second, self.add("Relu", inner)))
        if isinstance(module, nn.LayerNorm):
            scale, bias = self.constant(module.weight), self.constant(module.bias)
            return self.add("LayerNormalization", x, scale, bias, axis=-1, epsilon=module.eps)
        raise TypeError(f"{type(module).__name__} has no ONNX counterpart here")

    def cell(self, memory: Memory, x: str, state: str) -> str:
        """Add `Memory.step`: the state after the input `x` and the state before it."""
        h = self.columns(state, 0, memory.hidden)
        given, recurrent = (
            self.add("Gemm", of, self.constant(weight), self.constant(bias), transB=1)
            for of, weight, bias in ((x, memory.weight_ih, memory.bias_ih), (h, memory.weight_hh, memory.bias_hh))
        )
        parts = lambda gates, count: [  # noqa: E731
            self.columns(gates, part * memory.hidden, (part + 1) * memory.hidden) for part in range(count)
        ]
        if memory.kind == LSTM:
            i, f, g, o = parts(self.add("Add", given, recurrent), 4)
            i, f, o = (self.add("Sigmoid", gate) for gate in (i, f, o))
            kept = self.add("Mul", f, self.columns(state, memory.hidden, 2 * memory.hidden))
            c = self.add("Add", kept, self.add("Mul", i, self.add("Tanh", g)))
            return self.add("Concat", self.add("Mul", o, self.add("Tanh", c)), c, axis=1)
        (r_x, z_x, n_x), (r_h, z_h, n_h) = (parts(gates, 3) for gates in (given, recurrent))
        r, z = (self.add("Sigmoid", self.add("Add", *pair)) for pair in ((r_x, r_h), (z_x, z_h)))
        n = self.add("Tanh", self.add("Add", n_x, self.add("Mul", r, n_h)))
        return self.add("Add", n, self.add("Mul", z, self.add("Sub", h, n)))

    def columns(self, x: str, start: int, stop: int) -> str:
        """Add the slice of columns from `start` to before `stop`."""
        return self.add("Slice", x, *(self.constant([one]) for one in (start, stop, 1)))

    def model(
        self, inputs: Mapping[str, int], outputs: Mapping[str, int], contract: Mapping[str, Any], *, batch: int | str
    ) -> bytes:
        """Return the serialized, checked model; inputs and outputs are float32 [batch, columns] by name."""
        helper, kind = self.onnx.helper, self.onnx.TensorProto.FLOAT
        given, returned = (
            [helper.make_tensor_value_info(name, kind, [batch, columns]) for name, columns in values.items()]
            for values in (inputs, outputs)
        )
        model = helper.make_model(
            helper.make_graph(self.nodes, "policy", given, returned, self.weights),
            producer_name="sparring",
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )
        helper.set_model_props(model, {onnx_file.CONTRACT: json.dumps(dict(contract), sort_keys=True)})
        self.onnx.checker.check_model(model, full_check=True)
        return model.SerializeToString(deterministic=True)


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
    shown = mirror.show(obs)[0] if mirror else obs
    if isinstance(network, SeatNetwork):
        output = network.actor.heads(after[:, : network.config.hidden], None)
    else:
        output = network.actor(shown)
    return actions.numpy(), output[:, STEERING:].numpy(), after
