"""Common subexpressions: equal operators of equal inputs are one node."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...op import Op
from ..core.node import Constant, Node
from .rewrite import rewrite

SMALL = 4096  # bytes of a constant that is compared by value


def cse(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches with every value computed in one place."""
    known: dict[object, Node] = {}  # by the inputs' addresses: it keeps them alive
    constants: dict[Node, Node] = {}
    signatures: dict[int, object] = {}  # by the operators' addresses: many nodes share one

    def canonical(node: Node) -> Node:
        """Return the one node that stands for all constants like this."""
        if node in constants or not isinstance(node, Constant) or node in fed:
            return constants.get(node, node)
        constants[node] = node
        if node.value.nbytes <= SMALL:
            key = (node.device, node.value.dtype.str, node.value.shape, node.value.tobytes())
            constants[node] = known.setdefault(key, node)
        return constants[node]

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        sources = tuple(canonical(source) for source in inputs)
        op = node.op
        if id(op) not in signatures:
            signatures[id(op)] = signature(op)
        key = (signatures[id(op)], node.device, tuple(map(id, sources)))
        found = known.get(key)
        if found is None:
            same = all(a is b for a, b in zip(sources, node.inputs, strict=True))
            found = known[key] = node if same else node.with_inputs(sources, ())
        return found

    return rewrite(fetches, rule, fed)


def signature(op: Op) -> object:
    """Return a key that equal operators share: their type and parameters, else the object."""
    attributes = op.attributes()
    try:
        key = (type(op), op.name, tuple(sorted(attributes.items())))
        hash(key)
    except TypeError:
        return id(op)
    return key
