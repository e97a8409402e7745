"""Terms over matrices: what rule discovery enumerates, evaluates and rewrites.

A variable is a string, an operator applied to terms a tuple: ("matmul", "A", ("concat", "B", "C")).
`left` and `right` cut a matrix where it was put together: the place travels from `concat` through
products and elementwise operators, so `left` of anything else has no meaning.

May import: NumPy. Source: Jia et al., TASO, SOSP 2019, section 3 (split trees, section 4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

Term = Any  # str | tuple[str, Term, ...]
Array = np.ndarray[Any, Any]


class Value(NamedTuple):
    """A matrix, and the column at which it was put together, if it was."""

    array: Array
    cut: int | None = None


class Mismatch(Exception):
    """The shapes of a term's parts do not fit: the term has no value."""


def _fits(condition: bool) -> None:
    if not condition:
        raise Mismatch


def _matmul(a: Value, b: Value) -> Value:
    _fits(a.array.shape[1] == b.array.shape[0])
    return Value(a.array @ b.array, b.cut)


def _elementwise(function: Callable[[Array, Array], Array]) -> Callable[[Value, Value], Value]:
    def compute(a: Value, b: Value) -> Value:
        _fits(a.array.shape == b.array.shape)
        return Value(function(a.array, b.array), a.cut if a.cut == b.cut else None)

    return compute


def _concat(a: Value, b: Value) -> Value:
    _fits(a.array.shape[0] == b.array.shape[0])
    return Value(np.concatenate((a.array, b.array), axis=1), a.array.shape[1])


def _left(a: Value) -> Value:
    _fits(a.cut is not None)
    return Value(a.array[:, : a.cut])


def _right(a: Value) -> Value:
    _fits(a.cut is not None)
    return Value(a.array[:, a.cut :])


OPERATORS: dict[str, tuple[int, Callable[..., Value]]] = {
    "matmul": (2, _matmul),
    "add": (2, _elementwise(np.add)),
    "mul": (2, _elementwise(np.multiply)),
    "transpose": (1, lambda a: Value(a.array.T)),
    "relu": (1, lambda a: Value(np.maximum(a.array, 0), a.cut)),
    "neg": (1, lambda a: Value(-a.array, a.cut)),
    "concat": (2, _concat),
    "left": (1, _left),
    "right": (1, _right),
}
"""Name: number of inputs, and the arithmetic."""


def value_of(term: Term, inputs: Mapping[str, Value]) -> Value:
    """Return the value of a term for these values of its variables.

    Raises:
        Mismatch: shapes do not fit.
    """
    if isinstance(term, str):
        return inputs[term]
    return OPERATORS[term[0]][1](*[value_of(part, inputs) for part in term[1:]])


def size(term: Term) -> int:
    """Return how many operators a term has."""
    return 0 if isinstance(term, str) else 1 + sum(size(part) for part in term[1:])


def variables(term: Term) -> tuple[str, ...]:
    """Return the variables of a term in the order in which they occur, each once."""
    if isinstance(term, str):
        return (term,)
    return tuple(dict.fromkeys(v for part in term[1:] for v in variables(part)))


def substitute(term: Term, by: Mapping[str, Term]) -> Term:
    """Return a term with its variables replaced."""
    if isinstance(term, str):
        return by.get(term, term)
    return (term[0], *(substitute(part, by) for part in term[1:]))


def match(pattern: Term, term: Term, found: dict[str, Term]) -> bool:
    """Tell whether a term is an instance of a pattern; `found` gets what variables stand for."""
    if isinstance(pattern, str):
        return bool(found.setdefault(pattern, term) == term)
    if isinstance(term, str) or pattern[0] != term[0]:
        return False
    return all(match(p, t, found) for p, t in zip(pattern[1:], term[1:], strict=True))


def rewrites(term: Term, pattern: Term, by: Term) -> Iterator[Term]:
    """Yield the terms that one use of `pattern` -> `by`, anywhere in `term`, makes of it."""
    found: dict[str, Term] = {}
    if match(pattern, term, found) and set(variables(by)) <= found.keys():
        yield substitute(by, found)
    if not isinstance(term, str):
        for i, part in enumerate(term[1:], 1):
            for other in rewrites(part, pattern, by):
                yield (*term[:i], other, *term[i + 1 :])


def show(term: Term) -> str:
    """Return a term as a formula."""
    if isinstance(term, str):
        return term
    signs = {"matmul": " @ ", "add": " + ", "mul": " * "}
    if term[0] in signs:
        return f"({show(term[1])}{signs[term[0]]}{show(term[2])})"
    return f"{term[0]}({', '.join(map(show, term[1:]))})"
