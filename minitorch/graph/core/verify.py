"""The type check of a graph, run after every pass: a rewrite that breaks a type stops here.

What is inside a loop is checked as well, once for each loop: loops never change.
"""

import weakref
from collections.abc import Collection, Sequence

from ...errors import MinitorchError
from ...op import Op, Spec
from ..control.while_op import While
from ..shapes.static import agree
from .node import Node, UnknownShape
from .order import list_needed, schedule
from .placeholders import Placeholder

Checked = dict[Node, tuple[Node, ...]]
"""The nodes of the graph that was verified last, each with the inputs that it had then."""


def verify(
    fetches: Sequence[Node],
    fed: Collection[Node] = (),
    after: str = "verify",
    checked: Checked | None = None,
) -> None:
    """Raise unless every node below `fetches` has the type that its operator infers.

    Args:
        after: the pass that errors name.
        checked: nodes that were found right before; from now on those of this graph and no others,
            so that what a pass has dropped can be freed.
    Raises:
        GraphError: a cycle, an input that is no node, or a shape or dtype that is not what the
            operator infers; names the pass and the node.
    """
    nodes = list_needed(fetches, fed)
    schedule(fetches, fed)  # which refuses a cycle
    right: set[object] = set()
    before: Checked = {} if checked is None else checked
    for node in nodes:
        if node.op is not None and node not in fed and before.get(node) is not node.inputs:
            _verify_node(node, node.op, after, right)
    if checked is not None:
        checked.clear()
        checked.update((node, node.inputs) for node in nodes)


def _verify_node(node: Node, op: Op, after: str, right: set[object]) -> None:
    """Raise unless a node has the type that its operator infers, as far as shapes are known.

    Args:
        right: operators, by their addresses, with types that were found right before.
    """
    if isinstance(op, While):
        _verify_loop(node, after)
    types: list[object] = [id(op)]
    for each in (node, *node.inputs):
        if type(each.shape) is UnknownShape:
            return
        types += (each.dtype, tuple(each.shape))
    key = tuple(types)
    if key in right:
        return
    try:
        spec = op.infer(*[Spec(tuple(source.shape), source.dtype) for source in node.inputs])
    except MinitorchError as error:
        raise node.error(
            f"{after}: node {node.name!r} does not fit its inputs: {error}."
        ) from error
    if spec.dtype != node.dtype or not agree(spec.shape, node.shape):
        raise node.error(
            f"{after}: node {node.name!r} has {node.dtype} {tuple(node.shape)}, but {op.name} "
            f"gives {spec.dtype} {tuple(spec.shape)}."
        )
    right.add(key)


_verified: weakref.WeakSet[While] = weakref.WeakSet()


def _verify_loop(node: Node, after: str) -> None:
    """Raise unless a loop's graphs are right, and it is given what its placeholders stand for."""
    loop: While = node.op
    placeholders = loop.given
    if len(placeholders) != len(node.inputs):
        raise node.error(
            f"{after}: loop {node.name!r} has {len(node.inputs)} inputs, but {len(placeholders)} "
            "placeholders."
        )
    same_types(node.inputs, placeholders, after)
    if loop in _verified:
        return
    inside = set(loop.nodes()) - loop.placeholders
    free = [n.name for n in inside if isinstance(n, Placeholder) and not n.inputs]
    if free:
        raise node.error(f"{after}: inside loop {node.name!r} nobody feeds {free[0]!r}.")
    same_types(loop.variables, loop.body, after)
    verify([loop.test, *loop.body, *loop.saved], loop.placeholders, after)
    _verified.add(loop)


def same_types(before: Sequence[Node], after: Sequence[Node], name: str) -> None:
    """Raise unless a pass kept the type of everything that is fetched."""
    for old, new in zip(before, after, strict=True):
        if old.dtype != new.dtype or not agree(old.shape, new.shape):
            raise old.error(
                f"{name}: changed {old.name!r} from {old.dtype} {old.shape} to {new.dtype} "
                f"{new.shape}."
            )
