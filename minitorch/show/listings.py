"""Listings of code, run statement by statement, with what each statement made.

Imperative code makes tensors with numbers; symbolic code makes nodes without, until a session runs
them: then the run is taken apart node by node.
"""

import ast
import io
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import minitorch
import minitorch.graph
from minitorch.arrays.library import Array, to_numpy
from minitorch.graph.core.graph import Graph
from minitorch.graph.core.node import Node
from minitorch.graph.core.order import schedule
from minitorch.graph.core.session import Session
from minitorch.graph.core.structures import flatten
from minitorch.graph.core.variables import NoOp, Variable
from minitorch.show.numbers import brief
from minitorch.show.record import inputs_first, inputs_of
from minitorch.tensor.tensor import Tensor


@dataclass
class Statement:
    """A statement that was run: its lines, what it made and what it printed.

    Attributes:
        new: values that exist since then, inputs first.
        outcome: what there is to see afterwards, in words.
        grads: gradients that leaves have since then.
        computed: for a run of a session: each node's value, in order.
        names: what the code calls the new values, by id.
    """

    lines: list[str]
    new: list[Any] = field(default_factory=list)
    outcome: str = ""
    grads: dict[int, Array] = field(default_factory=dict)
    computed: list[tuple[Any, Any]] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)


class _Watched(Session):
    """A session that remembers its runs, with what the variables were before each."""

    runs: tuple[tuple[list[Node], dict[Any, Any], dict[Node, Any]], ...] = ()

    def run(self, fetches: Any, feed_dict: Any = None, *more: object) -> Any:
        leaves: list[Node] = []
        flatten(fetches, leaves)
        variables = {v: np.copy(array) for v, array in self.state.values.items()}
        self.runs = (*self.runs, (leaves, dict(feed_dict or {}), variables))
        return super().run(fetches, feed_dict)


class _Names:
    """minitorch.graph, with sessions that are watched."""

    Session = _Watched

    def __getattr__(self, name: str) -> Any:
        return getattr(minitorch.graph, name)


def run_imperative(code: str) -> list[Statement]:
    """Return the statements of code over tensors, run."""
    return _run(code, {"mt": minitorch}, Tensor)


def run_symbolic(code: str) -> list[Statement]:
    """Return the statements of code over nodes, run; the session's runs node by node."""
    with Graph().as_default():
        return _run(code, {"tf": _Names()}, Node)


def _run(code: str, names: dict[str, Any], kind: type) -> list[Statement]:
    lines = code.strip("\n").splitlines()
    statements: list[Statement] = []
    known, with_grad, alive, ran = set[int](), set[int](), list[Any](), 0
    for statement in ast.parse("\n".join(lines)).body:
        shown = Statement(lines[statement.lineno - 1 : statement.end_lineno])
        shown.outcome = _execute(statement, names)
        values = [value for value in names.values() if isinstance(value, kind)]
        shown.new = inputs_first(values[::-1], inputs_of, known)
        alive += shown.new
        shown.names = {id(value): name for name, value in names.items()}
        for leaf in alive:
            grad = getattr(leaf, "_grad", None)
            if leaf.op is None and grad is not None and id(leaf) not in with_grad:
                with_grad.add(id(leaf))
                shown.grads[id(leaf)] = to_numpy(grad.array)
        runs = [r for s in names.values() if isinstance(s, _Watched) for r in s.runs]
        for leaves, feeds, state in runs[ran:]:
            shown.computed += _node_by_node(leaves, feeds, state)
        ran = len(runs)
        statements.append(shown)
    return statements


def _execute(statement: ast.stmt, names: dict[str, object]) -> str:
    """Run one statement; return what there is to see afterwards, in words."""
    output = io.StringIO()
    value: Any = None
    with redirect_stdout(output):
        if isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), "<listing>", "eval"), names)
        else:
            exec(compile(ast.Module([statement], []), "<listing>", "exec"), names)
    if printed := output.getvalue().strip():
        return f"prints {printed.splitlines()[0]}"
    if isinstance(statement, ast.Assign):
        value = _find_assigned(statement.targets[0], names)
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value))
    return "" if value is None else _plain(value)


def _find_assigned(target: ast.expr, names: dict[str, object]) -> object:
    """Return what was assigned to a name, or to several."""
    if isinstance(target, ast.Name):
        return names[target.id]
    parts = getattr(target, "elts", [])
    return [names[part.id] for part in parts if isinstance(part, ast.Name)]


def _plain(value: Any) -> str:
    if isinstance(value, Session):
        return "a session"
    if isinstance(value, Node):
        return f"a node, {tuple(value.shape)}, no number"
    if isinstance(value, Tensor):
        value = to_numpy(value.array)
    is_number = hasattr(value, "dtype") or isinstance(value, float | int)
    return brief(value) if is_number else repr(value)


def _node_by_node(
    leaves: list[Node], feeds: dict[Any, Any], state: dict[Node, Any]
) -> list[tuple[object, object]]:
    """Return every node of a run with its value, in the order in which it runs."""
    order = [n for n in schedule(leaves, set(feeds)) if not getattr(n.op, "writes", ())]
    order = [n for n in order if not isinstance(n.op, NoOp)]
    session = Session(leaves[0].graph, optimize=False)
    session.state.values = state
    ready = [n for n in order if not isinstance(n, Variable) or n in state]
    return list(zip(ready, session.run(ready, feeds), strict=True))
