"""Small ONNX models built by hand: agents and other models."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def value(name, shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def weights(size=59, outputs=3, seed=0):
    """Return a matrix [D, 3] that steers and sometimes shoots."""
    drawn = np.random.default_rng(seed).normal(size=(size, outputs)).astype(np.float32)
    return numpy_helper.from_array(drawn * 0.3, "weights")


def make_model(nodes, *, inputs=None, outputs=None, stored=None, opsets=(("", 17),), **options):
    """Return a model of these nodes, by default from x [1, 59] to y [1, 3] with the matrix `weights`."""
    graph = helper.make_graph(
        nodes,
        "agent",
        [value("x", [1, 59])] if inputs is None else inputs,
        [value("y", [1, 3])] if outputs is None else outputs,
        [weights()] if stored is None else stored,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*o) for o in opsets], ir_version=8, **options)


def linear(size=59, *, batch=1, outputs=3, seed=0):
    """Return the simplest agent: a matrix."""
    return make_model(
        [helper.make_node("MatMul", ["x", "weights"], ["y"])],
        inputs=[value("x", [batch, size])],
        outputs=[value("y", [batch, outputs])],
        stored=[weights(size, outputs, seed)],
    )


def through_reshape(*, batch=1):
    """Return an agent for one row only: its observation is reshaped to [59]."""
    flat = numpy_helper.from_array(np.array([59]), "flat")
    row = numpy_helper.from_array(np.array([1, 3]), "row")
    nodes = [
        helper.make_node("Reshape", ["x", "flat"], ["one"]),
        helper.make_node("MatMul", ["one", "weights"], ["three"]),
        helper.make_node("Reshape", ["three", "row"], ["y"]),
    ]
    return make_model(nodes, inputs=[value("x", [batch, 59])], stored=[weights(), flat, row])


def across_rows():
    """Return an agent that depends on its batch: it adds the mean of all rows."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0], keepdims=1),
        helper.make_node("MatMul", ["mean", "weights"], ["offset"]),
        helper.make_node("MatMul", ["x", "weights"], ["own"]),
        helper.make_node("Add", ["own", "offset"], ["y"]),
    ]
    return make_model(nodes)


def save(model, path):
    onnx.save(model, path)
    return path
