"""The checks that learners are given: the hidden ones gone, and the code that only they use."""

import ast
import itertools
from collections.abc import Iterable, Mapping

from autograder.errors import LabError
from autograder.grading.local_names import free_names

_ALWAYS = (ast.Import, ast.ImportFrom)


def public_checks(text: str, hidden: Iterable[str]) -> str:
    """Return the source of a checks.py without the checks named in `hidden`.

    Kept are the other checks, the lab's settings, imports that are used, and what these need;
    comments go with the statement that they stand before. A check that requires a hidden one
    requires what that one does instead, where this is not hidden.

    Raises:
        LabError: the name of a hidden check is still in what is left.
    """
    hidden = set(hidden)
    if not hidden:
        return text
    text = _with_open_requirements(text, hidden)
    nodes = ast.parse(text).body
    keep = _find_needed(nodes, hidden)
    lines = text.splitlines(keepends=True)
    parts, start = [], 0
    for index, node in enumerate(nodes):
        end = node.end_lineno or node.lineno
        if index in keep:
            parts.append("".join(lines[start:end]))
        start = end
    public_text = "".join(parts).strip("\n") + "\n"
    left = sorted(name for name in hidden if name in public_text)
    if left:
        raise LabError(f"checks: the hidden {', '.join(left)} is named by what is not hidden.")
    return public_text


def counts(text: str) -> tuple[int, int]:
    """Return how many checks of a checks.py run in the notebook, and how many more at submission.

    The file is read, and not run.

    Raises:
        SyntaxError, ValueError: it is no Python.
    """
    checks = [node for node in ast.parse(text).body if _is_check(node)]
    hidden = sum(any(_hides(d) for d in getattr(n, "decorator_list", [])) for n in checks)
    return len(checks) - hidden, hidden


def _hides(decorator: ast.expr) -> bool:
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    arguments = {k.arg: k.value.value for k in keywords if isinstance(k.value, ast.Constant)}
    return bool(arguments.get("hidden"))


def _with_open_requirements(text: str, hidden: set[str]) -> str:
    """Return `text` with no `requires=` of a check that is not hidden naming a hidden one."""
    nodes = [node for node in ast.parse(text).body if _is_check(node)]
    requirements = {_name_of(node): r for node in nodes if (r := _requirement(node))}
    required = {name: _read_names(keyword) for name, (_, keyword) in requirements.items()}
    lines = text.encode().splitlines(keepends=True)
    starts = [0, *itertools.accumulate(map(len, lines))]
    encoded = b"".join(lines)
    for name, (call, keyword) in reversed(requirements.items()):
        if name in hidden or not hidden.intersection(required[name]):
            continue
        named = _open(required[name], required, hidden)
        texts: list[ast.expr] = [ast.Constant(other) for other in named]
        keyword.value = texts[0] if len(texts) == 1 else ast.Tuple(texts)
        call.keywords = [k for k in call.keywords if k is not keyword or named]
        begin = starts[call.lineno - 1] + call.col_offset
        end = starts[(call.end_lineno or call.lineno) - 1] + (call.end_col_offset or 0)
        encoded = encoded[:begin] + ast.unparse(call).encode() + encoded[end:]
    return encoded.decode()


def _requirement(node: ast.stmt) -> tuple[ast.Call, ast.keyword] | None:
    """Return a check's decorator and its `requires=...`, where it has one."""
    calls = [d for d in getattr(node, "decorator_list", []) if isinstance(d, ast.Call)]
    keywords = [(call, k) for call in calls for k in call.keywords if k.arg == "requires"]
    return keywords[0] if keywords else None


def _read_names(keyword: ast.keyword) -> tuple[str, ...]:
    value = keyword.value
    nodes = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
    return tuple(n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str))


def _open(
    names: tuple[str, ...], required: Mapping[str, tuple[str, ...]], hidden: set[str]
) -> list[str]:
    """Return `names`, and for a hidden one what it requires itself."""
    open_names: dict[str, None] = {}
    for name in names:
        inner = _open(required.get(name, ()), required, hidden) if name in hidden else [name]
        open_names.update(dict.fromkeys(inner))
    return list(open_names)


def _find_needed(nodes: list[ast.stmt], hidden: set[str]) -> set[int]:
    """Return which statements the checks that are not hidden need, by index."""
    only_hidden = _closure(nodes, {i for i, n in enumerate(nodes) if _name_of(n) in hidden})
    roots = {
        i
        for i, node in enumerate(nodes)
        if _name_of(node) not in hidden
        and (i not in only_hidden or _is_check(node))
        and not isinstance(node, _ALWAYS)
    }
    return _closure(nodes, roots)


def _closure(nodes: list[ast.stmt], roots: set[int]) -> set[int]:
    """Return `roots` and the statements that bind what they read, and so on."""
    binders: dict[str, set[int]] = {}
    for index, node in enumerate(nodes):
        for name in _names_bound_by(node):
            binders.setdefault(name, set()).add(index)
    needed: set[int] = set()
    waiting = list(roots)
    while waiting:
        index = waiting.pop()
        if index not in needed:
            needed.add(index)
            for name in free_names(ast.unparse(nodes[index])):
                waiting += binders.get(name, ())
    return needed


def _name_of(node: ast.stmt) -> str:
    return getattr(node, "name", "")


def _is_check(node: ast.stmt) -> bool:
    decorators = getattr(node, "decorator_list", [])
    calls = [d.func for d in decorators if isinstance(d, ast.Call)]
    return any("check" in ast.unparse(call) for call in calls)


def _names_bound_by(node: ast.stmt) -> set[str]:
    if isinstance(node, _ALWAYS):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    if _name_of(node):
        return {_name_of(node)}
    walked = ast.walk(node)
    return {n.id for n in walked if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
