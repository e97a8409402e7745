"""Einstein's summation: products of values, axes named by letters, summed over missing letters.

Diagonals (a letter twice in one operand) and letters that only one operand has are dealt with
first. What is left is bilinear in each operand, so the gradient of one is an einsum of the others.
"""

import math
import string
from typing import Any

import numpy as np

from ...arrays.allocator import matrix_product
from ...arrays.library import Array, Namespace
from ...errors import ArgumentError, ShapeError
from ...op import Gradients, Kind, Methods, Op, Spec, apply
from ..reducing.reduction import sum
from ..shaping.matrices import diagonal
from ..shaping.movement import expand, permute


class Einsum(Op):
    """A product whose operands each name their axes by different letters."""

    on_arrays = True
    promotes = "same"
    reads_output = False
    name = "einsum"

    def __init__(self, terms: tuple[str, ...], result: str) -> None:
        self.terms, self.result = terms, result

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        equation = f"{','.join(self.terms)}->{self.result}"
        if xp is not np:
            return xp.einsum(equation, *arrays)
        if len(arrays) == 2 and set(self.terms[0]) != set(self.terms[1]):
            return self._multiply(*arrays)
        sums: Array = np.einsum(equation, *arrays, optimize=len(arrays) > 2)
        return sums

    def _multiply(self, a: Array, b: Array) -> Array:
        """Return the einsum of two NumPy arrays by one product of matrices, or one a batch."""
        left, right = self.terms
        inner = [c for c in left if c in right and c not in self.result]
        batch = [c for c in left if c in right and c in self.result]
        rows, columns = [c for c in left if c not in right], [c for c in right if c not in left]
        sizes = dict(zip(left + right, a.shape + b.shape, strict=True))
        lead = [sizes[c] for c in batch]
        height, terms, width = (math.prod(sizes[c] for c in of) for of in (rows, inner, columns))
        a = a.transpose([left.index(c) for c in (*batch, *rows, *inner)])
        b = b.transpose([right.index(c) for c in (*batch, *inner, *columns)])
        product = matrix_product(a.reshape(*lead, height, terms), b.reshape(*lead, terms, width))
        letters = [*batch, *rows, *columns]
        apart = product.reshape([sizes[c] for c in letters])
        return apart.transpose([letters.index(c) for c in self.result])

    def infer(self, *specs: Spec) -> Spec:
        pairs = zip(self.terms, specs, strict=True)
        sizes = {c: n for term, spec in pairs for c, n in zip(term, spec.shape, strict=True)}
        return Spec(tuple(sizes[letter] for letter in self.result), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """The gradient of one operand is the einsum of the result's and the other operands."""
        shares: list[Any] = []
        for i, wanted in enumerate(node.wants):
            others = [k for k in range(len(self.terms)) if k != i]
            terms = (self.result, *(self.terms[k] for k in others))
            rule = Einsum(terms, self.terms[i])
            operands = (out_grad, *(node.inputs[k] for k in others))
            shares.append(apply(rule, *operands) if wanted else None)
        return shares


def einsum(equation: str, *operands: Any) -> Any:
    """Return sums of products: einsum("ij,jk->ik", a, b) is the product of two matrices.

    Args:
        equation: letters for each operand's axes, and for the result's after "->"; "..." stands
            for the axes that are not named. Without "->" the letters that occur once, sorted.
        operands: the values, or one list of them.

    Raises:
        ArgumentError: the equation does not fit the number of operands or axes.
        ShapeError: a letter has two sizes.
    """
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    if not isinstance(equation, str):
        kind = type(equation).__name__
        raise ArgumentError(f"einsum: got {kind}, expected an equation such as 'ij,jk->ik' first.")
    terms, result = _parse(equation.replace(" ", ""), operands)
    values = list(operands)
    sizes = {c: 1 for term in terms for c in term}
    for term, value in zip(terms, values, strict=True):
        for c, n in zip(term, value.shape, strict=True):
            if sizes[c] != n and 1 not in (sizes[c], n):
                raise ShapeError(f"einsum: {c!r} has two sizes: got {sizes[c]} and {n}.")
            sizes[c] = n if sizes[c] == 1 else sizes[c]
    for i in range(len(values)):
        values[i] = expand(values[i], [sizes[c] for c in terms[i]]) if terms[i] else values[i]
        values[i], terms[i] = _distinct(values[i], terms[i])
        elsewhere = "".join([result, *terms[:i], *terms[i + 1 :]])
        alone = [c for c in terms[i] if c not in elsewhere]
        if alone:
            values[i] = sum(values[i], [terms[i].index(c) for c in alone])
            terms[i] = "".join(c for c in terms[i] if c not in alone)
    if len(values) == 1:
        return permute(values[0], [terms[0].index(c) for c in result]) if result else values[0]
    return apply(Einsum(tuple(terms), result), *values)


def _distinct(value: Kind, term: str) -> tuple[Kind, str]:
    """Return the value with each letter that it has twice replaced by the diagonal."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first = term.index(letter)
            second = term.index(letter, first + 1)
            value = diagonal(value, 0, first, second)
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + letter
    return value, term


def _parse(equation: str, operands: tuple[Any, ...]) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result, "..." spelled out."""
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ArgumentError(
            f"einsum: got {len(operands)} operands for {equation!r}, expected {len(terms)}."
        )
    free = iter(c for c in string.ascii_letters if c not in equation)
    hidden = [
        len(v.shape) - len(t.replace("...", "")) for t, v in zip(terms, operands, strict=True)
    ]
    for term, value, rest in zip(terms, operands, hidden, strict=True):
        if rest < 0 or (rest and "..." not in term):
            raise ArgumentError(
                f"einsum: got shape {tuple(value.shape)} for {term!r} in {equation!r}, expected a "
                "letter for each axis."
            )
    dots = "".join(next(free) for _ in range(max(hidden, default=0)))
    spelled = [
        t.replace("...", dots[len(dots) - n :] if n else "")
        for t, n in zip(terms, hidden, strict=True)
    ]
    if others := set("".join(spelled)) - set(string.ascii_letters):
        raise ArgumentError(f"einsum: got {min(others)!r} in {equation!r}, expected letters.")
    if not arrow:
        once = sorted(c for c in set("".join(terms)) - {"."} if "".join(terms).count(c) == 1)
        return spelled, dots + "".join(once)
    result = result.replace("...", dots)
    letters_used = set("".join(spelled))
    if not set(result) <= letters_used or len(set(result)) != len(result):
        raise ArgumentError(
            f"einsum: got result {result!r} in {equation!r}, expected letters of the operands, "
            "each once."
        )
    return spelled, result
