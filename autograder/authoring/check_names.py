"""Which of the learner's names a `checks.py` asks for, read off its text.

An answer's own name is known from the lab; but a check may also ask for a helper by name, or run
a probe beside the learner's code that uses what the notebook imports and defines.
"""

import ast
from collections.abc import Iterable, Iterator

from autograder.grading.local_names import free_names

_ASKING = {"call", "value", "source", "ranks"}
_SENDING = {"probe", "ranks"}


def learner_names(tree: ast.Module) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names that checks ask of the learner, and those that they may ask for besides.

    The former are in `student.call("name")` and its kind, or what the functions that are sent to
    the learner's side leave open. Where a name is not written in the call, every text may be one.
    """
    nodes = list(ast.walk(tree))
    functions = {n.name for n in nodes if isinstance(n, ast.FunctionDef)}
    arguments = list(_first_arguments(nodes, _ASKING))
    named = {text for arg in arguments if (text := _text(arg))}
    unwritten = any(not _text(arg) and getattr(arg, "id", "") not in functions for arg in arguments)
    texts = {text for node in nodes if (text := _text(node))} if unwritten else ()
    sent = {arg.id for arg in _first_arguments(nodes, _SENDING) if isinstance(arg, ast.Name)}
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    senders = (node for node in nodes if isinstance(node, kinds) and node.name in sent)
    open_names = (free_names(ast.unparse(node)) for node in senders)
    return frozenset(named).union(*open_names), frozenset(texts)


def _first_arguments(nodes: Iterable[ast.AST], methods: set[str]) -> Iterator[ast.expr]:
    """Yield what is passed first to methods of these names."""
    for node in nodes:
        function = node.func if isinstance(node, ast.Call) and node.args else None
        if isinstance(function, ast.Attribute) and function.attr in methods:
            yield node.args[0]  # type: ignore[attr-defined]


def _text(node: ast.AST) -> str:
    """Return the first part of a text that is a name, such as "Stack.push"; else nothing."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        first = node.value.partition(".")[0]
        return first if first.isidentifier() else ""
    return ""
