"""A computation as it was: every value in order, and what the reverse sweep did, step by step.

Three kinds of graph give one record: tensors, which have their numbers; nodes of a dataflow graph,
whose numbers a session computes; and any objects with `inputs`, a learner's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.arrays import Array, to_numpy
from minitorch.errors import ArgumentError
from minitorch.op import Value
from minitorch.ops.elementwise import ones_like
from minitorch.recording import no_grad
from minitorch.show import trace
from minitorch.show.record import Record, Visit, inputs_of, structure
from minitorch.show.recorded_own import record_own, with_numbers
from minitorch.sweep import ancestors, count_uses
from minitorch.tensor import Tensor
from minitorch.vjp import on_values

if TYPE_CHECKING:
    from minitorch.graph.core.node import Node
    from minitorch.graph.core.session import Session


def record(
    root: Value,
    *,
    names: Mapping[int, str],
    limit: int,
    feed_dict: Mapping[Node, object] | None = None,
    session: Session | None = None,
) -> Record:
    """Return the computation behind `root`.

    Raises:
        ArgumentError: `root` is neither a value nor has `inputs`.
    """
    from minitorch.graph.core.node import Node

    if isinstance(root, Value):
        kept, hidden = trace._nearest([root], limit)
        order = trace._inputs_first(kept)
        made = structure(order, [root], names, hidden)
        if hasattr(root, "array"):
            return _eager(made, order, root)
        if isinstance(root, Node):
            return _run(made, order, root, feed_dict, session)
        return with_numbers(made, order)  # a learner's node: nobody here knows how to run it
    if not hasattr(root, "inputs"):
        raise ArgumentError(
            f"step_through: got {type(root).__name__}, expected a tensor, a node of a graph, or an "
            "object whose `inputs` are the objects that it was computed from."
        )
    return record_own(root, names, limit)


# ── tensors ─────────────────────────────────────────────────────────────────────────────────────


def _eager(made: Record, order: Sequence[Tensor], root: Any) -> Record:
    made.numbers = [to_numpy(value.array) for value in order]
    if root.requires_grad:
        seed = ones_like(root.detach())
        uses = count_uses([root], lambda value: value.requires_grad)
        with no_grad():
            found = _sweep(made, order, root, seed, uses)
        made.visits = [
            Visit(v.place, _array(v.grad), tuple((i, _array(s)) for i, s in v.shares))
            for v in found
        ]
    return made


def _sweep(
    made: Record, order: Sequence[Value], root: Value, seed: Any, uses: dict[Value, int]
) -> list[Visit]:
    """Return the visits of a reverse sweep, with gradients of the values' own kind.

    It is the reverse sweep without its hooks, which must not hear of a picture. An operator
    whose gradient fails ends it; the record says so.
    """
    place = {id(value): i for i, value in enumerate(order)}
    made.uses = {place[id(v)]: count for v, count in uses.items() if id(v) in place}
    waits, pending, ready = dict(uses), {root: seed}, [root]
    found: list[Visit] = []
    while ready:
        value = ready.pop()
        grad = pending.pop(value, None)
        shares: Sequence[Any] = ()
        if value.op is not None and grad is not None:
            try:
                shares = on_values(value, grad)
            except Exception as error:  # a learner's rule may raise anything
                made.problem = f"{type(error).__name__}: {error}"
                return found
        given = (
            zip(value.inputs, shares, strict=False)
            if shares
            else ((source, None) for source in inputs_of(value))
        )
        kept = []
        for source, share in given:
            if source not in waits:
                continue
            if share is not None:
                pending[source] = pending[source] + share if source in pending else share
                kept += [(place[id(source)], share)] if id(source) in place else []
            waits[source] -= 1
            ready += [] if waits[source] else [source]
        if id(value) in place and grad is not None:
            found.append(Visit(place[id(value)], grad, tuple(kept)))
    return found


def _array(value: Any) -> Array:
    return to_numpy(value.array)


# ── nodes, whose numbers a session computes ─────────────────────────────────────────────────────


def _run(
    made: Record,
    order: Sequence[Node],
    root: Node,
    feed_dict: Mapping[Node, object] | None,
    session: Session | None,
) -> Record:
    if session is None and feed_dict is None and any(_needs_feed(node) for node in order):
        return made
    own, grads = _open(session, root), _symbolic(made, order, root)
    wanted = [i for i, node in enumerate(order) if not getattr(node.op, "writes", ())]
    flat = [g for visit in grads for g in (visit.grad, *(s for _, s in visit.shares))]
    values = iter(own.run([*(order[i] for i in wanted), *flat], feed_dict))
    for i in wanted:
        made.numbers[i] = _as_array(next(values))
    made.visits = [
        Visit(
            visit.place,
            _as_array(next(values)),
            tuple((i, _as_array(next(values))) for i, _ in visit.shares),
        )
        for visit in grads
    ]
    return made


def _needs_feed(node: Node) -> bool:
    from minitorch.graph.core.node import Placeholder

    return isinstance(node, Placeholder) and node.default is None


def _open(session: Session | None, root: Node) -> Session:
    """Return a session of our own, so that what a picture runs changes no variable of anybody's."""
    from minitorch.graph.core.session import Session
    from minitorch.graph.core.variables import initialize_variables

    own = Session(root.graph, optimize=False)
    if session is not None:
        own.state.values = {v: np.copy(array) for v, array in session.state.values.items()}
        return own
    with root.graph.as_default():
        own.run(initialize_variables(root.graph.variables))
    return own


def _symbolic(made: Record, order: Sequence[Node], root: Node) -> list[Visit]:
    """Return the visits with nodes for gradients; none where the graph cannot be differentiated."""
    if root.dtype.kind != "f":
        return []
    leaves = [n for n in order if n.op is None and n.dtype.kind == "f" and not _constant(n)]
    between = ancestors(leaves, [root])
    if root not in between:
        return []
    uses = count_uses([root], between.__contains__)
    with root.graph.as_default():
        return _sweep(made, order, root, ones_like(root), uses)


def _constant(node: Node) -> bool:
    from minitorch.graph.core.node import Constant

    return isinstance(node, Constant)


def _as_array(value: object) -> Array | None:
    return None if value is None or not hasattr(value, "dtype") else np.asarray(value)
