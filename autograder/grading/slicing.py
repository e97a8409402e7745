"""What runs of a notebook: the statements that the answers need, and nothing else.

From each answer the names that it uses are followed to the top-level statements that bind them or
act on them, and these run in notebook order. Plots and training runs bind nothing that an answer
reads, so they cost nothing. Works on text alone: nothing of the learner's is run here.
"""

import ast
import functools
import re
import textwrap
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autograder.authoring.magics import plain_python
from autograder.errors import SubmissionError
from autograder.grading.local_names import (
    BUILTINS,
    COMPOUND,
    find_caught,
    find_looped_over,
    free_names,
    list_bound,
    list_read,
    list_read_now,
    list_set_later,
    scopes_of,
)
from autograder.records import Question, Statement

STAR = "*"  # what `from m import *` binds: nobody knows
_BINDING = re.compile(
    r"^(?:async[ \t]+)?(?:def|class)[ \t]+(?P<defined>\w+)"
    r"|^(?P<assigned>\w+(?:[ \t]*,[ \t]*\w+)*)[ \t]*(?::[^=\n]+)?=(?!=)"
    r"|^(?:from[ \t]+[\w.]+[ \t]+)?import[ \t]+(?P<imported>[^#\n]+)",
    re.M,
)
MAX_STATEMENTS = 10_000  # at the top level; the longest honest labs have a twentieth
_WORD = re.compile(r"[^\W\d]\w*")
_ESCAPE = re.compile(r"\\[nrt]")  # in a string that is code, before a word
_BINDS_BY_TEXT = frozenset({"__main__", "exec", "globals", "locals", "setattr", "vars"})
_NEARBY = 200  # bytes after a statement that are looked at for a `;`
_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


@dataclass(frozen=True)
class Analysed:
    """A statement with what it reads at any time, and the names that it acts on (`x.add(1)`).

    `sets` are the globals that its functions set when they are called, `calls` the functions that
    it calls for their effect alone. `ambient` statements change what those after them mean, or
    write a file that these may read, or set a variable of the environment. A `plain` one gives
    names to constants and to what arithmetic makes of names, their items and their lengths:
    nothing else comes of it.
    """

    statement: Statement
    reads: frozenset[str]
    acts_on: frozenset[str] = frozenset()
    sets: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    imports: bool = False
    ambient: bool = False
    plain: bool = False


def statements_of(cells: Sequence[tuple[str, str]]) -> list[Analysed]:
    """Return the top-level statements of all code cells (kind, text), in notebook order.

    A cell that is not Python even without its magics becomes one statement that fails when run
    and binds what it seems to define.

    Raises:
        SubmissionError: there are more than `MAX_STATEMENTS`.
    """
    statements: list[Analysed] = []
    for number, (kind, text) in enumerate(cells, 1):
        if kind == "code" and text.strip():
            statements += _cell(plain_python(text), number, MAX_STATEMENTS - len(statements))
    return statements


def select_needed(
    statements: Sequence[Analysed], roots: Iterable[str], *, given: Collection[str] | None = None
) -> list[Statement]:
    """Return the statements that the names `roots` depend on, in order.

    What is ambient is among them. With `given`, the texts of a lab's own statements, all others are
    among them too, and what these depend on, but for plain ones: a ratio that was predicted needs
    no measurement.
    """
    binders, setters = _binders(statements), _setters(statements)
    indices = {
        index
        for index, analysed in enumerate(statements)
        if analysed.ambient or (given is not None and analysed.statement.text not in given)
    }
    followed = {index for index in indices if not statements[index].plain}
    waiting: list[str | int] = [*roots, *(n for i in followed for n in statements[i].reads)]
    seen: set[str | int] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        waiting += setters.get(name, [])
        if name not in binders and name not in BUILTINS:
            waiting.append(STAR)
        for index in binders.get(name, []):
            if index not in followed:
                followed.add(index)
                waiting += statements[index].reads
    return [statements[index].statement for index in sorted(indices | followed)]


# Hostile notebooks hold ten thousand names in one statement, and ten thousand statements: none of
# what follows may multiply the two.


def _binders(statements: Sequence[Analysed]) -> dict[str | int, list[int]]:
    """Return for each name the statements that bind it or act on it, by index.

    Under the index of a statement whose functions set globals: the mere calls of them.
    """
    places: dict[str | int, list[int]] = defaultdict(list)
    modules = {n for s in statements if s.imports for n in s.statement.binds}
    setting = {n: at for at, s in enumerate(statements) if s.sets for n in s.statement.binds}
    for index, analysed in enumerate(statements):
        names: set[str | int] = {*analysed.statement.binds, *(analysed.acts_on - modules)}
        on_modules = analysed.acts_on & modules
        if on_modules and _is_setting(analysed, modules):
            names |= on_modules
        names |= {setting[name] for name in analysed.calls & setting.keys()}
        for name in names:
            places[name].append(index)
    return dict(places)


