"""What all functions under TensorFlow's names do: they name their nodes, and errors name a line.

A function that must see shapes is `once_known`: it waits for them if they are not known yet.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ...arrays.library import DType
from ...errors import MinitorchError
from ..shapes.deferred import late
from ..shapes.sizes import over_nodes
from .graph import add_location, place_of_new
from .node import Node, UnknownShape
from .placeholders import once_sized


def rename(node: Node, name: str | None) -> Node:
    """Give a node just built the name that the user asked for, if any."""
    if name is not None:
        node.graph.call(node, name)
        node.graph.keep(node)
    return node


def rename_all(nodes: Sequence[Node], name: str | None) -> None:
    """Give the results of one function its name: "x", "x:1", "x:2", ... as TensorFlow has them."""
    if name is None or not nodes:
        return
    first = rename(nodes[0], name)
    for i, node in enumerate(nodes[1:], 1):
        node.name = f"{first.name}:{i}"
        node.graph.keep(node)


def label(node: Node, name: str) -> Node:
    """Give a node just built a better name than its operator's."""
    node.graph.call(node, name)
    return node


P = ParamSpec("P")
R = TypeVar("R")
Operator = Callable[..., Node]


def locates_errors(function: Callable[P, R]) -> Callable[P, R]:
    """Return `function`, whose errors end in the line of the user's code that called it."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except MinitorchError as error:
            if hasattr(error, "built_at") or "built at" in str(error):
                raise
            raise add_location(error, place_of_new()) from None

    return call


def once_known(function: Operator, gives: DType | None = None) -> Operator:
    """Return `function`, which waits until its nodes have shapes, and whose errors name a line.

    Args:
        gives: the dtype of what is put off; that of the first node unless told.
    """

    @locates_errors
    @wraps(function)
    def call(*args: object, **kwargs: object) -> Node:
        if _unknown(args) or (kwargs and _unknown(kwargs.values())):
            return defer_until_shapes_known(function, args, kwargs, gives)
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            name: Any = kwargs.pop("name", None)
            return rename(once_sized(function, args, kwargs, error), name)

    return call


def _unknown(values: Iterable[Any]) -> bool:
    """Tell whether one of these values is a node of which no number of axes is known."""
    for value in values:
        if isinstance(value, Node):
            if isinstance(value.shape, UnknownShape):
                return True
        elif type(value) in (list, tuple) and _unknown(value):
            return True
    return False


def defer_until_shapes_known(
    function: Operator, args: tuple[object, ...], kwargs: dict[str, Any], gives: DType | None
) -> Node:
    """Return a node that becomes the function's result once the shapes of its inputs are known."""
    name = kwargs.pop("name", None)
    nodes, build = over_nodes(function, args, kwargs)
    return rename(late(build, nodes, gives or nodes[0].dtype), name)
