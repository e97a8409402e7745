"""Common subexpressions: equal operators of equal inputs are one node."""

from collections.abc import Collection, Sequence

from ...op import Op
from ..core.node import Constant, Node
from ..core.order import schedule
from .rewrite import rewrite, simple_among

SMALL = 4096  # bytes of a constant that is compared by value


def cse(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches with every value computed in one place."""
    order = schedule(fetches, fed)
    twins = _twins(order, fed)
    copies: dict[Node, Node] = {}  # what stands for the first node of each value

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        if node in twins:
            return copies.get(twins[node], twins[node])
        if inputs is node.inputs and twins.keys().isdisjoint(inputs):
            copies[node] = node
        else:  # `rewrite` asks about no constants: of these it still has the twins
            sources = tuple([twins.get(source, source) for source in inputs])
            copies[node] = node.with_inputs(sources, ())
        return copies[node]

    users = {n for n in order if not twins.keys().isdisjoint(n.inputs)}
    return rewrite(fetches, rule, fed, at=twins.keys() | users)


def _twins(order: Sequence[Node], fed: Collection[Node]) -> dict[Node, Node]:
    """Return the nodes whose value an earlier node of `order` has, each with that node."""
    first: dict[object, Node] = {}
    twins: dict[Node, Node] = {}
    numbers: dict[object, int] = {}  # of signatures
    kinds: dict[int, int] = {}  # of operators by their addresses: many nodes share one
    simple = set(simple_among(order))
    for node in order:
        if node in fed:
            continue
        if isinstance(node, Constant) and node.value.nbytes <= SMALL:
            value: object = (node.value.dtype.str, node.value.shape, node.value.tobytes())
        elif node in simple:
            kind = kinds.get(id(node.op))
            if kind is None:
                kind = kinds[id(node.op)] = numbers.setdefault(signature(node.op), len(numbers))
            value = (kind, *[id(twins.get(source, source)) for source in node.inputs])
        else:
            continue
        canonical = first.setdefault((node.device, value), node)
        if canonical is not node:
            twins[node] = canonical
    return twins


def signature(op: Op) -> object:
    """Return a key that equal operators share: their type and parameters, else the object."""
    attributes = op.attributes()
    try:
        key = (type(op), op.name, tuple(sorted(attributes.items())))
        hash(key)
    except TypeError:
        return id(op)
    return key
