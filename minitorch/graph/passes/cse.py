"""Common subexpressions: equal operators of equal inputs are one node."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...op import Op
from ..core.node import Constant, Node
from ..core.order import schedule
from .rewrite import rewrite, simple_among

SMALL = 4096  # bytes of a constant that is compared by value


def cse(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches with every value computed in one place."""
    first: dict[object, Node] = {}  # of each value, by the inputs' addresses
    twins: dict[Node, Node] = {}  # the first node of the same value, where it is another
    constants: dict[Node, Node] = {}
    signatures: dict[int, object] = {}  # by the operators' addresses: many nodes share one

    def canonical(node: Node) -> Node:
        """Return the one node that stands for all constants like this."""
        if node in constants or not isinstance(node, Constant) or node in fed:
            return constants.get(node, node)
        constants[node] = node
        if node.value.nbytes <= SMALL:
            key = (node.device, node.value.dtype.str, node.value.shape, node.value.tobytes())
            constants[node] = first.setdefault(key, node)
        return constants[node]

    order = schedule(fetches, fed)
    for node in simple_among(order):
        if node in fed:
            continue
        sources = [canonical(twins.get(source, source)) for source in node.inputs]
        if id(node.op) not in signatures:
            signatures[id(node.op)] = signature(node.op)
        key = (signatures[id(node.op)], node.device, tuple(map(id, sources)))
        if first.setdefault(key, node) is not node:
            twins[node] = first[key]

    made: dict[Node, Node] = {}  # what stands for the first nodes

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        if node in twins:
            return made.get(twins[node], twins[node])
        sources = tuple(canonical(source) for source in inputs)
        same = all(a is b for a, b in zip(sources, node.inputs, strict=True))
        made[node] = node if same else node.with_inputs(sources, ())
        return made[node]

    of_constants = {n for n in order if any(constants.get(s, s) is not s for s in n.inputs)}
    return rewrite(fetches, rule, fed, at=twins.keys() | of_constants)


def signature(op: Op) -> object:
    """Return a key that equal operators share: their type and parameters, else the object."""
    attributes = op.attributes()
    try:
        key = (type(op), op.name, tuple(sorted(attributes.items())))
        hash(key)
    except TypeError:
        return id(op)
    return key
