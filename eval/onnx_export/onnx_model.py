"""Export of a network to ONNX, built layer by layer, one operator each; what exports of all games share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sparring.agents.opponents.onnx_file import CONTRACT, export_package
from sparring.agents.policies.actor_critic import Residual
from sparring.agents.policies.checkpoint import Checkpoint
from sparring.agents.policies.encoders import ImpalaBlock
from sparring.agents.policies.memory import LSTM, Memory
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import write_atomically

TOLERANCE = 1e-5
OPSET = 17
"""First opset with LayerNormalization."""
IR_VERSION = 8
DECISIONS = 4
"""Decisions in a row whose memory is compared with torch's."""


class ExportError(InputError):
    """Raised for a policy that cannot be exported; the message is one line with reason and remedy."""


def write_model(checkpoint: Checkpoint, path: Path, data: bytes, difference: float) -> None:
    """Write a model if its `difference` from torch is at most `TOLERANCE`; raises `ExportError`."""
    if not difference <= TOLERANCE:
        raise ExportError(f"{checkpoint.path}: the exported model differs from torch by {difference:.2g}; not written")
    try:
        write_atomically(path, data)
    except OSError as error:
        raise ExportError(f"{path}: cannot be written ({error.strerror}); give another --out") from error


def run_recurrent(
    data: bytes, obs: np.ndarray, memory: np.ndarray, *, size: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return actions [B, A] and memory [B, S] of the model `data` after rows [B, D] and memory [B, S]; S may be 0.

    It runs `size` rows at once, by default all; a model of batch 1 takes them one by one.
    """
    runtime = export_package("onnxruntime")
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
        self.onnx: Any = export_package("onnx")
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
        driven, recurrent = (
            self.add("Gemm", of, self.constant(weight), self.constant(bias), transB=1)
            for of, weight, bias in ((x, memory.weight_ih, memory.bias_ih), (h, memory.weight_hh, memory.bias_hh))
        )
        parts = lambda gates, count: [  # noqa: E731
            self.columns(gates, part * memory.hidden, (part + 1) * memory.hidden) for part in range(count)
        ]
        if memory.kind == LSTM:
            i, f, g, o = parts(self.add("Add", driven, recurrent), 4)
            i, f, o = (self.add("Sigmoid", gate) for gate in (i, f, o))
            retained = self.add("Mul", f, self.columns(state, memory.hidden, 2 * memory.hidden))
            c = self.add("Add", retained, self.add("Mul", i, self.add("Tanh", g)))
            return self.add("Concat", self.add("Mul", o, self.add("Tanh", c)), c, axis=1)
        (r_x, z_x, n_x), (r_h, z_h, n_h) = (parts(gates, 3) for gates in (driven, recurrent))
        r, z = (self.add("Sigmoid", self.add("Add", *pair)) for pair in ((r_x, r_h), (z_x, z_h)))
        n = self.add("Tanh", self.add("Add", n_x, self.add("Mul", r, n_h)))
        return self.add("Add", n, self.add("Mul", z, self.add("Sub", h, n)))

    def columns(self, x: str, start: int, stop: int) -> str:
        """Add the slice of columns from `start` to before `stop`."""
        return self.add("Slice", x, *(self.constant([bound]) for bound in (start, stop, 1)))

    def model(
        self, inputs: Mapping[str, int], outputs: Mapping[str, int], contract: Mapping[str, Any], *, batch: int | str
    ) -> bytes:
        """Return the serialized, checked model; inputs and outputs are float32 [batch, columns] by name."""
        helper, kind = self.onnx.helper, self.onnx.TensorProto.FLOAT
        tensors, returned = (
            [helper.make_tensor_value_info(name, kind, [batch, columns]) for name, columns in values.items()]
            for values in (inputs, outputs)
        )
        model = helper.make_model(
            helper.make_graph(self.nodes, "policy", tensors, returned, self.weights),
            producer_name="sparring",
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )
        helper.set_model_props(model, {CONTRACT: json.dumps(dict(contract), sort_keys=True)})
        self.onnx.checker.check_model(model, full_check=True)
        return model.SerializeToString(deterministic=True)