def _setters(statements: Sequence[Analysed]) -> dict[str | int, list[int]]:
    """Return for each name the statements whose functions set it, by index."""
    places: dict[str | int, list[int]] = defaultdict(list)
    for index, analysed in enumerate(statements):
        for name in analysed.sets:
            places[name].append(index)
    return dict(places)


def definitions(statements: Sequence[Analysed]) -> dict[str, str]:
    """Return the text of the last statement that binds each name."""
    return {name: a.statement.text for a in statements for name in a.statement.binds}


def find_changed(statements: Iterable[Analysed]) -> frozenset[str]:
    """Return the names that statements change in place: `saved.append(1)`, `views["a"] = 1`."""
    return frozenset(name for analysed in statements for name in analysed.acts_on)


def words_of_hidden_bindings(statements: Sequence[Analysed]) -> frozenset[str]:
    """Return the words of statements that may bind names which their text does not show to bind.

    Such as `exec("def f(x): ...")`, `globals()["f"] = g`, a function with `global f`, or a file
    with `f` in it; and the words of what these read, for `exec(code)` or
    `globals().update(answers())`.
    """
    hidden = [s for s in statements if s.ambient or _binds_by_text(s)]
    by_name = definitions(statements)
    read = {by_name[name] for s in hidden for name in s.reads & by_name.keys()}
    texts = {*read, *(s.statement.text for s in hidden)}
    return frozenset(word for text in texts for word in _WORD.findall(_ESCAPE.sub(" ", text)))


def _binds_by_text(statement: Analysed) -> bool:
    words = _WORD.findall(statement.statement.text)
    return "global" in words or not _BINDS_BY_TEXT.isdisjoint(statement.reads)


def same_code(text: str, other: str) -> bool:
    """Return whether two definitions have one syntax tree, docstrings aside."""
    return text == other or ((tree := shape(text)) is not None and tree == shape(other))


def own_texts(question: Question, texts: Mapping[str, str]) -> list[str]:
    """Return what of an answer is the learner's own, of the definitions of a notebook by name."""
    starters = definitions(statements_of([("code", question.starter)]))
    names = [name for name in question.defines if name in texts]
    return [texts[n] for n in names if not same_code(texts[n], starters.get(n, ""))]


