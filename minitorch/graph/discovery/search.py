"""Rule discovery: rewrites of graphs that nobody wrote down.

Enumerate all small terms over a few operators; evaluate each on the same random matrices; terms
with the same result are candidates for a rule. What holds on those matrices is then tried on other
shapes and numbers. Last, rules that say nothing new are dropped: renamings, and what follows from
the rules before. Integers make the comparison exact.

    for rule in discover():
        print(rule)          # ((A @ B) @ C) = (A @ (B @ C)), ...

Source: Jia et al., TASO: Optimizing Deep Learning Computation with Automatic Generation of Graph
Substitutions, SOSP 2019.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import GraphError

Term = str | tuple["Term", ...]
"""A variable, or an operator's name and its inputs."""
Matrix = npt.NDArray[Any]


class Value(NamedTuple):
    """A matrix, and the column at which it was put together, if it was."""

    array: Matrix
    cut: int | None = None


class Mismatch(Exception):
    """The shapes of a term's parts do not fit: the term has no value."""


def _require(condition: bool) -> None:
    if not condition:
        raise Mismatch


def _matmul(a: Value, b: Value) -> Value:
    _require(a.array.shape[1] == b.array.shape[0])
    return Value(a.array @ b.array, b.cut)


def _elementwise(function: Callable[[Matrix, Matrix], Matrix]) -> Callable[[Value, Value], Value]:
    def compute(a: Value, b: Value) -> Value:
        _require(a.array.shape == b.array.shape)
        return Value(function(a.array, b.array), a.cut if a.cut == b.cut else None)

    return compute


def _concat(a: Value, b: Value) -> Value:
    _require(a.array.shape[0] == b.array.shape[0])
    return Value(np.concatenate((a.array, b.array), axis=1), a.array.shape[1])


def _side(a: Value, first: bool) -> Value:
    _require(a.cut is not None)
    return Value(a.array[:, : a.cut] if first else a.array[:, a.cut :])


OPERATORS: dict[str, tuple[int, Callable[..., Value]]] = {
    "matmul": (2, _matmul),
    "add": (2, _elementwise(np.add)),
    "mul": (2, _elementwise(np.multiply)),
    "transpose": (1, lambda a: Value(a.array.T)),
    "relu": (1, lambda a: Value(np.maximum(a.array, 0), a.cut)),
    "neg": (1, lambda a: Value(-a.array, a.cut)),
    "concat": (2, _concat),
    "left": (1, lambda a: _side(a, first=True)),
    "right": (1, lambda a: _side(a, first=False)),
}
"""Name: number of inputs, and the arithmetic."""


def value_of(term: Term, inputs: Mapping[str, Value]) -> Value:
    """Return the value of a term for these values of its variables.

    Raises:
        Mismatch: shapes do not fit.
    """
    if isinstance(term, str):
        return inputs[term]
    return OPERATORS[head(term)][1](*[value_of(part, inputs) for part in term[1:]])


def head(term: Term) -> str:
    """Return the operator of a term, "" of a variable."""
    return "" if isinstance(term, str) else str(term[0])


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


def match(pattern: Term, term: Term, bound: dict[str, Term]) -> bool:
    """Tell whether a term is an instance of a pattern; `bound` gets what variables stand for."""
    if isinstance(pattern, str):
        return bool(bound.setdefault(pattern, term) == term)
    if isinstance(term, str) or pattern[0] != term[0]:
        return False
    return all(match(p, t, bound) for p, t in zip(pattern[1:], term[1:], strict=True))


def rewrites(term: Term, pattern: Term, by: Term) -> Iterator[Term]:
    """Yield the terms that one use of `pattern` -> `by`, anywhere in `term`, makes of it."""
    bound: dict[str, Term] = {}
    if match(pattern, term, bound) and set(variables(by)) <= bound.keys():
        yield substitute(by, bound)
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


