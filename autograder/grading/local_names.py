"""The names of a piece of code by scope: what it binds, and what it reads at once or later.

Of a statement these are the names that tie it to others; the variables of its comprehensions,
handlers and loops are its own. Works on text alone.
"""

import ast
import builtins
import re
import symtable
import sys
from collections.abc import Iterator
from itertools import accumulate

BUILTINS = frozenset(dir(builtins))
_COMPREHENSIONS = frozenset({"listcomp", "setcomp", "dictcomp", "genexpr"})
_AT_ONCE = ("class", "type parameter", "type parameters")  # scopes that run where they stand
_PYTHONS_OWN = "__conditional_annotations__"  # Python 3.14's, of a name with an annotation
_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_LOOP = re.compile(rb"(?:[^#\w]|#[^\n]*+)*+(?P<first>[af])")  # of `async for`, or of `for`


def scopes_of(text: str) -> symtable.SymbolTable:
    """Return the symbol table of code, each comprehension in it a scope of its own.

    From Python 3.12 on those of lists, sets and dicts are none (PEP 709): their variables are
    names of what is around them.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: Python cannot read it.
    """
    if sys.version_info >= (3, 12) and "for" in text:
        text = as_generators(text)
    return symtable.symtable(text, "<code>", "exec")


def as_generators(text: str) -> str:
    """Return code with the same names, its comprehensions generators: scopes on every Python.

    `[x for x in y]` becomes `(x for x in y)`, and `{k: v for k in y}` becomes `({k: v} for k in
    y)`; whatever else is in the text stays as it is.
    """
    tree = compile(text, "<code>", "exec", _FLAGS, dont_inherit=True)
    data = text.encode()
    lines = [0, *accumulate(len(line) + 1 for line in data.split(b"\n"))]
    edits: dict[int, bytes] = {}  # what stands in a byte's place
    for node in ast.walk(tree):
        if not isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp):
            continue
        edits[lines[node.lineno - 1] + node.col_offset] = b"("
        edits[lines[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0) - 1] = b")"
        if isinstance(node, ast.DictComp):
            edits[lines[node.lineno - 1] + node.col_offset] = b"({"
            last = lines[(node.value.end_lineno or 0) - 1] + (node.value.end_col_offset or 0)
            loop = _LOOP.match(data, last)
            assert loop is not None, "a comprehension has a loop"
            edits[loop.start("first")] = b"\n}" + loop["first"]
    pieces, at = [], 0
    for place in sorted(edits):
        pieces += [data[at:place], edits[place]]
        at = place + 1
    return b"".join([*pieces, data[at:]]).decode()


def free_names(text: str) -> frozenset[str]:
    """Return the global names that a piece of code reads, at once or later."""
    return frozenset(list_read(scopes_of(text))) - BUILTINS


def list_bound(table: symtable.SymbolTable) -> tuple[str, ...]:
    """Return the names that the statements of a scope themselves bind."""
    symbols = _symbols(table)
    return tuple(s.get_name() for s in symbols if s.is_assigned() or s.is_imported())


def _symbols(table: symtable.SymbolTable) -> list[symtable.Symbol]:
    return [symbol for symbol in table.get_symbols() if symbol.get_name() != _PYTHONS_OWN]


def list_read(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the global names that the code reads, now or when its functions are called."""
    top = table.get_type() == "module"
    for symbol in _symbols(table):
        # `global n; n += 1` reads n, though the symbol table calls it assigned alone.
        read = symbol.is_referenced() or symbol.is_declared_global()
        if read and (top or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from list_read(child)


def list_read_now(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the global names that are read when the statement itself runs."""
    top = table.get_type() == "module"
    own = set(list_bound(table)) if top else set()
    for symbol in _symbols(table):
        name = symbol.get_name()
        now = symbol.is_referenced() and (top or symbol.is_global())
        if now and (name not in own or not symbol.is_namespace()) and name not in BUILTINS:
            yield name
    for child in table.get_children():
        if str(child.get_type()) in _AT_ONCE or child.get_name() in _COMPREHENSIONS:
            yield from list_read_now(child)


def list_set_later(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the names that functions declare `global` and assign."""
    for child in table.get_children():
        for symbol in child.get_symbols():
            if symbol.is_declared_global() and symbol.is_assigned():
                yield symbol.get_name()
        yield from list_set_later(child)


COMPOUND = (
    *(ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith),
    *(ast.Try, ast.TryStar, ast.Match),
)


def find_caught(node: ast.stmt) -> frozenset[str]:
    """Return the names of `except ... as name` that nothing outside of their handlers uses.

    Such a name is gone at the end of its handler, so it is not a name of the notebook's.
    """
    handlers = [h for h in ast.walk(node) if isinstance(h, ast.ExceptHandler) and h.name]
    if not handlers:
        return frozenset()
    inside = {
        id(n) for h in handlers for n in ast.walk(h) if isinstance(n, ast.Name) and n.id == h.name
    }
    names = (n for n in ast.walk(node) if isinstance(n, ast.Name) and id(n) not in inside)
    return frozenset(h.name for h in handlers if h.name) - {n.id for n in names}


def find_looped_over(node: ast.stmt) -> frozenset[str]:
    """Return the names that loops give a value before anything in the statement reads them."""
    if not isinstance(node, COMPOUND):
        return frozenset()
    targets, outside = set[str](), set[str]()
    waiting: list[tuple[ast.AST, frozenset[str]]] = [(node, frozenset())]
    while waiting:
        inner, bound = waiting.pop()
        if isinstance(inner, ast.For | ast.AsyncFor):
            names = [n for n in ast.walk(inner.target) if isinstance(n, ast.Name)]
            own = frozenset(n.id for n in names if isinstance(n.ctx, ast.Store))
            within = bound | own
            targets |= own
            outside |= {n.id for n in names} - within
            waiting += [(each, within) for each in inner.body]
            waiting += [(each, bound) for each in (inner.iter, *inner.orelse)]
        elif isinstance(inner, ast.Name) and inner.id not in bound:
            outside.add(inner.id)
        else:
            waiting += [(each, bound) for each in ast.iter_child_nodes(inner)]
    return frozenset(targets - outside)
