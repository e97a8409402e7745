"""Mutants of a piece of code: one small mistake each, of the kinds that learners make.

Operators, comparisons, bounds, constants, returns, the order of arguments, and factors near 1:
what is computed comes out a little too large or too small, which a wide tolerance lets pass.
What cannot change an answer is left alone: docstrings, annotations, error texts, prints, time
limits, and the order of arguments where it does not matter.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_EXCHANGED: tuple[tuple[type[Any], type[Any]], ...] = (
    *((ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.BitAnd, ast.BitOr), (ast.LShift, ast.RShift)),
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)),
    *((ast.In, ast.NotIn), (ast.And, ast.Or)),
)
_OTHER = {old: new for pair in _EXCHANGED for old, new in (pair, pair[::-1])}
_OTHER |= dict.fromkeys((ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult), ast.Mult)
_OTHER[ast.BitXor] = ast.BitAnd
# functions that give the same whatever the order of their arguments
_COMMUTATIVE = {"add", "multiply", "maximum", "minimum", "max", "min", "gcd", "hypot", "logaddexp"}
# functions to which any negative size means: find it out
_INFERRING = {"reshape", "view"}
FACTORS = (1.0005, 0.95)  # the one for a tolerance that is too wide, the other for none at all
_SCALABLE = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.MatMult, ast.Pow)
_SILENT = {"print", "warn", "debug", "info", "warning"}

Change = tuple[str, Callable[[Any], object]]


@dataclass(frozen=True)
class Mutant:
    """The mutated text of the code, and what was changed in which of its statements."""

    text: str
    line: int
    change: str
    before: str
    after: str


def mutants_of(text: str, lines: frozenset[int] | None = None) -> Iterator[Mutant]:
    """Yield the mutants of `text`, those on `lines` (1-based) alone where these are given.

    Code that does not parse has none.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    ignored = {id(node) for node in _find_harmless(tree)}
    seen = {ast.unparse(tree)}
    for position, node in enumerate(ast.walk(tree)):
        line = getattr(node, "lineno", 0)
        if id(node) in ignored or not line or (lines is not None and line not in lines):
            continue
        for change, apply in _changes(node):
            mutated = copy.deepcopy(tree)
            there = next(n for i, n in enumerate(ast.walk(mutated)) if i == position)
            apply(there)
            mutated_text = ast.unparse(ast.fix_missing_locations(mutated))
            if mutated_text not in seen:
                seen.add(mutated_text)
                yield Mutant(mutated_text, line, change, *_difference(tree, mutated))


def _changes(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BinOp | ast.AugAssign):
        yield from _operator(node)
    if isinstance(node, ast.Compare):
        for index, op in enumerate(node.ops):
            yield _describe_change(op), _set("ops", _at(index, _other))
    elif isinstance(node, ast.BoolOp):
        yield _describe_change(node.op), _set("op", _other)
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        if isinstance(node.op, ast.USub):
            yield "a sign dropped", _set("op", lambda _: ast.UAdd())
        elif isinstance(node.op, ast.Not):
            yield "a not dropped", _set("operand", _negate)
    elif isinstance(node, ast.IfExp | ast.If | ast.While) and _is_plain(node.test):
        yield "a condition turned round", _set("test", _negate)
    elif isinstance(node, ast.Constant):
        yield from _constant(node)
    elif isinstance(node, ast.Return) and node.value is not None:
        yield from _return(node.value)
    elif isinstance(node, ast.Assign | ast.AugAssign):
        yield from _scalings(node.value, "value")
    elif isinstance(node, ast.ListComp | ast.GeneratorExp):
        yield from _scalings(node.elt, "elt")
    elif isinstance(node, ast.Call):
        yield from _call(node)
    elif isinstance(node, ast.Slice):
        yield from _bounds(node)


def _operator(node: ast.BinOp | ast.AugAssign) -> Iterator[Change]:
    yield _describe_change(node.op), _set("op", _other)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Div | ast.MatMult):
        yield "the sides exchanged", _exchange_sides


def _constant(node: ast.Constant) -> Iterator[Change]:
    value = node.value
    if isinstance(value, bool):
        yield f"{value} became {not value}", _set("value", lambda _: not value)
    elif isinstance(value, int | float):
        yield f"{value} became {value + 1}", _set("value", lambda _: value + 1)


def _return(value: ast.expr) -> Iterator[Change]:
    if not (isinstance(value, ast.Constant) and value.value is None):
        yield "returns None", _set("value", lambda _: ast.Constant(None))
        yield "returns NaN", _set("value", _nan)
    if isinstance(value, ast.Tuple | ast.List):
        for index, element in enumerate(value.elts):
            for words, change in _scalings(element, "elts", index):
                yield words, _set("value", change)
    elif not isinstance(value, ast.Constant | ast.Dict | ast.Compare | ast.BoolOp):
        for factor in FACTORS if _is_arithmetic(value) else FACTORS[:1]:
            yield f"returns {factor} times as much", _set("value", _combine(ast.Mult, factor))


