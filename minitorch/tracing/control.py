"""`cond` and `while_loop` for every kind of value: nodes, traced tensors, and tensors at once.

Code written with them means the same traced and eager, which is what lets a traced function branch
and loop on numbers that only a run can tell.
"""

from collections.abc import Callable, Sequence
from typing import Any

from minitorch.graph.control import cond as graph_cond
from minitorch.graph.control import loop as graph_loop
from minitorch.graph.core.gradients import Identity
from minitorch.graph.core.node import Node
from minitorch.pytree import map_leaves
from minitorch.tensor.tensor import Tensor
from minitorch.tracing.switch import current, is_tracing
from minitorch.tracing.symbol import Symbol


def cond(
    pred: object,
    true_fn: Callable[[], object] | None = None,
    false_fn: Callable[[], object] | None = None,
    strict: bool = False,
    name: str | None = None,
) -> Any:
    """Return what `true_fn` gives where `pred` holds, else what `false_fn` gives.

    Nodes and traced tensors: both functions are called now, to build, and a run computes one side
    only; see `minitorch.graph.control.cond.cond` for the further arguments. Tensors: only the
    chosen function is called.

    Raises:
        GraphError: the predicate is not one boolean, or the sides differ in structure or type.
    """
    yes, no = graph_cond.two_functions(true_fn, false_fn)
    if is_tracing() and isinstance(pred, Tensor):
        current().bring_views_up_to_date()
        chosen = graph_cond.cond(lower(pred), build_with(yes), build_with(no), strict, name)
        return lift(chosen)
    if isinstance(pred, Tensor | bool):
        return graph_cond.unpack_single(yes() if pred else no(), strict)
    return graph_cond.cond(pred, yes, no, strict, name)


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Return the variables after `body` has been run as long as `cond` holds.

    Nodes: as TensorFlow's; see `minitorch.graph.control.loop.while_loop` for the further arguments.
    Traced tensors: the same, written with tensors. Tensors: a Python loop, at once.
    """
    values = list(loop_vars)
    if is_tracing():
        current().bring_views_up_to_date()
        start = lower(loop_vars)
        return lift(
            graph_loop.while_loop(build_with(cond), build_with(body), start, *args, **kwargs)
        )
    if not has_tensors(values):
        return graph_loop.while_loop(cond, body, loop_vars, *args, **kwargs)
    while cond(*values):
        after = body(*values)
        values = list(after) if isinstance(after, list | tuple) else [after]
    if len(values) == 1:
        return values[0]
    return tuple(values) if isinstance(loop_vars, tuple) else values


def has_tensors(values: Sequence[object]) -> bool:
    """Tell whether there is a tensor among these values or in a structure of them."""
    leaves: list[object] = []
    map_leaves(leaves.append, values)
    return any(isinstance(leaf, Tensor) for leaf in leaves)


def build_with(function: Callable[..., object]) -> Callable[..., Any]:
    """Return a function of nodes that calls `function`, which is written for tensors."""

    def on_nodes(*nodes: object) -> Any:
        with current().in_block(nodes):
            return lower(function(*[lift(node) for node in nodes]))

    return on_nodes


def lower(value: object) -> Any:
    """Return nodes for the tensors in a value or a structure of them."""
    tracer = current()
    return map_leaves(
        lambda leaf: tracer.node_of(leaf) if isinstance(leaf, Tensor) else leaf, value
    )


def lift(value: object) -> Any:
    """Return traced tensors for the nodes in a value or a structure of them."""
    tracer = current()

    def lifted(leaf: object) -> object:
        if not isinstance(leaf, Node):
            return leaf
        leaves = tracer.leaves() if leaf.dtype.kind == "f" else ()
        symbol = Symbol.of(leaf, tracer, bool(leaves))
        symbol.op, symbol.inputs = leaf.op or Identity(), leaves  # no leaf, and made of any
        return symbol

    return map_leaves(lifted, value)
