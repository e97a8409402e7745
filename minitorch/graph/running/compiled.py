"""`compile`: a node as a Python function of named arrays, optimised and fused."""

from __future__ import annotations

from collections.abc import Callable
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
    inputs = {n.name: n for n in needed(leaves, ()) if isinstance(n, Placeholder | Variable)}
    optional = {
        name: n.initializer
        for name, n in inputs.items()
        if isinstance(n, Variable) and n.initializer is not None
    }

    def function(**arrays: Any) -> Any:
        missing = sorted(inputs.keys() - arrays.keys() - optional.keys())
        unknown = sorted(arrays.keys() - inputs.keys())
        if missing or unknown:
            what = f"missing {', '.join(missing)}" if missing else f"unknown {', '.join(unknown)}"
            raise GraphError(
                f"compile: arguments do not fit: {what}; the inputs are {', '.join(inputs)}."
            )
        for name in optional.keys() - arrays.keys():
            if inputs[name] not in session.state.values:
                session.run(optional[name])
        return session.run(node, {inputs[name]: value for name, value in arrays.items()})

    function.__doc__ = f"Compute it from {', '.join(inputs) or 'nothing'}."
    return function
