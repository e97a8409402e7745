"""Whose memory a node's array may be, and what follows for updates: in place, and early.

`schedule` lets writes wait for everything else, which is what a reader expects; but then all
gradients of a training step live until its end. In `running_order` an optimizer's update runs right
after its gradient and the last node that looks at the old value, and its gradient's memory is free
again. The values are the same: nothing moves past a node that shares memory with what is written,
or past an effect that is no write.
"""

from collections.abc import Collection, Sequence

from ...op import Op
from ...ops.elementwise.rows import Elementwise
from ...ops.products.linalg import MatMul
from ...ops.reducing.reduction import Sum
from ...ops.shaping.broadcasting import ExpandTo, SumTo
from ...ops.shaping.movement import Reshape
from ..core.node import Constant, Node
from ..core.order import before_each, read_by, schedule, select_ordered
from ..core.variables import Read, StateOp, Variable
from ..passes.fused import Fused

SHAPED = (ExpandTo, Reshape, SumTo)  # read no more of a second input than its shape
FRESH = frozenset({MatMul, Sum})  # and every row of `ops.rows`
NOTHING: frozenset[Variable] = frozenset()


def is_fresh(op: Op | None) -> bool:
    """Tell whether the result of `op` never shares memory with an input."""
    return isinstance(op, Elementwise | Fused) or type(op) in FRESH


def views(of: Collection[Node], order: Sequence[Node], fed: Collection[Node]) -> set[Node]:
    """Return the nodes whose arrays may share memory with the values of the nodes `of`."""
    sharing: set[Node] = set(of)
    for node in order:
        if node not in fed and any(source in sharing for source in _may_be(node)):
            sharing.add(node)
    return sharing


def find_shared_variables(
    order: Sequence[Node], fed: Collection[Node]
) -> dict[Node, frozenset[Variable]]:
    """Return for each node the variables with which its array may share memory."""
    shares: dict[Node, frozenset[Variable]] = {}
    for node in order:
        if node in fed:
            shares[node] = NOTHING
        elif isinstance(node, Variable):
            shares[node] = frozenset({node})
        else:
            shares[node] = NOTHING.union(
                *[{s} if isinstance(s, Variable) else shares.get(s, NOTHING) for s in _may_be(node)]
            )
    return shares


def find_overwriting_nodes(
    order: Sequence[Node], fetches: Sequence[Node], fed: Collection[Node]
) -> set[Node]:
    """Return the nodes that may overwrite the arrays of the variables that they write.

    One may when neither its own inputs, nor anything that runs later, nor a fetch can be looking
    at such an array.
    """
    place = {
        node: i
        for i, node in enumerate(order)
        if isinstance(node.op, StateOp)
        and node.op.writes
        and not node.op.hands_on
        and node not in fed
    }
    if not place:
        return set()
    looks = find_shared_variables(order, fed) | {
        v: frozenset({v}) for v in order if isinstance(v, Variable)
    }
    used: dict[Variable, int] = {}  # the last place that reads what looks at a variable
    for i, read in enumerate(read_by(order, fed)):
        for source in read:
            used.update(dict.fromkeys(looks.get(source, NOTHING), i))
    fetched: dict[Variable, set[Node]] = {}
    for node in fetches:
        for variable in looks.get(node, NOTHING):
            fetched.setdefault(variable, set()).add(node)
    return {
        node
        for node, i in place.items()
        if all(used.get(v, -1) < i and fetched.get(v, set()) <= {node} for v in node.op.writes)
    }


def _may_be(node: Node) -> Sequence[Node]:
    """Return the inputs and variables with which the array of `node` may share memory."""
    op = node.op
    inputs: tuple[Node, ...] = node.inputs
    if isinstance(op, StateOp) and not op.hands_on:
        return (op.variable,) if isinstance(op, Read) else op.writes
    if is_fresh(op):
        return ()
    return inputs[:1] if isinstance(op, SHAPED) else inputs


def running_order(fetches: Sequence[Node], fed: Collection[Node]) -> list[Node]:
    """Return the needed nodes in running order, updates as early as they can be."""
    order = schedule(fetches, fed)
    if not any(_is_soon(node) for node in order):
        return order
    # a rate that was built last must not hold its update back
    order = sorted(order, key=lambda n: bool(n.control_inputs) or not isinstance(n, Constant))
    after: dict[int, list[Node]] = {}
    for node, place in _earliest(order, fed).items():
        after.setdefault(place, []).append(node)
    moved = {node for nodes in after.values() for node in nodes}
    order_run = after.get(-1, [])
    for i, node in enumerate(order):
        if node not in moved:
            order_run.append(node)
        order_run += after.get(i, ())
    return order_run


def _earliest(order: Sequence[Node], fed: Collection[Node]) -> dict[Node, int]:
    """Return for each update the place in `order` right after which it may run."""
    looks = find_shared_variables(order, fed)
    place: dict[Node, int] = {}  # where each node runs; an update right after that
    touched: dict[Variable, int] = {}  # the last place so far that needs a variable as it is
    effect = -1
    earliest: dict[Node, int] = {}
    ordered = select_ordered(order)
    for i, (node, before) in enumerate(zip(order, before_each(order, fed), strict=True)):
        place[node] = i
        if _is_soon(node) and node not in fed:
            waits = [place[n] for n in before] + [touched.get(v, -1) for v in node.op.writes]
            place[node] = earliest[node] = max(effect, *waits)
        elif node in ordered and node not in fed:
            # it does more than give a value and write variables that it names
            effect = effect if isinstance(node.op, Read) or node.op.writes else i
        for source in (node, *before):
            for variable in looks[source]:
                touched[variable] = max(touched.get(variable, -1), place[node])
    return earliest


def _is_soon(node: Node) -> bool:
    return isinstance(node.op, StateOp) and node.op.soon
