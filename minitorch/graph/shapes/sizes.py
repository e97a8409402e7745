"""Functions that compute with sizes which only a run knows: put off until they are known.

`late` stands for their results. What is known of those before the run is what comes of trials: the
function is built with several numbers in place of each size that is not known, and a size of its
result that changes with them is not known either. May import nothing of the graph but what is known
of shapes: nodes use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import GraphError, MinitorchError
from ...op import Value
from ...pytree import Rebuild, walk
from .deferred import late, unknown

if TYPE_CHECKING:
    from ..core.node import Node

GUESSES = (2, 3, 12, 60)  # the last two for windows, for groups and for the largest k
Build = Callable[..., Any]


def over_nodes(
    function: Build, args: Sequence[object], options: dict[str, object]
) -> tuple[list[Node], Build]:
    """Return the nodes among the arguments, and the function of others in their places."""
    nodes: list[Any] = []

    def leaf(value: object) -> Rebuild:
        if not isinstance(value, Value):
            return lambda _: value
        nodes.append(value)
        return next

    fill = walk([list(args), options], leaf, lambda value: type(value) not in (list, tuple))

    def build(*others: Node) -> object:
        values, named = fill(iter(others))
        return function(*values, **named)

    return nodes, build


def comes_of_none(error: TypeError, nodes: Iterable[Node]) -> bool:
    """Tell whether an error comes of computing with a size of these nodes, which is None."""
    sized = (node for node in nodes if not unknown(node))
    return "NoneType" in str(error) and any(None in node.shape for node in sized)


def once_sized(
    stand_ins: Callable[[Sequence[Node], int], list[Node]],
    function: Build,
    args: Sequence[object],
    options: dict[str, object],
    error: TypeError,
) -> Any:
    """Return the result of `function`, or what it consists of, built once the sizes are known.

    Args:
        stand_ins: returns placeholders for nodes, with a number for each size that is not known.
        error: what came of computing with None.
    Raises:
        TypeError: all sizes are known, so it has another reason.
        GraphError: no guess fits, or how many results there are depends on a size.
    """
    nodes, build = over_nodes(function, args, options)
    if not comes_of_none(error, nodes):
        raise error
    trials, misfit = _trials(build, lambda size: stand_ins(nodes, size))
    if len({len(values) for values, _ in trials}) != 1:
        shapes = " and ".join(str(tuple(node.shape)) for node in nodes)
        raise GraphError(
            f"{function.__name__}: what it gives depends on a size that only the run knows: got "
            f"shape {shapes}, expected it known. Give the placeholder that size."
        ) from misfit
    results, rebuild = trials[-1]
    each = range(len(results))
    return rebuild(_late(build, nodes, i, [values[i] for values, _ in trials]) for i in each)


def _trials(
    build: Build, stand_ins: Callable[[int], list[Node]]
) -> tuple[list[tuple[list[Node], Rebuild]], MinitorchError | None]:
    """Return what is built with each of the guesses that fit, and what the last misfit was told."""
    trials, misfit = [], None
    for size in GUESSES:
        try:
            trials.append(_take_apart(build(*stand_ins(size))))
        except MinitorchError as error:
            misfit = error
    return trials, misfit


def _late(build: Build, nodes: Sequence[Node], i: int, trials: Sequence[Node]) -> Node:
    """Return what stands for the i-th result, with what trials agree on."""
    shapes = zip(*[tuple(trial.shape) for trial in trials], strict=True)
    sizes = [n if others and {*others} == {n} else None for n, *others in shapes]

    def part(*known: Node) -> Node:
        return _take_apart(build(*known))[0][i]

    return late(part, nodes, trials[0].dtype, sizes)  # type: ignore[no-any-return]


def _take_apart(result: object) -> tuple[list[Node], Rebuild]:
    """Return the values that a result consists of, and what makes a result of such values."""
    values: list[Any] = []

    def leaf(value: object) -> Rebuild:
        values.append(value)
        return next

    return values, walk(result, leaf)
