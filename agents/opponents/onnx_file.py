"""Reading and validation of an ONNX agent's file, before any of it is run.

An agent is a stateless model with one input, float32 [1, D] or [N, D], and one output, float32 [1, A] or [N, A]. A
game says which D it shows, and the contract of a model that does not state its own. Only standard ONNX operators are
accepted, and every weight must be inside the file, so a model can neither run custom code nor make the runtime open
another file. The packages onnx and onnxruntime are optional.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from sparring.agents.policies.policy import action_columns
from sparring.configs.core.errors import InputError, require_package
from sparring.configs.core.files import MOST_ONNX, read_regular

CONTRACT = "contract"
"""Metadata key of an exported policy's training contract, as JSON."""
_DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
"""Domains of the standard ONNX operators."""
Contract = dict[str, Any]


class OnnxError(InputError):
    """Raised for a model that cannot play; the message is one line with the file, actual and expected values."""


@dataclass(frozen=True)
class OnnxForm:
    """What a game's agents observe and answer."""

    contract: Callable[[int, Mapping[str, Any]], Contract | None]
    """`(D, stated)`: the contract of a model of D numbers that states this much about its training; None if no matches
    show D numbers."""
    wanted: str
    """Input and output, in words."""
    unread: tuple[str, ...] = ()
    """Further outputs that a model may have."""


@dataclass(frozen=True)
class OnnxFile:
    """Model with a validated interface; `model` is an onnx `ModelProto`."""

    path: Path
    model: Any
    contract: Contract
    parameters: int
    size: int
    """File size in bytes."""
    wanted: str = ""
    output: str = ""
    """Name of the actions; empty for the only output."""

    @property
    def obs_dim(self) -> int:
        """Numbers that it observes."""
        return int(self.contract["obs_dim"])

    @property
    def columns(self) -> int:
        """Numbers of an action."""
        return action_columns(self.contract)


def export_package(package: str) -> Any:
    """Import onnx or onnxruntime. Raises `InputError` with the pip command if it is missing."""
    require_package(package, "export")
    return import_module(package)


def parameter_count(model: Any) -> int:
    """Return the number of floating-point values stored in the model, learned or not."""
    types = export_package("onnx").TensorProto
    floats = (types.FLOAT, types.FLOAT16, types.BFLOAT16, types.DOUBLE)
    return sum(math.prod(tensor.dims) for tensor in stored_tensors(model) if tensor.data_type in floats)


def stored_tensors(model: Any) -> Iterator[Any]:
    """Yield every stored tensor wherever it is: in graphs and attributes, sparse ones, defaults of functions."""
    waiting = [model]
    while waiting:
        message = waiting.pop()
        if message.DESCRIPTOR.name == "TensorProto":
            yield message
        for field, value in message.ListFields():
            if field.message_type:
                waiting.extend([value] if hasattr(value, "ListFields") else value)


def stated_contract(model: Any) -> Contract:
    """Return the training contract of an exported policy, any JSON object; empty for other models."""
    text = next((entry.value for entry in model.metadata_props if entry.key == CONTRACT), "")
    try:
        contract = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return contract if isinstance(contract, dict) else {}


def read_onnx(path: Path, form: OnnxForm) -> OnnxFile:
    """Read the model in `path`. Raises `OnnxError` if it is not an agent, `InputError` if onnx is missing."""
    onnx = export_package("onnx")
    model, size = _read(path, onnx)
    _check_operators(path, model)
    _check_weights(path, onnx, model)
    outputs = [value for value in model.graph.output if value.name not in form.unread]
    contract = _contract(path, onnx, model, outputs, form)
    try:
        onnx.checker.check_model(model)
    except Exception as error:  # The checker may raise any exception for damaged models.
        raise _damaged(path, error) from error
    return OnnxFile(path, model, contract, parameter_count(model), size, form.wanted, outputs[0].name)


def read_contract(path: Path) -> Contract:
    """Return the training contract that the model in `path` states. Raises like `read_onnx`."""
    return stated_contract(_read(path, export_package("onnx"))[0])


def _read(path: Path, onnx: Any) -> tuple[Any, int]:
    """Return the model in `path`, and its size in bytes."""
    try:
        data = read_regular(path, follow=True, most=MOST_ONNX)
    except OSError as error:
        raise OnnxError(f"{path}: cannot be read ({error.strerror})") from error
    return _parse(path, onnx, data), len(data)


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


def _contract(path: Path, onnx: Any, model: Any, outputs: Sequence[Any], form: OnnxForm) -> Contract:
    """Return the contract. Raises `OnnxError` if inputs or outputs are not those of an agent."""
    wanted = form.wanted
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    for kind, values in (("input", inputs), ("output", outputs)):
        if len(values) != 1:
            named = f" ({', '.join(value.name for value in values)})" if values else ""
            raise OnnxError(f"{path}: has {len(values)} {kind}s{named}; wanted is {wanted}")
    (observed,), (acted,) = inputs, outputs
    shape = _shape(observed)
    size = shape[1] if shape and len(shape) == 2 and (shape[0] == 1 or isinstance(shape[0], str)) else None
    try:
        contract = form.contract(size, stated_contract(model)) if isinstance(size, int) else None
    except InputError as error:
        raise OnnxError(f"{path}: its contract has {error}; export it again") from error
    if not _is_float32(onnx, observed) or contract is None:
        raise OnnxError(f"{path}: its input {observed.name} is {_described(onnx, observed)}; wanted is {wanted}")
    if not _is_float32(onnx, acted):
        raise OnnxError(f"{path}: its output {acted.name} is {_described(onnx, acted)}; wanted is {wanted}")
    answer = _shape(acted)
    if answer is not None and not (answer and (answer[-1] == action_columns(contract) or isinstance(answer[-1], str))):
        raise OnnxError(f"{path}: its output {acted.name} is {_described(onnx, acted)}; wanted is {wanted}")
    return contract


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
