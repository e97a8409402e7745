"""`compile`: a node as a Python function of named arrays, optimised and fused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...errors import GraphError
from ..node import Node, Placeholder
from ..order import needed
from ..session import Session
from ..state import Variable


def compile(node: Any) -> Callable[..., Any]:
    """Return a function that computes `node` (or a structure of nodes) from named arrays.

        A, B = Variable("A"), Variable("B")
        f = compile(B * A + Constant(1))
        f(A=ones(10), B=ones(10) * 2)

    The names are those of the placeholders and variables that the node depends on. A variable
    with an initial value may be left out, and then has that.

    Raises:
        GraphError: (when called) an argument is missing or unknown; lists the names.
    """
    session = Session(optimize=True)
    leaves: list[Node] = []
    session._flatten(node, leaves)
    inputs: dict[str, Node] = {
        n.name: n for n in needed(leaves, ()) if isinstance(n, Placeholder | Variable)
    }
    known: dict[tuple[str, ...], list[Node]] = {}  # the nodes for arguments in an order seen before

    def function(**arrays: Any) -> Any:
        nodes = known.get(tuple(arrays))
        if nodes is None:
            nodes = known[tuple(arrays)] = _inputs_called(arrays, inputs, session)
        return session.run(node, dict(zip(nodes, arrays.values(), strict=True)))

    function.__doc__ = f"Compute it from {', '.join(inputs) or 'nothing'}."
    return function


def _inputs_called(arrays: Iterable[str], inputs: dict[str, Node], session: Session) -> list[Node]:
    """Return the inputs of these names; what is left out gets its initial value.

    Raises:
        GraphError: an argument is missing or unknown; lists the names.
    """
    given = list(arrays)
    starts = {name: n.initializer for name, n in inputs.items() if isinstance(n, Variable)}
    left = inputs.keys() - given
    missing = sorted(name for name in left if starts.get(name) is None)
    unknown = sorted(set(given) - inputs.keys())
    if missing or unknown:
        what = f"missing {', '.join(missing)}" if missing else f"unknown {', '.join(unknown)}"
        raise GraphError(
            f"compile: arguments do not fit: {what}; the inputs are {', '.join(inputs)}."
        )
    for name in left:
        if inputs[name] not in session.state.values:
            session.run(starts[name])
    return [inputs[name] for name in given]
