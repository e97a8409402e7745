"""The checks that learners are given: the hidden ones gone, and the code that only they use."""

import ast
from collections.abc import Iterable

from autograder.errors import LabError
from autograder.slicing import free_names

_ALWAYS = (ast.Import, ast.ImportFrom)


def public_checks(text: str, hidden: Iterable[str]) -> str:
    """Return the source of a checks.py without the checks named in `hidden`.

    Kept are the other checks, the lab's settings, imports that are used, and what these need;
    comments go with the statement that they stand before.

    Raises:
        LabError: the name of a hidden check is still in what is left.
    """
    hidden = set(hidden)
    if not hidden:
        return text
    nodes = ast.parse(text).body
    keep = _reached(nodes, hidden)
    lines = text.splitlines(keepends=True)
    parts, start = [], 0
    for index, node in enumerate(nodes):
        end = node.end_lineno or node.lineno
        if index in keep:
            parts.append("".join(lines[start:end]))
        start = end
    found = "".join(parts).strip("\n") + "\n"
    left = sorted(name for name in hidden if name in found)
    if left:
        raise LabError(f"checks: the hidden {', '.join(left)} is named by what is not hidden.")
    return found


def _reached(nodes: list[ast.stmt], hidden: set[str]) -> set[int]:
    """Return which statements the checks that are not hidden need, by index."""
    only_hidden = _closure(nodes, {i for i, n in enumerate(nodes) if _named(n) in hidden})
    roots = {
        i
        for i, node in enumerate(nodes)
        if _named(node) not in hidden
        and (i not in only_hidden or _is_check(node))
        and not isinstance(node, _ALWAYS)
    }
    return _closure(nodes, roots)


def _closure(nodes: list[ast.stmt], roots: set[int]) -> set[int]:
    """Return `roots` and the statements that bind what they read, and so on."""
    binders: dict[str, set[int]] = {}
    for index, node in enumerate(nodes):
        for name in _bound(node):
            binders.setdefault(name, set()).add(index)
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        index = waiting.pop()
        if index not in found:
            found.add(index)
            for name in free_names(ast.unparse(nodes[index])):
                waiting += binders.get(name, ())
    return found


def _named(node: ast.stmt) -> str:
    return getattr(node, "name", "")


def _is_check(node: ast.stmt) -> bool:
    decorators = getattr(node, "decorator_list", [])
    calls = [d.func for d in decorators if isinstance(d, ast.Call)]
    return any("check" in ast.unparse(call) for call in calls)


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, _ALWAYS):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    if _named(node):
        return {_named(node)}
    walked = ast.walk(node)
    return {n.id for n in walked if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
