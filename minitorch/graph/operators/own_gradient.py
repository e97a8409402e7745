"""Functions that bring a gradient of their own, under TensorFlow's name: `custom_gradient`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ...arrays import Array
from ...errors import GraphError
from ...op import Op, Spec
from ..gradients import Identity
from ..node import Node, build, convert
from ..order import needed
from ..state import Variable

Backward = Callable[..., Any]


class OwnGradient(Op):
    """The first input; the further ones are what the function was of, and get its gradients."""

    on_arrays = True

    def __init__(self, backward: Backward, called: str) -> None:
        self.backward, self.called = backward, called

    def compute(self, xp: Any, *arrays: Array) -> Array:
        """Return the first array."""
        return arrays[0]

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of the first input."""
        return specs[0]

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """What the function's own rule gives for each of its arguments.

        Raises:
            GraphError: it gives more or fewer.
        """
        found = self.backward(out_grad)
        listed = list(found) if isinstance(found, list | tuple) else [found]
        if len(listed) != len(node.inputs) - 1:
            raise GraphError(
                f"custom_gradient: the gradient of {self.called} gives {len(listed)} values, "
                f"expected {len(node.inputs) - 1}, one for each argument."
            )
        return (None, *listed)


def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return `f`, whose own gradient is used: f(*args) gives (value, gradient function).

    The gradient function takes the gradient that arrives at the value, and gives one for each
    argument, or None.

    Raises:
        GraphError: in a call: `f` does not give such a pair, its value is not one node, or it
            reads a trainable variable that is no argument of it, which would get no gradient.
    """
    called = getattr(f, "__name__", "f")

    @wraps(f)
    def call(*args: Any) -> Node:
        # a node of its own for each argument, so that the gradient does not pass by
        inputs = [build(Identity(), (convert(arg),)) for arg in args]
        found = f(*inputs)
        if not isinstance(found, tuple) or len(found) != 2 or not callable(found[1]):
            raise GraphError(
                f"custom_gradient: {called} gives {type(found).__name__}, expected (value, "
                "function of the gradient)."
            )
        value, backward = found
        if isinstance(value, list | tuple):
            raise GraphError(
                f"custom_gradient: {called} gives {len(value)} values, expected one node. Stack "
                "them, or give each a function of its own."
            )
        node = convert(value)
        _check_reads(called, node, inputs)
        return build(OwnGradient(backward, called), (node, *inputs))

    return call


def _check_reads(called: str, value: Node, inputs: list[Node]) -> None:
    for node in needed([value], set(inputs)):
        if isinstance(node, Variable) and node.trainable:
            raise GraphError(
                f"custom_gradient: {called} reads variable {node.name!r} (built at "
                f"{node.location}), which would get no gradient. Give it as an argument."
            )


def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return `f` of one argument, whose gradient is that of the identity."""

    @custom_gradient
    def call(x: Any) -> Any:
        return f(x), lambda out_grad: out_grad

    return call