DEFAULT = ("matmul", "add", "transpose", "concat", "left", "right")
SIDE = 4  # rows and columns of the matrices that fingerprints are taken on
LARGEST = 9  # of their numbers: a product of three stays far below 2**63
REACH = 400  # terms looked at when asking whether a rule follows from others


@dataclass(frozen=True)
class Rule:
    """Terms that are equal, output by output, whatever their variables are.

    Attributes:
        before, after: one term for each output; `after` may use any side's variables.
    """

    before: tuple[Term, ...]
    after: tuple[Term, ...]

    def __str__(self) -> str:
        left, right = (", ".join(map(show, side)) for side in (self.before, self.after))
        return f"{left} = {right}"

    @property
    def reverse(self) -> "Rule":
        """The rule read from right to left."""
        return Rule(self.after, self.before)


def discover(
    operators: Sequence[str] = DEFAULT, largest: int = 3, inputs: int = 3, seed: int = 0
) -> list[Rule]:
    """Return the rules between terms of these operators, simplest first.

    Args:
        operators: names in `terms.OPERATORS`.
        largest: the most operators in a term.
        inputs: how many variables there are.
        seed: of the random matrices.
    Raises:
        GraphError: there is no such operator, or nothing to enumerate.
    """
    for name in operators:
        if name not in OPERATORS:
            raise GraphError(
                f"discover: got operator {name!r}, expected some of {', '.join(OPERATORS)}."
            )
    if largest < 1 or inputs < 1:
        raise GraphError(
            f"discover: got terms of {largest} operators over {inputs} variables, expected 1 or "
            "more of each."
        )
    pairs = _Enumeration(operators, inputs, seed).pairs(largest)
    single, shared = _sort_out(pairs)
    rules: list[Rule] = []
    for rule in _distinct(single):
        if holds(rule) and not follows(rule, rules):
            rules.append(rule)
    joint = [rule for rule in _distinct(_joint(shared)) if holds(rule)]
    return rules + [r for i, r in enumerate(joint) if not any(_special(r, o) for o in joint[:i])]


