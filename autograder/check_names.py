"""Which of the learner's names a `checks.py` asks for, read off its text.

An answer's own name is known from the lab; but a check may also ask for a helper by name, or run
a probe beside the learner's code that uses what the notebook imports and defines.
"""

import ast
from collections.abc import Iterator

from autograder.slicing import free_names

_SENDING = {"probe", "ranks"}


def learner_names(tree: ast.Module) -> frozenset[str]:
    """Return the names that checks may ask of the learner: texts that are names, and what the
    functions that are sent to the learner's side leave open.
    """
    return frozenset(_texts(tree)) | frozenset(_open_names(tree))


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            first = node.value.partition(".")[0]
            if first.isidentifier():
                yield first


def _open_names(tree: ast.AST) -> Iterator[str]:
    sent = {
        node.args[0].id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _SENDING
        and node.args
        and isinstance(node.args[0], ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in sent:
            yield from free_names(ast.unparse(node))
