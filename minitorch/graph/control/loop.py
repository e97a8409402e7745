"""`while_loop`: a body that is run as often as a condition says, known only at run time.

The loop is one node (`while_op`). Its gradient is a loop again (`loop_gradient`); `lower` takes it
apart into the operators that a token executor runs.

Source: Yu et al., Dynamic Control Flow in Large-Scale Machine Learning, EuroSys 2018.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ...arrays.shapes import INTEGERS
from ...errors import GraphError
from ..core.graph import outside
from ..core.node import Node, StaticShape, UnknownShape, as_shape
from ..core.placeholders import Placeholder
from ..core.structures import flatten_with_rebuild, leaves_like, same_structure
from .cond import as_predicate
from .loop_stacks import loop_outputs, placeholder_like
from .while_op import KEPT_APART, While


def while_loop(
    cond: Callable[..., object],
    body: Callable[..., object],
    loop_vars: Sequence[object],
    shape_invariants: Sequence[object] | None = None,
    parallel_iterations: int = KEPT_APART,
    name: str | None = None,
) -> Any:
    """Return the loop's variables after `body` has been run as long as `cond` holds.

    Args:
        cond: (*variables) -> one boolean node; called once, to build.
        body: (*variables) -> the variables' next values, of the same dtypes and shapes.
        loop_vars: the first values; each a node, an array, or a structure of them.
        shape_invariants: a shape for each variable, None for each size that a round may change.
        parallel_iterations: rounds that a token executor may have under way at once.
    Returns: a list or tuple as `loop_vars` is; the node itself when there is one variable.
    Raises:
        GraphError: there is no variable; the body gives another number, dtype or shape of values.

    Gradients of any order flow through it, also where the number of rounds depends on data.
    """
    _refuse_nonsense(cond, body, loop_vars, parallel_iterations)
    loop_vars = loop_vars if isinstance(loop_vars, tuple) else list(loop_vars)
    first, rebuild = flatten_with_rebuild(loop_vars, listed=True)
    shapes = _list_shapes(loop_vars, shape_invariants, first)
    with outside():
        now = [_variable(v, s) for v, s in zip(first, shapes, strict=True)]
        test = as_predicate("while_loop", cond(*rebuild(now)))
        results = body(*rebuild(now))
        after = _next_values(loop_vars, results if isinstance(results, list | tuple) else [results])
    _check(now, after)
    loop = While.capture(test, after, now, parallel_iterations)
    values = rebuild(loop_outputs(loop, first, name))
    return values[0] if len(values) == 1 else values


def _refuse_nonsense(
    cond: object, body: object, loop_vars: object, parallel_iterations: int
) -> None:
    """Raise where the arguments make no loop."""
    if not isinstance(loop_vars, list | tuple) or not loop_vars:
        raise GraphError(
            f"while_loop: got loop_vars {loop_vars!r}, expected a list or tuple of one or more. "
            "A loop without a variable never ends."
        )
    for function in (cond, body):
        if not callable(function):
            raise TypeError(
                f"while_loop: got {type(function).__name__}, expected functions for cond and body. "
                "Write lambda i: i < n."
            )
    whole = isinstance(parallel_iterations, INTEGERS)
    if not whole or isinstance(parallel_iterations, bool) or parallel_iterations < 1:
        raise GraphError(
            f"while_loop: got parallel_iterations {parallel_iterations!r}, expected an integer, 1 "
            "or more."
        )


def _list_shapes(
    loop_vars: Sequence[object], invariants: Sequence[object] | None, first: Sequence[Node]
) -> list[object]:
    """Return the shape that each leaf keeps: that of its first value, unless told."""
    if invariants is None:
        return [leaf.shape for leaf in first]
    if len(invariants) != len(loop_vars):
        raise GraphError(
            f"while_loop: got {len(invariants)} shape_invariants, expected {len(loop_vars)}, one "
            "for each variable."
        )
    pairs = zip(loop_vars, invariants, strict=True)
    return [leaf for var, shape in pairs for leaf in leaves_like("shape_invariants", var, shape)]


def _next_values(loop_vars: Sequence[object], after: Sequence[object]) -> list[Node]:
    """Return the leaves of what a body gave, which must be built as the variables are."""
    if len(after) != len(loop_vars):
        raise GraphError(
            f"while_loop: the body gives {len(after)} values, expected {len(loop_vars)}, one for "
            "each variable."
        )
    pairs = zip(after, loop_vars, strict=True)
    return [leaf for new, old in pairs for leaf in same_structure("while_loop", new, old)]


def _variable(first: Node, shape: object) -> Placeholder:
    """Return the placeholder of a variable that starts from `first`, of the shape it keeps."""
    variable = placeholder_like(first, "loop_var")
    stays = variable.shape if isinstance(shape, UnknownShape) else as_shape(shape)
    if isinstance(stays, UnknownShape) or isinstance(first.shape, UnknownShape):
        variable.shape = stays
        return variable
    if not _stays_within(first.shape, stays):
        raise first.error(
            f"while_loop: got a first value of shape {first.shape}, expected {stays}, its "
            "shape_invariant."
        )
    variable.shape = StaticShape(stays)
    return variable


def _stays_within(got: Sequence[int | None], want: Sequence[int | None]) -> bool:
    return len(got) == len(want) and all(
        w is None or w == g for g, w in zip(got, want, strict=True)
    )


def _check(variables: Sequence[Node], after: Sequence[Node]) -> None:
    for i, (old, new) in enumerate(zip(variables, after, strict=True)):
        same = old.dtype == new.dtype
        if same and not isinstance(old.shape, UnknownShape):
            same = not isinstance(new.shape, UnknownShape) and _stays_within(new.shape, old.shape)
        if not same:
            raise new.error(
                f"while_loop: variable {i} changes from {old.dtype} {old.shape} to {new.dtype} "
                f"{new.shape} in the body. Keep it, or say in shape_invariants which sizes vary."
            )