class _Enumeration:
    """All terms by size; one stands for all that have its fingerprint."""

    def __init__(self, operators: Sequence[str], inputs: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        names = [chr(ord("A") + i) for i in range(inputs)]
        self.operators = operators
        self.known: dict[tuple[object, ...], Term] = {}
        self.numbers: dict[tuple[object, ...], Term] = {}
        self.levels: list[list[tuple[Term, Value]]] = [[]]
        for name in names:
            array = rng.integers(-LARGEST, LARGEST, (SIDE, SIDE), endpoint=True)
            self.levels[0].append((name, Value(array)))
            self.known[_fingerprint(Value(array))] = name
            self.numbers[_fingerprint(Value(array))] = name

    def pairs(self, largest: int) -> list[tuple[Term, Term]]:
        """Return pairs of a term and an earlier one with its fingerprint."""
        pairs = []
        for count in range(1, largest + 1):
            self.levels.append([])
            for term, value in self._terms(count):
                first = self.known.setdefault(_fingerprint(value), term)
                if first is term:  # the same numbers with another cut are another term
                    self.levels[count].append((term, value))
                    first = self.numbers.setdefault(_fingerprint(Value(value.array)), term)
                if first is not term:
                    pairs.append((term, first))
        return pairs

    def _terms(self, count: int) -> Iterator[tuple[Term, Value]]:
        """Yield the terms with so many operators whose parts are all first of their kind."""
        for name in self.operators:
            arity, compute = OPERATORS[name]
            for sizes in itertools.product(range(count), repeat=arity):
                if sum(sizes) != count - 1:
                    continue
                for parts in itertools.product(*(self.levels[n] for n in sizes)):
                    try:
                        value = compute(*[v for _, v in parts])
                    except Mismatch:
                        continue
                    yield (name, *(t for t, _ in parts)), value


def _fingerprint(value: Value) -> tuple[object, ...]:
    """Return what equal values share; where a matrix may be cut is part of what it is."""
    return value.array.shape, value.cut, value.array.tobytes()


def _sort_out(pairs: Sequence[tuple[Term, Term]]) -> tuple[list[Rule], list[tuple[Term, Term]]]:
    """Return rules of one output, and pairs whose longer term has one variable more.

    Such a pair says that a part of something larger is enough: it is of use together with another
    that takes the other part.
    """
    single, shared = [], []
    for long, short in pairs:
        if head(long) in ("left", "right") and head(long[1]) != "concat":
            shared.append((long, short))
        elif set(variables(short)) <= set(variables(long)):
            single.append(Rule((long,), (short,)))
    return single, shared


def _joint(shared: Sequence[tuple[Term, Term]]) -> list[Rule]:
    """Return the rules by which two terms are the two parts of one."""
    parts: dict[Term, dict[str, Term]] = {}
    for long, short in shared:
        parts.setdefault(long[1], {})[head(long)] = short
    rules = []
    for whole, sides in parts.items():
        if len(sides) < 2:
            continue
        together = ("concat", sides["left"], sides["right"])
        if set(variables(together)) == set(variables(whole)):
            before = (sides["left"], sides["right"])
            rules.append(Rule(before, (("left", whole), ("right", whole))))
    return rules


def _distinct(rules: Sequence[Rule]) -> list[Rule]:
    """Return the rules, simplest and most general first, one of those that differ in names."""
    kinds: dict[Rule, Rule] = {}
    for rule in sorted(rules, key=_weight):
        terms = (*rule.before, *rule.after)
        names = {name: chr(ord("A") + i) for i, name in enumerate(variables(("", *terms)))}
        sides = ([substitute(t, names) for t in side] for side in (rule.before, rule.after))
        kinds.setdefault(Rule(*map(tuple, sides)), rule)
    return list(kinds)


def _weight(rule: Rule) -> tuple[int, int, str]:
    terms = (*rule.before, *rule.after)
    return sum(map(size, terms)), -len(variables(("", *terms))), str(rule)


def _special(rule: Rule, general: Rule) -> bool:
    """Tell whether a rule is another one with terms in the place of its variables."""
    return match(("", *general.before, *general.after), ("", *rule.before, *rule.after), {})


def follows(rule: Rule, from_rules: Sequence[Rule]) -> bool:
    """Tell whether uses of `from_rules`, either way round, lead from one side to the other."""
    (start,), (end,) = rule.before, rule.after
    seen, waiting = {start}, [start]
    while waiting and len(seen) < REACH:
        term = waiting.pop(0)
        for base in from_rules:
            for way in (base, base.reverse):
                for other in rewrites(term, way.before[0], way.after[0]):
                    if other == end:
                        return True
                    if other not in seen and size(other) <= size(start) + 1:
                        seen.add(other)
                        waiting.append(other)
    return False


@functools.lru_cache(maxsize=4096)
def holds(rule: Rule, seed: int = 1) -> bool:
    """Tell whether both sides are equal on matrices of all shapes that fit both.

    Tried are all shapes of 2 or 3 rows and columns, with random numbers. A rule between terms that
    fit no shape does not hold.
    """
    rng = np.random.default_rng(seed)
    names = sorted({v for term in (*rule.before, *rule.after) for v in variables(term)})
    tried = 0
    for shapes in itertools.product(itertools.product((2, 3), repeat=2), repeat=len(names)):
        inputs = {n: Value(rng.normal(size=s)) for n, s in zip(names, shapes, strict=True)}
        try:
            before = [value_of(term, inputs).array for term in rule.before]
            after = [value_of(term, inputs).array for term in rule.after]
        except Mismatch:
            continue
        tried += 1
        if any(
            a.shape != b.shape or not np.allclose(a, b, rtol=1e-9, atol=1e-9)
            for a, b in zip(before, after, strict=True)
        ):
            return False
    return tried > 0
