"""`compile`: a node as a Python function of named arrays, optimised and fused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...errors import GraphError
from ..core.fetches import flatten_fetches
from ..core.graph import get_default_graph
from ..core.node import Node, Placeholder
from ..core.order import needed
from ..core.session import Session
from ..core.variables import Variable


def compile(node: Any) -> Callable[..., Any]:
    """Return a function that computes `node` (or a structure of nodes) from named arrays.

        A, B = Variable("A"), Variable("B")
        f = compile(B * A + Constant(1))
        f(A=ones(10), B=ones(10) * 2)

    The names are those that the placeholders and variables which the node depends on were given;
    where two were given the same, they are told apart as their graph does it: A, A_1, which is
    always understood. A variable with an initial value may be left out, and then has that.

    Raises:
        GraphError: (when called) an argument is missing or unknown; lists the names.
    """
    leaves: list[Node] = []
    flatten_fetches(node, get_default_graph(), leaves)
    session = Session(graph=leaves[0].graph if leaves else None, optimize=True)
    inputs = _by_name([n for n in needed(leaves, ()) if isinstance(n, Placeholder | Variable)])
    known: dict[tuple[str, ...], list[Node]] = {}  # the nodes for arguments in an order seen before

    def function(**arrays: Any) -> Any:
        nodes = known.get(tuple(arrays))
        if nodes is None:
            nodes = known[tuple(arrays)] = _inputs_called(arrays, inputs, session)
        return session.run(node, dict(zip(nodes, arrays.values(), strict=True)))

    function.__doc__ = f"Compute it from {', '.join(inputs) or 'nothing'}."
    return function


def _by_name(nodes: Sequence[Placeholder | Variable]) -> dict[str, Node]:
    """Return the nodes by the names that they were given, or have where these do not tell."""
    asked = [node.asked for node in nodes]
    taken = {node.name for node in nodes}
    clear = (asked.count(name) == 1 and name not in taken for name in asked)
    named = zip(nodes, asked, clear, strict=True)
    return {name if is_clear else node.name: node for node, name, is_clear in named}


def _inputs_called(arrays: Iterable[str], inputs: dict[str, Node], session: Session) -> list[Node]:
    """Return the inputs of these names; what is left out gets its initial value.

    Raises:
        GraphError: an argument is missing or unknown; lists the names.
    """
    asked = {node.name: name for name, node in inputs.items()}
    given = [asked.get(name, name) for name in arrays]
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
