"""`while_loop`: a body that is run as often as a condition says, known only at run time.

The loop is one node (`while_op`). Its gradient is a loop again (`loop_gradient`); `lower` takes it
apart into the operators that a token executor runs.

Source: Yu et al., Dynamic Control Flow in Large-Scale Machine Learning, EuroSys 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import GraphError
from ..ops.logic import logical_and
from .control import as_predicate
from .history import kind_of, placeholder_like
from .node import (
    Constant,
    Node,
    Placeholder,
    StaticShape,
    UnknownShape,
    as_shape,
    build,
    convert,
)
from .scope import outside
from .while_op import KEPT_APART, While, loop_outputs


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    shape_invariants: Sequence[Any] | None = None,
    parallel_iterations: int = KEPT_APART,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
) -> Any:
    """Return the loop's variables after `body` has been run as long as `cond` holds.

    Args:
        cond: (*variables) -> one boolean node; called once, to build.
        body: (*variables) -> the variables' next values, of the same dtypes and shapes.
        loop_vars: the first values.
        shape_invariants: a shape for each variable, None for each size that a round may change.
        parallel_iterations: rounds that a token executor may have under way at once.
        back_prop: False makes the results constants for gradients.
        swap_memory: taken for TensorFlow's sake; no effect.
        maximum_iterations: stop after so many rounds, a number or a node.
    Returns: a list or tuple as `loop_vars` is; the node itself when there is one variable.
    Raises:
        GraphError: there is no variable; the body gives another number, dtype or shape of values.

    Gradients of any order flow through it, also where the number of rounds depends on data.
    """
    if not isinstance(loop_vars, list | tuple) or not loop_vars:
        raise GraphError(
            f"while_loop: got loop_vars {loop_vars!r}, expected a list or tuple of one or more. "
            "A loop without a variable never ends."
        )
    if parallel_iterations < 1:
        raise GraphError(
            f"while_loop: got parallel_iterations {parallel_iterations}, expected 1 or more."
        )
    kind = tuple if isinstance(loop_vars, tuple) else list
    if maximum_iterations is not None:
        cond, body, loop_vars = _limited(cond, body, loop_vars, maximum_iterations)
        shape_invariants = None if shape_invariants is None else [(), *shape_invariants]
    first = [convert(value) for value in loop_vars]
    loop = _traced(cond, body, first, shape_invariants, parallel_iterations)
    outputs = loop_outputs(loop, first, name)
    if not back_prop:
        outputs = [_stopped(node) for node in outputs]
    outputs = outputs[1:] if maximum_iterations is not None else outputs
    if len(outputs) == 1:
        return outputs[0]
    return kind(outputs)


def _limited(cond: Any, body: Any, loop_vars: Sequence[Any], limit: Any) -> Any:
    """Return the three with a counter in front that ends the loop at `limit`."""
    most = convert(limit)

    def still(count: Node, *variables: Node) -> Any:
        return logical_and(count < most, as_predicate("while_loop", cond(*variables)))

    def counted(count: Node, *variables: Node) -> Any:
        found = body(*variables)
        return (count + 1, *(found if isinstance(found, list | tuple) else [found]))

    return still, counted, [Constant(0, most.dtype), *loop_vars]


def _traced(
    cond: Any, body: Any, first: Sequence[Node], invariants: Any, parallel_iterations: int
) -> While:
    """Return the loop whose condition and body the two functions build."""
    shapes = [v.shape for v in first] if invariants is None else list(invariants)
    if len(shapes) != len(first):
        raise GraphError(
            f"while_loop: got {len(shapes)} shape_invariants, expected {len(first)}, one for each "
            "variable."
        )
    with outside():
        variables = [_variable(v, s) for v, s in zip(first, shapes, strict=True)]
        test = as_predicate("while_loop", cond(*variables))
        found = body(*variables)
        after = [convert(v) for v in (found if isinstance(found, list | tuple) else [found])]
    _check(variables, after)
    return While(test, after, variables, parallel_iterations)


def _variable(first: Node, shape: Any) -> Placeholder:
    """Return the placeholder of a variable that starts from `first`, of the shape it keeps."""
    variable = placeholder_like(first, "loop_var")
    wanted = variable.shape if isinstance(shape, UnknownShape) else as_shape(shape)
    if isinstance(wanted, UnknownShape) or isinstance(first.shape, UnknownShape):
        variable.shape = wanted
        return variable
    if not _fits(first.shape, wanted):
        raise GraphError(
            f"while_loop: got a first value of shape {first.shape}, expected {wanted}, its "
            f"shape_invariant (node {first.name!r} built at {first.location})."
        )
    variable.shape = StaticShape(wanted)
    return variable


def _fits(got: Sequence[int | None], want: Sequence[int | None]) -> bool:
    return len(got) == len(want) and all(
        w is None or w == g for g, w in zip(got, want, strict=True)
    )


def _check(variables: Sequence[Node], after: Sequence[Node]) -> None:
    if len(variables) != len(after):
        raise GraphError(
            f"while_loop: the body gives {len(after)} values, expected {len(variables)}, one for "
            "each variable."
        )
    for i, (old, new) in enumerate(zip(variables, after, strict=True)):
        same = old.dtype == new.dtype
        if same and not isinstance(old.shape, UnknownShape):
            same = not isinstance(new.shape, UnknownShape) and _fits(new.shape, old.shape)
        if not same:
            raise GraphError(
                f"while_loop: variable {i} changes from {old.dtype} {old.shape} to {new.dtype} "
                f"{new.shape} in the body (built at {new.location}). Keep it, or say in "
                "shape_invariants which sizes vary."
            )


def _stopped(node: Node) -> Node:
    from .gradients import StopGradient

    return build(StopGradient(), (node,), kind=kind_of(node))
