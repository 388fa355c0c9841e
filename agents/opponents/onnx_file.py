"""Reading and validation of an ONNX agent's file, before any of it is run.

An agent is a stateless model with one input, float32 [1, D] or [N, D], and one output, float32 [1, 3] or [N, 3]: turn
in [-1, 1], throttle in [0, 1], and shoot, which fires above 0. D gives the observation: 224 floats of the challenge
(four frames of 56, newest first, zeros for missing frames), or 59 or 46 of the classic rules. Only standard ONNX
operators are accepted, and every weight must be inside the file, so a model can neither run custom code nor make the
runtime open another file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparring.agents.opponents.onnx_package import CONTRACT, export_package, parameter_count, stored_tensors
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import MOST_ONNX, read_regular
from sparring.envs.dogfight.batch import observation_size
from sparring.envs.dogfight.rules import RULES

MAX_PARAMETERS = 250_000
MAX_BYTES = 10_000_000
"""File size limit of the public challenge."""

_DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
"""Domains of the standard ONNX operators."""
_STATED = ("id", "version", "action_repeat")
"""Contract entries in the metadata that do not follow from the input size."""

SIZES = {observation_size(rules, physics): (rules, physics) for rules in reversed(RULES) for physics in (False, True)}
"""(rules, physics parameters observed) by D: 224, 46 and 59."""
WANTED = "one input float32 [1, D], D being 224 (challenge), 59 or 46 (classic), and one output float32 [1, 3]"


class OnnxError(InputError):
    """Raised for a model that cannot play; the message is one line with the file, actual and expected values."""


@dataclass(frozen=True)
class OnnxFile:
    """Model with a validated interface; `model` is an onnx `ModelProto`."""

    path: Path
    model: Any
    obs_dim: int
    parameters: int
    size: int
    """File size in bytes."""

    @property
    def rules(self) -> str:
        """Rule set of the model's observations."""
        return SIZES[self.obs_dim][0]

    @property
    def observe_physics(self) -> bool:
        """True if observations include the physics parameters; without meaning under challenge rules."""
        return SIZES[self.obs_dim][1]

    @property
    def stated(self) -> dict[str, Any]:
        """Training contract of an exported policy: id, version and action_repeat; empty for other models."""
        text = next((entry.value for entry in self.model.metadata_props if entry.key == CONTRACT), "")
        try:
            contract = json.loads(text)
        except (ValueError, RecursionError):
            return {}
        if not isinstance(contract, dict) or not str(contract.get("id", "")).startswith("sparring/"):
            return {}
        return {key: contract[key] for key in _STATED if key in contract}


def read_onnx(path: Path) -> OnnxFile:
    """Read the model in `path`. Raises `OnnxError` if it is not an agent, `InputError` if onnx is missing."""
    onnx = export_package("onnx")
    try:
        data = read_regular(path, follow=True, most=MOST_ONNX)
    except OSError as error:
        raise OnnxError(f"{path}: cannot be read ({error.strerror})") from error
    model = _parse(path, onnx, data)
    _check_operators(path, model)
    _check_weights(path, onnx, model)
    obs_dim = _observation_size(path, onnx, model)
    try:
        onnx.checker.check_model(model)
    except Exception as error:  # The checker may raise any exception for damaged models.
        raise _damaged(path, error) from error
    return OnnxFile(path, model, obs_dim, parameter_count(model), len(data))


def _parse(path: Path, onnx: Any, data: bytes) -> Any:
    """Return the `ModelProto` in `data`. Raises `OnnxError` for invalid bytes."""
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # The parser may raise any exception, too.
        raise _damaged(path, error) from error
    if not model.graph.node:
        raise _damaged(path, "its graph is empty")
    return model


def _damaged(path: Path, reason: object) -> OnnxError:
    lines = str(reason).strip().splitlines() or [type(reason).__name__]
    return OnnxError(f"{path}: is damaged, or not a valid ONNX model ({lines[0]}); save or export it again")


def _check_operators(path: Path, model: Any) -> None:
    """Raise `OnnxError` for an operator defined neither by ONNX nor by a function in the model."""
    functions = {(function.domain, function.name) for function in model.functions}
    for node in _nodes(model):
        if node.domain not in _DOMAINS and (node.domain, node.op_type) not in functions:
            raise OnnxError(
                f"{path}: uses the custom operator {node.domain}.{node.op_type}; export it with operators of ONNX alone"
            )


def _check_weights(path: Path, onnx: Any, model: Any) -> None:
    """Raise `OnnxError` for weights in another file."""
    for tensor in stored_tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
            raise OnnxError(
                f"{path}: keeps the weights {tensor.name!r} in another file (external data); save it as one file"
            )


def _observation_size(path: Path, onnx: Any, model: Any) -> int:
    """Return D. Raises `OnnxError` if inputs or outputs are not those of an agent."""
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    for kind, values in (("input", inputs), ("output", model.graph.output)):
        if len(values) != 1:
            named = f" ({', '.join(value.name for value in values)})" if values else ""
            raise OnnxError(f"{path}: has {len(values)} {kind}s{named}; wanted is {WANTED}")
    (observed,), (acted,) = inputs, model.graph.output
    shape = _shape(observed)
    fits = shape is not None and len(shape) == 2 and shape[1] in SIZES and (shape[0] == 1 or isinstance(shape[0], str))
    if not _is_float32(onnx, observed) or not fits:
        raise OnnxError(f"{path}: its input {observed.name} is {_described(onnx, observed)}; wanted is {WANTED}")
    if not _is_float32(onnx, acted):
        raise OnnxError(f"{path}: its output {acted.name} is {_described(onnx, acted)}; wanted is {WANTED}")
    answer = _shape(acted)
    if answer is not None and not (answer and (answer[-1] == 3 or isinstance(answer[-1], str))):
        raise OnnxError(f"{path}: its output {acted.name} is {_described(onnx, acted)}; wanted is {WANTED}")
    assert shape is not None
    return int(shape[1])


def _shape(value: Any) -> list[int | str] | None:
    """Return the declared sizes, a free one as its name or "N"; None if no shape is declared."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [size.dim_value if size.HasField("dim_value") else size.dim_param or "N" for size in tensor.shape.dim]


def _is_float32(onnx: Any, value: Any) -> bool:
    return value.type.HasField("tensor_type") and value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT


def _described(onnx: Any, value: Any) -> str:
    """Return type and shape of a value, such as `float64 [1, 59]`."""
    if not value.type.HasField("tensor_type"):
        return "no tensor"
    code, shape = value.type.tensor_type.elem_type, _shape(value)
    name = "float32" if _is_float32(onnx, value) else onnx.TensorProto.DataType.Name(code).lower()
    name = "float64" if name == "double" else name
    return f"{name} of any shape" if shape is None else f"{name} [{', '.join(map(str, shape))}]"


def _nodes(model: Any) -> Iterator[Any]:
    """Yield every node of the graph, its subgraphs, and the model's functions."""
    waiting = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(inner for graph in _graphs(node) for inner in graph.node)


def _graphs(node: Any) -> Iterator[Any]:
    """Yield the graphs inside a node, such as the branches of an If."""
    for attribute in node.attribute:
        yield from [attribute.g] if attribute.HasField("g") else []
        yield from attribute.graphs
