"""A computation as it was: every value in order, and what the reverse sweep did, step by step.

Three kinds of values give one record: tensors, which have their numbers; nodes of a dataflow graph,
whose numbers a session computes; and a learner's own nodes, which nobody here can run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.arrays.library import Array, to_numpy
from minitorch.errors import ArgumentError
from minitorch.graph.core.node import Constant, Node
from minitorch.graph.core.placeholders import Placeholder
from minitorch.graph.core.session import Session
from minitorch.graph.core.variables import initialize_variables
from minitorch.op import Value
from minitorch.ops.elementwise.unary import ones_like
from minitorch.show.asked import MOST
from minitorch.sweep import ancestors, count_uses
from minitorch.tensor.modes import no_grad
from minitorch.vjp import on_values

if TYPE_CHECKING:
    from minitorch.tensor.tensor import Tensor


@dataclass(frozen=True)
class Visit:
    """One value in the reverse sweep: its complete gradient, and the share of each input."""

    place: int
    grad: Any
    shares: tuple[tuple[int, Any], ...]


@dataclass
class Record:
    """A computation.

    Attributes:
        names, ops, types: of each value, inputs before users; ops are "" for leaves.
        inputs: the places of each value's inputs.
        controls: the places of what each value only runs after.
        numbers: its array, None where it has none.
        roots: the places of the values that were asked for.
        hidden: how many values were left out.
        visits: the reverse sweep, from the root down; empty where there is none.
        uses: how many shares the gradient of each value is the sum of.
        problem: what stopped the reverse sweep, "" for nothing.
    """

    names: list[str]
    ops: list[str]
    types: list[str]
    inputs: list[tuple[int, ...]]
    controls: list[tuple[int, ...]]
    numbers: list[Any]
    roots: list[int]
    hidden: int
    visits: list[Visit] = field(default_factory=list)
    uses: dict[int, int] = field(default_factory=dict)
    problem: str = ""


def record(
    root: Value,
    names: Mapping[int, str],
    feed_dict: Mapping[Node, object] | None = None,
    session: Session | None = None,
) -> Record:
    """Return the computation behind `root`.

    Raises:
        ArgumentError: `root` is no value.
    """
    if not isinstance(root, Value):
        raise ArgumentError(
            f"step_through: got {type(root).__name__}, expected a tensor or a node of a graph."
        )
    computation, order = structure([root], names, MOST)
    if isinstance(root, Node):
        _run(computation, order, root, feed_dict, session)
    elif hasattr(root, "array"):
        _go_back(computation, order, root)
    return computation


def structure(
    roots: Sequence[Value], names: Mapping[int, str], limit: int
) -> tuple[Record, list[Any]]:
    """Return a record of what is there without a run or a sweep, and the values in its order."""
    order, hidden = nearest(roots, limit)
    place = {id(value): i for i, value in enumerate(order)}
    inputs, controls = (
        [tuple(place[id(s)] for s in before(value) if id(s) in place) for value in order]
        for before in (inputs_of, controls_of)
    )
    ops = ["" if value.op is None else value.op.name for value in order]
    called = []
    counts: dict[str, int] = {}
    for value, op in zip(order, ops, strict=True):
        name = names.get(id(value)) or getattr(value, "name", None)
        base = str(name or op or "input")
        counts[base] = counts.get(base, 0) + 1
        called.append(base if name or counts[base] == 1 else f"{base} {counts[base]}")
    types = [_type(value) for value in order]
    numbers = [_number(value) for value in order]
    ends = [place[id(root)] for root in roots if id(root) in place]
    return Record(called, ops, types, inputs, controls, numbers, ends, hidden), order


def _type(value: Value) -> str:
    if getattr(value.shape, "ndims", 0) is None:
        return str(value.dtype)
    return f"{tuple(value.shape)} {value.dtype}"


def _number(value: Value) -> Array | None:
    """Return a tensor's array, or the number that a constant or a learner's own node holds."""
    if hasattr(value, "array"):
        return to_numpy(value.array)
    array = np.asarray(getattr(value, "value", None))
    return array if array.dtype.kind in "biuf" else None


def _go_back(record: Record, order: "Sequence[Tensor]", root: Any) -> None:
    if root.requires_grad:
        seed = ones_like(root.detach())
        uses = count_uses([root], lambda value: value.requires_grad)
        with no_grad():
            _sweep(record, order, root, seed, uses)
        record.visits = _in_arrays(record.visits, lambda value: to_numpy(value.array))


def _in_arrays(visits: Sequence[Visit], array: Callable[[Any], Any]) -> list[Visit]:
    """Return visits with arrays for their gradients; each is asked for once, in order."""
    return [
        Visit(v.place, array(v.grad), tuple((i, array(s)) for i, s in v.shares)) for v in visits
    ]


def _sweep(
    record: Record, order: Sequence[Value], root: Value, seed: Any, uses: dict[Value, int]
) -> None:
    """Add the visits of a reverse sweep, with gradients of the values' own kind.

    It is the reverse sweep without its hooks, which must not hear of a picture. An operator
    whose gradient fails ends it; the record says so.
    """
    place = {id(value): i for i, value in enumerate(order)}
    record.uses = {place[id(v)]: count for v, count in uses.items() if id(v) in place}
    waits, pending, ready = dict(uses), {root: seed}, [root]
    while ready:
        value = ready.pop()
        grad = pending.pop(value, None)
        shares: Sequence[Any] = ()
        if value.op is not None and grad is not None:
            try:
                shares = on_values(value, grad)
            except Exception as error:  # a learner's rule may raise anything
                record.problem = f"{type(error).__name__}: {error}"
                return
        own_shares = []
        for source, share in zip(inputs_of(value), shares or repeat(None), strict=False):
            if source not in waits:
                continue
            if share is not None:
                pending[source] = pending[source] + share if source in pending else share
                own_shares += [(place[id(source)], share)] if id(source) in place else []
            waits[source] -= 1
            ready += [] if waits[source] else [source]
        if id(value) in place and grad is not None:
            record.visits.append(Visit(place[id(value)], grad, tuple(own_shares)))


# ── what a value was computed from ───────────────────────────────────────────────────────────────


def inputs_of(value: Value) -> tuple[Value, ...]:
    """Return what a value was computed from; nothing for a leaf."""
    return tuple(value.inputs) if value.op is not None else ()


def controls_of(value: Value) -> tuple[Value, ...]:
    """Return the nodes after which a node runs without using their values."""
    return tuple(getattr(value, "control_inputs", ()))


def _before(value: Value) -> tuple[Value, ...]:
    return inputs_of(value) + controls_of(value)


def nearest(roots: Sequence[Any], limit: int) -> tuple[list[Any], int]:
    """Return the `limit` values nearest to the roots, inputs first, and how many more there are."""
    by_distance: dict[int, Any] = {id(value): value for value in roots}
    level = list(by_distance.values())
    while level:
        following = []
        for value in level:
            for source in _before(value):
                if id(source) not in by_distance:
                    by_distance[id(source)] = source
                    following.append(source)
        level = following
    nearest_values = dict(list(by_distance.items())[:limit])
    order = inputs_first(
        list(nearest_values.values()),
        lambda value: [s for s in _before(value) if id(s) in nearest_values],
    )
    return order, len(by_distance) - len(nearest_values)


def inputs_first(
    roots: Sequence[Any], before: Callable[[Any], Sequence[Any]], seen: set[int] | None = None
) -> list[Any]:
    """Return the roots and all before them, but those `seen`, each behind what it comes from."""
    order: list[Any] = []
    seen = set() if seen is None else seen
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        value, ready = stack.pop()
        if ready:
            order.append(value)
        elif id(value) not in seen:
            seen.add(id(value))
            stack.append((value, True))
            stack += [(source, False) for source in reversed(before(value))]
    return order


# ── nodes, whose numbers a session computes ─────────────────────────────────────────────────────


def _run(
    record: Record,
    order: Sequence[Node],
    root: Node,
    feed_dict: Mapping[Node, object] | None,
    session: Session | None,
) -> None:
    needs_feed = any(isinstance(node, Placeholder) and node.default is None for node in order)
    if session is None and feed_dict is None and needs_feed:
        return
    own = Session(root.graph, optimize=False)
    bring_variables(own, session)
    _add_symbolic_visits(record, order, root)
    readable = [i for i, node in enumerate(order) if not getattr(node.op, "writes", ())]
    flat = [g for visit in record.visits for g in (visit.grad, *(s for _, s in visit.shares))]
    values = iter(own.run([*(order[i] for i in readable), *flat], feed_dict))
    for i in readable:
        record.numbers[i] = _as_array(next(values))
    record.visits = _in_arrays(record.visits, lambda _: _as_array(next(values)))


def bring_variables(own: Session, session: Session | None) -> None:
    """Give a picture's own session the variables of another, else their initial values.

    So what a picture runs changes no variable of anybody's.
    """
    if session is not None:
        own.state.values = {v: np.copy(array) for v, array in session.state.values.items()}
        return
    with own.graph.as_default():
        own.run(initialize_variables(own.graph.variables))


def _add_symbolic_visits(record: Record, order: Sequence[Node], root: Node) -> None:
    """Add visits with nodes for gradients; none where the graph cannot be differentiated."""
    leaves = [n for n in order if n.op is None and not isinstance(n, Constant)]
    between = ancestors([leaf for leaf in leaves if leaf.dtype.kind == "f"], [root])
    if root.dtype.kind == "f" and root in between:
        uses = count_uses([root], between.__contains__)
        with root.graph.as_default():
            _sweep(record, order, root, ones_like(root), uses)


def _as_array(value: object) -> Array | None:
    return None if value is None or not hasattr(value, "dtype") else np.asarray(value)
