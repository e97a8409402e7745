"""What a kernel computes: programs of rows, the operators that it knows, with their instructions.

A program is plain data; equal ones share a kernel. Rows have minitorch's names.

A name that is not in the table is computed by NumPy, and is a reason for not being fused. Sums,
products and comparisons round exactly as NumPy's do: nothing is contracted or reordered.

May import: text, functions, errors.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from ..errors import ArgumentError
from . import functions
from .text import Text

Row = Callable[..., str]
DTYPES = ("float32", "float64")
REDUCTIONS = ("", "sum", "amax", "amin")


class Step(NamedTuple):
    """One operator of a program.

    Attributes:
        row: the operator's name, a key of `rows.ROWS`.
        operands: an input by its place; a negative one is the result of step -1 - operand.
        parameter: the number that belongs to the operator, an exponent say.
    """

    row: str
    operands: tuple[int, ...]
    parameter: float = 0.0


@dataclass(frozen=True)
class Program:
    """A tree of elementwise operators, whose last result is stored, or reduced and stored.

    Attributes:
        dtype: in which all numbers are computed, "float32" or "float64".
        inputs: for each input whether it is a "float" of that dtype, or a "bool".
        steps: inputs first.
        reduction: "" for none; "sum", "amax" or "amin" over the last axes.
    Raises:
        ArgumentError: a step uses what is not there yet, or there is no step.
    """

    dtype: str
    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    reduction: str = ""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES or self.reduction not in REDUCTIONS or not self.steps:
            raise ArgumentError(
                f"program: got dtype {self.dtype!r}, reduction {self.reduction!r} and "
                f"{len(self.steps)} steps, expected one of {DTYPES}, one of {REDUCTIONS}, and one "
                "step or more."
            )
        for i, step in enumerate(self.steps):
            if not all(-i <= operand < len(self.inputs) for operand in step.operands):
                raise ArgumentError(
                    f"program: step {i} ({step.row}) has operands {step.operands}, expected inputs "
                    f"below {len(self.inputs)} or results of earlier steps, -1 to {-i}."
                )


def _extreme(how: str) -> Row:
    """a where it is the larger (oge) or smaller one (ole) or NaN, else b, which may be NaN too."""

    def row(t: Text, a: str, b: str) -> str:
        wins = t.logic("or", t.compare(how, a, b), t.compare("uno", a, a))
        return t.either(wins, a, b)

    return row


def _sign(t: Text, x: str) -> str:
    sign = t.intrinsic("copysign", t.number(1.0), x)
    nonzero = t.compare("one", x, t.number(0.0))  # false for NaN and for both zeros
    return t.either(nonzero, sign, t.number(0.0))


def _reciprocal(t: Text, x: str) -> str:
    return t.div(t.number(1.0), x)


def _power(t: Text, x: str, exponent: float) -> str:
    """x to a number."""
    if exponent == 0.5:  # NumPy takes the root as well, which -0 and -inf can tell from a power
        return t.intrinsic("sqrt", x)
    if exponent not in POWERS:
        return t.intrinsic("pow", x, t.number(exponent))
    product = x
    for _ in range(int(abs(exponent)) - 1):
        product = t.mul(product, x)
    return product if exponent > 0 else _reciprocal(t, product)


POWERS = (-2.0, -1.0, 1.0, 2.0, 3.0, 4.0)
"""Exponents that are a few multiplications."""

ROWS: dict[str, Row] = {
    "add": lambda t, a, b: t.add(a, b),
    "sub": lambda t, a, b: t.sub(a, b),
    "mul": lambda t, a, b: t.mul(a, b),
    "div": lambda t, a, b: t.div(a, b),
    "maximum": _extreme("oge"),
    "minimum": _extreme("ole"),
    "clamp_min": _extreme("oge"),
    "clamp_max": _extreme("ole"),
    "neg": lambda t, x: t.neg(x),
    "positive": lambda t, x: x,
    "abs": lambda t, x: t.intrinsic("fabs", x),
    "square": lambda t, x: t.mul(x, x),
    "sqrt": lambda t, x: t.intrinsic("sqrt", x),
    "rsqrt": lambda t, x: _reciprocal(t, t.intrinsic("sqrt", x)),
    "reciprocal": _reciprocal,
    "floor": lambda t, x: t.intrinsic("floor", x),
    "ceil": lambda t, x: t.intrinsic("ceil", x),
    "trunc": lambda t, x: t.intrinsic("trunc", x),
    "rint": lambda t, x: t.intrinsic("nearbyint", x),
    "sign": _sign,
    "relu": lambda t, x: t.either(t.compare("ugt", x, t.number(0.0)), x, t.number(0.0)),
    "relu_grad": lambda t, g, y: t.either(t.compare("une", y, t.number(0.0)), g, t.number(0.0)),
    "zeros_like": lambda t, x: t.number(0.0),
    "ones_like": lambda t, x: t.number(1.0),
    "exp": functions.exp,
    "expm1": functions.expm1,
    "log": functions.log,
    "log1p": functions.log1p,
    "sigmoid": functions.sigmoid,
    "tanh": functions.tanh,
    "erf": functions.erf,
    "gelu": lambda t, x: t.mul(x, functions.normal_cdf(t, x)),
    "gelu_grad": lambda t, g, x: t.mul(g, functions.gelu_slope(t, x)),
    "pow": lambda t, x, y: t.intrinsic("pow", x, y),
    "atan2": functions.atan2,
    "fmod": functions.fmod,
    "remainder": functions.remainder,
    "floor_divide": functions.floor_divide,
    "sin": partial(functions.circular, "sin"),
    "cos": partial(functions.circular, "cos"),
    "where": lambda t, c, a, b: t.either(c, a, b),
    "eq": lambda t, a, b: t.compare("oeq", a, b),
    "ne": lambda t, a, b: t.compare("une", a, b),
    "lt": lambda t, a, b: t.compare("olt", a, b),
    "le": lambda t, a, b: t.compare("ole", a, b),
    "gt": lambda t, a, b: t.compare("ogt", a, b),
    "ge": lambda t, a, b: t.compare("oge", a, b),
    "isnan": lambda t, x: t.compare("uno", x, x),
    "as_number": lambda t, c: t.either(c, t.number(1.0), t.number(0.0)),
    "logical_and": lambda t, a, b: t.logic("and", a, b),
    "logical_or": lambda t, a, b: t.logic("or", a, b),
    "logical_xor": lambda t, a, b: t.logic("xor", a, b),
}
MASKS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "isnan"})
"""Rows of numbers that give a mask."""
OF_MASKS = frozenset({"logical_and", "logical_or", "logical_xor"})
"""Rows of masks that give a mask."""


def arity(row: str) -> int:
    """Return how many operands a row has."""
    return 1 if row == "power" else len(inspect.signature(ROWS[row]).parameters) - 1


def on_gpus(step: Step) -> bool:
    """Tell whether a row is our own code alone, and calls no C library."""
    if step.row == "power":
        return step.parameter in (*POWERS, 0.5)
    return step.row not in ("pow", "sin", "cos")


def check(program: Program) -> None:
    """Raise unless every step is a row, of as many operands of the kinds that it takes.

    Raises:
        ArgumentError: names the step and what is wrong.
    """
    kinds: list[str] = []
    for i, step in enumerate(program.steps):
        if step.row not in {*ROWS, "power"}:
            expected = ", ".join(sorted({*ROWS, "power"}))
            raise ArgumentError(f"program: step {i} is {step.row!r}, expected one of {expected}.")
        taken = [_operand(place, program.inputs, kinds) for place in step.operands]
        wanted = [takes(step.row, k) for k in range(arity(step.row))]
        if taken != wanted:
            raise ArgumentError(
                f"program: step {i} ({step.row}) has operands of kind {taken}, expected {wanted}."
            )
        kinds.append(gives(step.row))


def write(t: Text, program: Program, inputs: list[str]) -> str:
    """Add the instructions of `program` for these inputs; return the name of the result."""
    values: list[str] = []
    for step in program.steps:
        operands = [_operand(place, inputs, values) for place in step.operands]
        if step.row == "power":
            values.append(_power(t, operands[0], step.parameter))
        else:
            values.append(ROWS[step.row](t, *operands))
    return values[-1]


def _operand(place: int, inputs: Sequence[str], results: list[str]) -> str:
    return inputs[place] if place >= 0 else results[-1 - place]


def gives(row: str) -> str:
    """Return whether a row gives a "float" or a "bool"."""
    return "bool" if row in MASKS or row in OF_MASKS else "float"


def takes(row: str, place: int) -> str:
    """Return whether a row's operand at `place` is a "float" or a "bool"."""
    of_masks = row in OF_MASKS or row == "as_number" or (row, place) == ("where", 0)
    return "bool" if of_masks else "float"


# Reductions of vectors

IDENTITY = {"sum": 0.0, "amax": -float("inf"), "amin": float("inf"), "greatest": -float("inf")}


def fold(t: Text, reduction: str, a: str, b: str) -> str:
    """Return two vectors as one, lane by lane; the greatest is that of numbers, NaN left out."""
    if reduction == "sum":
        return t.add(a, b)
    if reduction == "greatest":
        return t.either(t.compare("ogt", b, a), b, a)  # one instruction
    row = ROWS["maximum" if reduction == "amax" else "minimum"]
    return row(t, a, b)


def across(t: Text, reduction: str, vector: str) -> str:
    """Fold the lanes of a vector: with its own half turned, quarter turned, ... Return lane 0."""
    turn = t.width // 2
    while turn:
        lanes = [(i + turn) % t.width for i in range(t.width)]
        vector = fold(t, reduction, vector, t.shuffle(vector, "poison", lanes))
        turn //= 2
    return t.lane(t.vector, vector, 0)