@functools.lru_cache(maxsize=2)  # one statement may bind every answer, and be compared for each
def shape(text: str) -> str | None:
    """Return what is the same for two definitions that `same_code`, or None if it is no Python."""
    try:
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                node.body = node.body[ast.get_docstring(node, clean=False) is not None :]
        return ast.dump(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _cell(text: str, number: int, most: int) -> Iterator[Analysed]:
    try:
        tree = compile(text, f"<cell {number}>", "exec", _FLAGS, dont_inherit=True)
        if len(tree.body) > most:
            raise SubmissionError(f"notebook: more than {MAX_STATEMENTS} statements.")
        lines = [line.encode() for line in text.split("\n")]
        yield from [_analyse(node, lines, number) for node in tree.body]
    except SubmissionError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield Analysed(Statement(text, tuple(_guess_bound_names(text)), (), number), frozenset())


def _guess_bound_names(text: str) -> dict[str, None]:
    """Return the names that code which is no Python would bind at the top level, by its look."""
    bound: dict[str, None] = {}
    for match in _BINDING.finditer(textwrap.dedent(text)):
        if imported := match["imported"]:
            parts = [" ".join(part.split()) for part in imported.strip("() ").split(",")]
            names = [part.split(" as ")[-1].split(".")[0] for part in parts]
        else:
            names = re.split(r"[ \t]*,[ \t]*", match["assigned"] or match["defined"])
        bound |= dict.fromkeys(name for name in names if name.isidentifier())
    return bound


def _analyse(node: ast.stmt, lines: Sequence[bytes], number: int) -> Analysed:
    own, line = _own_text(node, lines)
    table = scopes_of(own)
    star = isinstance(node, ast.ImportFrom) and node.names[0].name == STAR
    future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
    caught = find_caught(node)
    own_names = caught | find_looped_over(node)
    binds = (STAR,) if star else tuple(n for n in list_bound(table) if n not in caught)
    reads = frozenset(list_read(table)) - own_names
    if "exec" in reads:
        reads |= frozenset(_list_executed_names(node))
    needs = tuple(n for n in list_read_now(table) if n not in own_names)
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        needs += (node.target.id,)  # which the symbol table calls assigned alone
    return Analysed(
        Statement(own, binds, needs, number, line),
        reads=reads,
        acts_on=frozenset(_list_changed_names(node)),
        sets=frozenset(list_set_later(table)),
        calls=frozenset(_find_called(node)),
        imports=isinstance(node, ast.Import | ast.ImportFrom),
        ambient=future or own.startswith(("open(", "__import__(")),
        plain=_is_plain(node),
    )


def _list_executed_names(node: ast.stmt) -> Iterator[str]:
    """Yield the global names that code in the strings within `exec(...)` reads."""
    inside: set[ast.AST] = set()
    for call in ast.walk(node):
        is_exec = isinstance(call, ast.Call) and getattr(call.func, "id", "") == "exec"
        if is_exec and call not in inside:
            inside.update(ast.walk(call))
    strings = {inner.value for inner in inside if isinstance(inner, ast.Constant)}
    for text in strings:
        if isinstance(text, str):
            yield from _names_read(textwrap.dedent(text))


def _names_read(text: str) -> Iterable[str]:
    """Return the global names that a text reads as code, or its words where it is not code."""
    try:
        return free_names(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _WORD.findall(text)


_PLAIN = (
    *(ast.Assign, ast.AnnAssign, ast.Expr, ast.Constant, ast.Name, ast.Tuple, ast.List, ast.Dict),
    *(ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.expr_context),
    *(ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.Subscript, ast.Slice),
)
_OF_NUMBERS = frozenset({"abs", "float", "int", "len", "max", "min", "round", "sum"})


def _is_plain(node: ast.stmt) -> bool:
    functions = [call.func for call in ast.walk(node) if isinstance(call, ast.Call)]
    numbers = all(isinstance(f, ast.Name) and f.id in _OF_NUMBERS for f in functions)
    return numbers and all(isinstance(inner, (*_PLAIN, ast.Call)) for inner in ast.walk(node))


def _own_text(node: ast.stmt, lines: Sequence[bytes]) -> tuple[str, int]:
    """Return the statement's own lines, decorators included, and the first one's number.

    Where it shares a line with another statement, that is its own part of the line. Ten thousand
    statements may share one line, so only what is its own is copied.
    """
    start = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    end, stop = node.end_lineno or start, node.end_col_offset or 0
    after = lines[end - 1][stop : stop + _NEARBY]
    if not node.col_offset and len(after) < _NEARBY and not after.lstrip().startswith(b";"):
        return b"\n".join(lines[start - 1 : end]).decode(), start
    at = node.col_offset if start == node.lineno else 0  # decorators have lines of their own
    if start == end:
        return lines[end - 1][at:stop].decode(), start
    first, *between = lines[start - 1 : end - 1]
    own = [first[at:], *between, lines[end - 1][:stop]]
    return b"\n".join(own).decode(), start


def _list_changed_names(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement changes in place: x.add(1), x[0] = 1, x.a = 1, @x.add."""
    inside = ast.walk(node) if isinstance(node, COMPOUND) else [node]
    for statement in inside:
        if isinstance(statement, ast.stmt):
            yield from _list_directly_changed(statement)


def _list_directly_changed(node: ast.stmt) -> Iterator[str]:
    """Yield what one statement acts on itself, without the statements inside it."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Expr):
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            targets = [call.func]
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield from (_root(decorator) for decorator in node.decorator_list)
    elif isinstance(node, ast.Assign | ast.Delete):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    for target in targets:
        inside = [target] if not isinstance(target, ast.Tuple | ast.List) else target.elts
        yield from (_root(t) for t in inside if isinstance(t, ast.Attribute | ast.Subscript))


def _find_called(node: ast.stmt) -> Iterator[str]:
    """Yield the function of a statement that is a mere call of it."""
    function = getattr(getattr(node, "value", None), "func", None)
    if isinstance(node, ast.Expr) and isinstance(function, ast.Name):
        yield function.id


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_setting(analysed: Analysed, modules: set[str]) -> bool:
    """Return whether a statement that acts on a module reads nothing but modules and CONSTANTS.

    `torch.manual_seed(SEED)` is a setting; `np.savetxt(path, train())` and `plt.plot(x)` are not.
    """
    return all(name in modules or name.isupper() for name in analysed.reads)
