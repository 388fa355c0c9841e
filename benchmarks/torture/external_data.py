"""ONNX agents whose weights are outside of their file, as a stranger's can be, in each part of the format that has any.

The agents are of the classic rules: a matrix float32 [59, 3], whose values are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparring.agents.opponents.dogfight.onnx_file import export_package

SIZE, ACTIONS = 59, 3
MEMORY = "*/_ORT_MEM_ADDR_/*"
"""The location by which onnxruntime means an address in its own memory."""
OFFSET = 4096
"""That address; files are read from their beginning."""


def agent(part: str, location: str) -> bytes:
    """Return an agent's file whose `part`, one of `PARTS`, is at `location`."""
    onnx = export_package("onnx")
    tensor = onnx.TensorProto(name="outside", data_type=onnx.TensorProto.FLOAT, dims=[SIZE * ACTIONS])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    offset = OFFSET if location == MEMORY else 0
    for key, value in (("location", location), ("offset", offset), ("length", 4 * SIZE * ACTIONS)):
        tensor.external_data.add(key=key, value=str(value))
    return bytes(PARTS[part](onnx, tensor).SerializeToString())


def _model(onnx: Any, *, nodes: Any = (), stored: Any = (), functions: Any = ()) -> Any:
    """Return the model that multiplies observations by `outside`, which the arguments define."""
    helper = onnx.helper
    shape = onnx.numpy_helper.from_array(np.array([SIZE, ACTIONS]), "shape")
    last = [
        helper.make_node("Reshape", ["outside", "shape"], ["weights"]),
        helper.make_node("MatMul", ["x", "weights"], ["y"]),
    ]
    ends = [
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, size])]
        for name, size in (("x", SIZE), ("y", ACTIONS))
    ]
    graph = helper.make_graph([*nodes, *last], "agent", *ends, [*stored, shape])
    domains = [helper.make_opsetid("", 17), *(helper.make_opsetid(one.domain, 1) for one in functions)]
    return helper.make_model(graph, opset_imports=domains, ir_version=8, functions=functions)


def _constant(onnx: Any, **attribute: Any) -> Any:
    """Return a node whose output is `outside`, with one attribute."""
    node = onnx.helper.make_node("Constant", [], ["outside"])
    node.attribute.add(**attribute)
    return node


def _weights(onnx: Any, tensor: Any) -> Any:
    return _model(onnx, stored=[tensor])


def _plain_constant(onnx: Any, tensor: Any) -> Any:
    return _model(onnx, nodes=[_constant(onnx, name="value", type=onnx.AttributeProto.TENSOR, t=tensor)])


def _sparse_constant(onnx: Any, tensor: Any) -> Any:
    indices = onnx.numpy_helper.from_array(np.arange(SIZE * ACTIONS), "indices")
    sparse = onnx.SparseTensorProto(values=tensor, indices=indices, dims=[SIZE * ACTIONS])
    kind = onnx.AttributeProto.SPARSE_TENSOR
    return _model(onnx, nodes=[_constant(onnx, name="sparse_value", type=kind, sparse_tensor=sparse)])


def _default_of_a_function(onnx: Any, tensor: Any) -> Any:
    kind, helper = onnx.AttributeProto.TENSOR, onnx.helper
    default = onnx.AttributeProto(name="default", type=kind, t=tensor)
    body = _constant(onnx, name="value", type=kind, ref_attr_name="default")
    standard = [helper.make_opsetid("", 17)]
    function = helper.make_function("its.own", "F", [], ["outside"], [body], standard, attribute_protos=[default])
    return _model(onnx, nodes=[helper.make_node("F", [], ["outside"], domain="its.own")], functions=[function])


PARTS: dict[str, Callable[[Any, Any], Any]] = {
    "weights": _weights,
    "a constant": _plain_constant,
    "a sparse constant": _sparse_constant,
    "the default of a function": _default_of_a_function,
}
"""Parts of a model that may hold a tensor: `part(onnx, tensor)` is the model."""
