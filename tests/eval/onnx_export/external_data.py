"""ONNX agents with weights outside their file, in every part of the format that allows it.

The agents are of the classic rules: a matrix float32 [59, 3], whose values are elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparring.agents.opponents.onnx_file import export_package

SIZE, ACTIONS = 59, 3
MEMORY = "*/_ORT_MEM_ADDR_/*"
"""The location by which onnxruntime means an address in its own memory."""
OFFSET = 4096
"""That address; files are read from their beginning."""


PARTS = ("weights", "a constant", "a sparse constant", "the default of a function")
"""Parts of a model that may hold a tensor."""


def agent(part: str, location: str) -> bytes:
    """Return an agent file whose `part`, one of `PARTS`, is at `location`."""
    onnx = export_package("onnx")
    helper, attributes = onnx.helper, onnx.AttributeProto
    tensor = onnx.TensorProto(name="outside", data_type=onnx.TensorProto.FLOAT, dims=[SIZE * ACTIONS])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    offset = OFFSET if location == MEMORY else 0
    for key, value in (("location", location), ("offset", offset), ("length", 4 * SIZE * ACTIONS)):
        tensor.external_data.add(key=key, value=str(value))
    constant = helper.make_node("Constant", [], ["outside"])
    if part == "weights":
        return _model(onnx, stored=[tensor])
    if part == "a constant":
        constant.attribute.add(name="value", type=attributes.TENSOR, t=tensor)
        return _model(onnx, nodes=[constant])
    if part == "a sparse constant":
        indices = onnx.numpy_helper.from_array(np.arange(SIZE * ACTIONS), "indices")
        sparse = onnx.SparseTensorProto(values=tensor, indices=indices, dims=[SIZE * ACTIONS])
        constant.attribute.add(name="sparse_value", type=attributes.SPARSE_TENSOR, sparse_tensor=sparse)
        return _model(onnx, nodes=[constant])
    default = attributes(name="default", type=attributes.TENSOR, t=tensor)
    constant.attribute.add(name="value", type=attributes.TENSOR, ref_attr_name="default")
    standard = [helper.make_opsetid("", 17)]
    function = helper.make_function("its.own", "F", [], ["outside"], [constant], standard, attribute_protos=[default])
    return _model(onnx, nodes=[helper.make_node("F", [], ["outside"], domain="its.own")], functions=[function])


def _model(onnx: Any, *, nodes: Any = (), stored: Any = (), functions: Any = ()) -> bytes:
    """Return a model that multiplies observations by `outside`, defined by the arguments."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    shape = onnx.numpy_helper.from_array(np.array([SIZE, ACTIONS]), "shape")
    last = [
        helper.make_node("Reshape", ["outside", "shape"], ["weights"]),
        helper.make_node("MatMul", ["x", "weights"], ["y"]),
    ]
    ends = [[helper.make_tensor_value_info(name, kind, [1, size])] for name, size in (("x", SIZE), ("y", ACTIONS))]
    graph = helper.make_graph([*nodes, *last], "agent", *ends, [*stored, shape])
    domains = [helper.make_opsetid("", 17), *(helper.make_opsetid(one.domain, 1) for one in functions)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=8, functions=functions)
    return bytes(model.SerializeToString())
