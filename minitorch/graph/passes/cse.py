"""Common subexpressions: equal operators of equal inputs are one node."""

from collections.abc import Collection, Sequence

from ...op import Op
from ..core.node import Constant, Node
from .rewrite import Rule, over, rewrite

SMALL = 4096  # bytes of a constant that is compared by value


def cse(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches with every value computed in one place."""
    return rewrite(fetches, sharing(fed), fed)


def sharing(fed: Collection[Node]) -> Rule:
    """Return a rule by which the first node of each value stands for all others."""
    first: dict[object, Node] = {}
    constants: dict[Node, Node] = {}  # each with the first of its value
    numbers: dict[object, int] = {}  # of signatures
    kinds: dict[Op, int] = {}  # the same by operators: many nodes share one

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node:
        op = node.op
        kind = kinds.get(op)
        if kind is None:
            kind = kinds[op] = numbers.setdefault(signature(op), len(numbers))
        for source in inputs:  # `rewrite` asks about no constants
            if source.op is None and isinstance(source, Constant):
                inputs = tuple([canonical_of(s) for s in inputs])
                break
        key = (kind, node.device, *map(id, inputs))
        canonical = first.get(key)
        if canonical is None:
            same = inputs is node.inputs
            canonical = first[key] = node if same else over(node, inputs, ())
        return canonical

    def canonical_of(source: Node) -> Node:
        if source.op is not None or not isinstance(source, Constant) or source in fed:
            return source
        canonical = constants.get(source)
        if canonical is None:
            value = source.value
            canonical = source
            if value.nbytes <= SMALL:
                key = (source.device, value.dtype, value.shape, value.tobytes())
                canonical = first.setdefault(key, source)
            constants[source] = canonical
        return canonical

    return rule


def signature(op: Op) -> object:
    """Return a key that equal operators share: their type and parameters, else the object."""
    attributes = op.attributes()
    try:
        key = (type(op), op.name, tuple(sorted(attributes.items())))
        hash(key)
    except TypeError:
        return id(op)
    return key
