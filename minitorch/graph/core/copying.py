"""Copies of a part of a graph over other inputs, and nodes that belong to no graph."""

from collections.abc import Sequence

from ...op import Op
from .gradients import Identity
from .node import Node, fresh_id
from .order import schedule
from .variables import Read


def copy_nodes(nodes: Sequence[Node], new: dict[Node, Node], anew: bool = False) -> list[Node]:
    """Return copies of `nodes` that have the values of `new` where the originals have its keys.

    What depends on no key stays the same node, unless all operators are wanted `anew`. `new` is
    extended by every node that was met; it must hold whatever the copy shall not look behind.
    """
    for node in schedule(nodes, set(new)):
        if node not in new:
            new[node] = _over(node, new, anew)
    return [new[node] for node in nodes]


def _over(node: Node, new: dict[Node, Node], anew: bool) -> Node:
    inputs = tuple(new.get(source, source) for source in node.inputs)
    control = tuple(new.get(source, source) for source in node.control_inputs)
    if isinstance(node.op, Read):
        variable = node.op.variable
        if new.get(variable, variable) is not variable:
            return make_node(Identity(), (_bring(node.inputs[0], new),), node, control)
    pairs = zip((*inputs, *control), (*node.inputs, *node.control_inputs), strict=True)
    if all(a is b for a, b in pairs) and (node.op is None or not anew):
        return node
    return node.with_inputs(inputs, control)


def _bring(source: Node, new: dict[Node, Node]) -> Node:
    """Return what stands for a variable as a read has it: through the Switches of its branches.

    No run looks at these, so they have not been met; the gradient goes back through them.
    """
    if source not in new and source.inputs:
        data, *switches = source.inputs
        inputs = (_bring(data, new), *(new.get(n, n) for n in switches))
        new[source] = source.with_inputs(inputs, ())
    return new.get(source, source)


def make_node(
    op: Op, inputs: tuple[Node, ...], like: Node, control: tuple[Node, ...] = (), name: str = ""
) -> Node:
    """Return a plain node that no graph knows of, of the type, place and line of `like`."""
    node = object.__new__(Node)
    node.op, node.inputs, node.control_inputs = op, inputs, control
    node.shape, node.dtype, node.name = like.shape, like.dtype, name or like.name
    node.graph, node.built_at, node.device = like.graph, like.built_at, like.device
    node.id, node.wants = fresh_id(), (True,) * len(inputs)
    return node
