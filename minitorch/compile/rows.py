"""The operators that kernels know: minitorch's row names, and the instructions of each.

A name that is not in the table is computed by NumPy, and is a reason for not being fused. Sums,
products and comparisons round exactly as NumPy's do: nothing is contracted or reordered.

May import: text, functions, program, errors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from ..errors import ArgumentError
from . import circular, functions
from .program import Program, Step
from .text import Text

Row = Callable[..., str]


def _op(name: str) -> Row:
    return lambda t, a, b: t.op(name, a, b)


def _compare(how: str) -> Row:
    return lambda t, a, b: t.compare(how, a, b)


def _intrinsic(name: str) -> Row:
    return lambda t, x: t.intrinsic(name, x)


def _larger(t: Text, a: str, b: str) -> str:
    """a where it is larger or NaN, else b, which may be NaN too."""
    wins = t.logic("or", t.compare("oge", a, b), t.compare("uno", a, a))
    return t.either(wins, a, b)


def _smaller(t: Text, a: str, b: str) -> str:
    wins = t.logic("or", t.compare("ole", a, b), t.compare("uno", a, a))
    return t.either(wins, a, b)


def _relu(t: Text, x: str) -> str:
    return t.either(t.compare("ugt", x, t.number(0.0)), x, t.number(0.0))


def _through(t: Text, g: str, y: str) -> str:
    return t.either(t.compare("ogt", y, t.number(0.0)), g, t.number(0.0))


def _sign(t: Text, x: str) -> str:
    one = t.intrinsic("copysign", t.number(1.0), x)
    nonzero = t.compare("one", x, t.number(0.0))  # false for NaN and for both zeros
    zero = t.either(t.compare("uno", x, x), x, t.number(0.0))
    return t.either(nonzero, one, zero)


def _reciprocal(t: Text, x: str) -> str:
    return t.div(t.number(1.0), x)


def _power(t: Text, x: str, exponent: float) -> str:
    """x to a number."""
    if exponent == 0.5:  # NumPy takes the root as well, which -0 and -inf can tell from a power
        return t.intrinsic("sqrt", x)
    if exponent not in POWERS:
        return t.intrinsic("pow", x, t.number(exponent))
    found = x
    for _ in range(int(abs(exponent)) - 1):
        found = t.mul(found, x)
    return found if exponent > 0 else _reciprocal(t, found)


POWERS = (-2.0, -1.0, 1.0, 2.0, 3.0, 4.0)
"""Exponents that are a few multiplications."""

ROWS: dict[str, Row] = {
    "add": _op("fadd"),
    "sub": _op("fsub"),
    "mul": _op("fmul"),
    "div": _op("fdiv"),
    "maximum": _larger,
    "minimum": _smaller,
    "neg": lambda t, x: t.neg(x),
    "positive": lambda t, x: x,
    "abs": _intrinsic("fabs"),
    "square": lambda t, x: t.mul(x, x),
    "sqrt": _intrinsic("sqrt"),
    "rsqrt": lambda t, x: _reciprocal(t, t.intrinsic("sqrt", x)),
    "reciprocal": _reciprocal,
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "trunc": _intrinsic("trunc"),
    "rint": _intrinsic("nearbyint"),
    "sign": _sign,
    "relu": _relu,
    "relu_grad": _through,
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
    "sin": circular.sin,
    "cos": circular.cos,
    "where": lambda t, c, a, b: t.either(c, a, b),
    "eq": _compare("oeq"),
    "ne": _compare("une"),
    "lt": _compare("olt"),
    "le": _compare("ole"),
    "gt": _compare("ogt"),
    "ge": _compare("oge"),
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
    found: list[str] = []
    for i, step in enumerate(program.steps):
        if step.row not in {*ROWS, "power"}:
            known = ", ".join(sorted({*ROWS, "power"}))
            raise ArgumentError(f"program: step {i} is {step.row!r}, expected one of {known}.")
        given = [_operand(place, program.inputs, found) for place in step.operands]
        wanted = [takes(step.row, k) for k in range(arity(step.row))]
        if given != wanted:
            raise ArgumentError(
                f"program: step {i} ({step.row}) has operands of kind {given}, expected {wanted}."
            )
        found.append(gives(step.row))


def write(t: Text, program: Program, inputs: list[str]) -> str:
    """Add the instructions of `program` for these inputs; return the name of the result."""
    found: list[str] = []
    for step in program.steps:
        operands = [_operand(place, inputs, found) for place in step.operands]
        if step.row == "power":
            found.append(_power(t, operands[0], step.parameter))
        else:
            found.append(ROWS[step.row](t, *operands))
    return found[-1]


def _operand(place: int, inputs: Sequence[str], found: list[str]) -> str:
    return inputs[place] if place >= 0 else found[-1 - place]


def gives(row: str) -> str:
    """Return whether a row gives a "float" or a "bool"."""
    return "bool" if row in MASKS or row in OF_MASKS else "float"


def takes(row: str, place: int) -> str:
    """Return whether a row's operand at `place` is a "float" or a "bool"."""
    of_masks = row in OF_MASKS or row == "as_number" or (row, place) == ("where", 0)
    return "bool" if of_masks else "float"
