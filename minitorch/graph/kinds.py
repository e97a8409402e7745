"""What TensorFlow calls the kinds of operations, and a graph as a list of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from .node import Constant, Node, Placeholder
from .state import Variable

SOURCES: dict[type[Node], str] = {
    Constant: "Const",
    Placeholder: "Placeholder",
    Variable: "VariableV2",
}

BY_OPERATOR = {
    "CrossEntropy": "SoftmaxCrossEntropyWithLogits",
    "Embed": "GatherV2",
    "ExpandTo": "BroadcastTo",
    "GetItem": "StridedSlice",
    "Late": "Placeholder",
    "Permute": "Transpose",
    "Read": "Identity",
    "ShapeOf": "Shape",
    "SparseCrossEntropy": "SparseSoftmaxCrossEntropyWithLogits",
    "assign": "Assign",
    "assign_add": "AssignAdd",
    "assign_sub": "AssignSub",
    "batch_matmul": "BatchMatMul",
    "cast": "Cast",
    "cat": "ConcatV2",
    "conv2d": "Conv2D",
    "div": "RealDiv",
    "eq": "Equal",
    "ge": "GreaterEqual",
    "gt": "Greater",
    "le": "LessEqual",
    "lt": "Less",
    "matmul": "MatMul",
    "max_pool2d": "MaxPool",
    "ne": "NotEqual",
    "permute": "Transpose",
    "relu": "Relu",
    "stack": "Pack",
    "true_divide": "RealDiv",
}
"""TensorFlow's name of an operator, by ours; where it is missing, ours in TensorFlow's spelling."""


def kind_called(node: Any) -> str:
    """Return the kind of operation that a node is, by TensorFlow's name where it has one."""
    for source, name in SOURCES.items():
        if isinstance(node, source):
            return name
    ours = "" if node.op is None else str(node.op.name)
    return BY_OPERATOR.get(ours) or "".join(w[:1].upper() + w[1:] for w in ours.split("_"))


class NodeDef(NamedTuple):
    """One operation of a graph: its name, kind, device and the names of its inputs."""

    name: str
    op: str
    input: list[str]
    device: str


class GraphDef(NamedTuple):
    """The operations of a graph, in the order in which they were built."""

    node: list[NodeDef]


def described(node: Any) -> NodeDef:
    """Return a node as TensorFlow describes it; "^name" is an input that only has to run before."""
    inputs = [source.name for source in node.inputs]
    inputs += [f"^{source.name}" for source in node.control_inputs]
    return NodeDef(node.name, kind_called(node), inputs, node.device or "")


def graph_described(graph: Any) -> GraphDef:
    """Return the operations of a graph that are still alive."""
    return GraphDef([described(node) for node in graph.get_operations()])