def _call(node: ast.Call) -> Iterator[Change]:
    name = _name_of_call(node)
    if name == "range" and node.args:
        stop = int(len(node.args) > 1)
        yield "a range ends one earlier", _set("args", _at(stop, _combine(ast.Sub, 1)))
    first = [ast.dump(arg) for arg in node.args[:2]]
    spread = any(isinstance(arg, ast.Starred) for arg in node.args[:2])
    if len(first) == 2 and first[0] != first[1] and name not in _COMMUTATIVE and not spread:
        yield "two arguments exchanged", _set("args", lambda args: [*args[1::-1], *args[2:]])


def _bounds(node: ast.Slice) -> Iterator[Change]:
    for side in ("lower", "upper"):
        bound = getattr(node, side)
        if bound is not None and not isinstance(bound, ast.Constant):
            yield f"the {side} bound of a slice one more", _set(side, _combine(ast.Add, 1))


def _set(field: str, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what puts into a node's field what `change` makes of its value; it returns the node.

    What is put there is new for each mutant: no two trees share a node.
    """

    def apply(node: Any) -> Any:
        setattr(node, field, change(getattr(node, field)))
        return node

    return apply


def _at(index: int, change: Callable[[Any], Any]) -> Callable[[list[Any]], list[Any]]:
    """Return what changes one element of a list."""
    return lambda items: [*items[:index], change(items[index]), *items[index + 1 :]]


def _combine(op: type[ast.operator], number: float) -> Callable[[ast.expr], ast.expr]:
    """Return what adds a number to an expression, or subtracts it, or multiplies by it."""
    return lambda value: ast.BinOp(value, op(), ast.Constant(number))


def _negate(value: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), value)


def _exchange_sides(node: Any) -> None:
    node.left, node.right = node.right, node.left


def _nan(value: ast.expr) -> ast.expr:
    """Return what passes every `if abs(got - right) > tolerance: raise`."""
    nan = ast.Call(ast.Name("float", ast.Load()), [ast.Constant("nan")], [])
    count = len(value.elts) if isinstance(value, ast.Tuple) else 0
    return ast.Tuple([nan] * count, ast.Load()) if count else nan


def _scalings(value: ast.expr, field: str, index: int | None = None) -> Iterator[Change]:
    """Yield the factor for an arithmetic expression: a float that comes out a little wrong."""
    if _is_arithmetic(value):
        larger = _combine(ast.Mult, FACTORS[0])
        change: Callable[[Any], Any] = larger if index is None else _at(index, larger)
        yield f"{FACTORS[0]} times as much", _set(field, change)


def _is_arithmetic(value: ast.expr) -> bool:
    return isinstance(value, ast.BinOp) and isinstance(value.op, _SCALABLE)


def _is_plain(test: ast.expr) -> bool:
    """Return whether a condition is a mere value, which no other mutation reaches."""
    return isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Subscript)


def _find_harmless(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes whose change changes no answer."""
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.Raise | ast.JoinedStr):
            parts = [node]
        elif isinstance(node, ast.Assert):
            parts = [node.msg]
        elif isinstance(node, ast.Expr):
            silent = isinstance(node.value, ast.Call) and _name_of_call(node.value) in _SILENT
            parts = [node] if silent or isinstance(node.value, ast.Constant) else []
        elif isinstance(node, ast.arg | ast.AnnAssign):
            parts = [node.annotation]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parts = [node.returns]
        elif isinstance(node, ast.Call) and _name_of_call(node) in _INFERRING:
            parts = [arg for arg in node.args if ast.unparse(arg) == "-1"]
        elif isinstance(node, ast.keyword) and "timeout" in (node.arg or ""):
            parts = [node.value]
        for part in parts:
            yield from ast.walk(part) if part is not None else ()


def _name_of_call(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _other(old: ast.AST) -> Any:
    """Return the operator that stands in an operator's place."""
    return _OTHER[type(old)]()


def _describe_change(old: ast.AST) -> str:
    return f"{type(old).__name__} became {_OTHER[type(old)].__name__}"


def _difference(tree: ast.Module, mutated: ast.Module) -> tuple[str, str]:
    """Return the first line that differs, before and after."""
    before, after = ast.unparse(tree).splitlines(), ast.unparse(mutated).splitlines()
    for old, new in zip(before, after, strict=False):
        if old != new:
            return old.strip(), new.strip()
    return "", ""
