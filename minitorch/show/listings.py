"""Listings of code, run statement by statement, with what each statement made.

Imperative code makes tensors with numbers; symbolic code makes nodes without, until a session runs
them: then the run is taken apart node by node.
"""

from __future__ import annotations

import ast
import io
from collections.abc import Iterable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import minitorch
import minitorch.graph
from minitorch.arrays import Array, to_numpy
from minitorch.graph.control.pytree import flatten
from minitorch.graph.core.graph import Graph
from minitorch.graph.core.node import Node
from minitorch.graph.core.order import schedule
from minitorch.graph.core.session import Session
from minitorch.graph.core.variables import NoOp, Variable
from minitorch.op import Value
from minitorch.show.numbers import brief
from minitorch.tensor import Tensor


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
    names: dict[Any, Any] = field(default_factory=dict)


class _Watched(Session):
    """A session that remembers its runs, with what the variables were before each."""

    runs: list[tuple[list[Node], dict[Any, Any], dict[Node, Any]]]

    def run(self, fetches: Any, feed_dict: Any = None, *more: object) -> Any:
        """Run, and remember."""
        leaves: list[Node] = []
        flatten(fetches, leaves)
        held = {v: np.copy(array) for v, array in self.state.values.items()}
        self.runs = [*getattr(self, "runs", []), (leaves, dict(feed_dict or {}), held)]
        return super().run(fetches, feed_dict)


class _Names:
    """minitorch.graph, with sessions that are watched."""

    Session = _Watched

    def __getattr__(self, name: str) -> Any:
        return getattr(minitorch.graph, name)


def run_imperative(code: str) -> list[Statement]:
    """Return the statements of code over tensors, run."""
    names: dict[Any, Any] = {"mt": minitorch}
    found, known = [], set[int]()
    grads: dict[int, Array] = {}
    held: list[Any] = []
    for text, lines in _statements(code):
        made = Statement(lines)
        value, printed = _execute(text, names)
        made.new = _new(_values(names, Tensor), known, held)
        made.names = {id(value): name for name, value in names.items()}
        for tensor in held:
            if tensor.op is None and tensor._grad is not None and id(tensor) not in grads:
                grads[id(tensor)] = made.grads[id(tensor)] = to_numpy(tensor._grad.array)
        made.outcome = _told(text, names, value, printed)
        found.append(made)
    return found


def run_symbolic(code: str) -> list[Statement]:
    """Return the statements of code over nodes, run; the session's runs node by node."""
    names: dict[Any, Any] = {"tf": _Names()}
    found, known, held = [], set[int](), list[Any]()
    ran = 0
    with Graph().as_default():
        for text, lines in _statements(code):
            made = Statement(lines)
            value, printed = _execute(text, names)
            made.new = _new(_values(names, Node), known, held)
            runs = [r for s in _values(names, _Watched) for r in getattr(s, "runs", [])]
            for leaves, feeds, state in runs[ran:]:
                made.computed += _node_by_node(leaves, feeds, state)
            ran = len(runs)
            made.outcome = _told(text, names, value, printed)
            found.append(made)
    return found


def _statements(code: str) -> Iterable[tuple[str, list[str]]]:
    lines = code.strip("\n").splitlines()
    for node in ast.parse("\n".join(lines)).body:
        part = lines[node.lineno - 1 : node.end_lineno]
        yield "\n".join(part), part


def _execute(text: str, names: dict[str, object]) -> tuple[object, str]:
    """Run one statement; return its value if it is an expression, and what it printed."""
    said = io.StringIO()
    with redirect_stdout(said):
        tree = ast.parse(text)
        if isinstance(tree.body[0], ast.Expr):
            value = eval(compile(ast.Expression(tree.body[0].value), "<listing>", "eval"), names)
        else:
            exec(compile(tree, "<listing>", "exec"), names)
            value = None
    return value, said.getvalue().strip()


def _values(names: dict[str, object], kind: type) -> list[Any]:
    return [v for name, v in names.items() if isinstance(v, kind) and not name.startswith("__")]


def _new(values: Iterable[Any], known: set[int], held: list[Any]) -> list[Any]:
    """Return what these values are computed from and was not there before, inputs first."""
    made: list[Any] = []
    stack = [(value, False) for value in values]
    while stack:
        value, ready = stack.pop()
        if ready:
            made.append(value)
            held.append(value)
        elif id(value) not in known:
            known.add(id(value))
            stack.append((value, True))
            stack += [(source, False) for source in reversed(sources(value))]
    return made


def sources(value: Value) -> list[Value]:
    """Return what a tensor or node was computed from."""
    return list(value.inputs) if value.op is not None else []


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


def _told(text: str, names: dict[str, object], value: object, printed: str) -> str:
    if printed:
        return f"prints {printed.splitlines()[0]}"
    found = _assigned(ast.parse(text).body[0], names, value)
    if isinstance(found, Session):
        return "a session"
    if isinstance(found, Node):
        return f"a node, {tuple(found.shape)}, no number"
    if isinstance(found, Tensor):
        return brief(to_numpy(found.array))
    if isinstance(found, list | tuple):
        return ", ".join(_plain(item) for item in found)
    return "" if found is None else _plain(found)


def _assigned(statement: ast.stmt, names: dict[str, object], value: object) -> object:
    """Return what a statement assigned to a name, or to several; else its value."""
    if not isinstance(statement, ast.Assign):
        return value
    [target] = statement.targets
    if isinstance(target, ast.Name):
        return names[target.id]
    parts = getattr(target, "elts", [])
    return [names[part.id] for part in parts if isinstance(part, ast.Name)]


def _plain(value: Any) -> str:
    if isinstance(value, Node):
        return f"a node, {tuple(value.shape)}, no number"
    return (
        brief(value) if hasattr(value, "dtype") or isinstance(value, float | int) else repr(value)
    )
