"""From fused operators to a kernel's program, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Sequence

from ... import compile as code
from ...arrays import DType
from ...op import Op
from ...ops.casting import Cast
from ...ops.pointwise import Power
from ...ops.rows import ROWS

Parts = Sequence[tuple[Op, tuple[int, ...]]]
"""Operators, inputs first; an operand is an input, or, negative, the result of -1 - operand."""


def program_of(parts: Parts, dtypes: Sequence[DType], reduction: str = "") -> code.Program | str:
    """Return the program of these operators, or why no kernel can compute them."""
    floats = {dtype.name for dtype in dtypes if dtype.kind != "b"}
    if len(floats) != 1 or not floats <= {"float32", "float64"}:
        return f"inputs are {', '.join(sorted(d.name for d in set(dtypes))) or 'none'}"
    kinds = ["bool" if dtype.kind == "b" else "float" for dtype in dtypes]
    steps: list[code.Step] = []
    for op, operands in parts:
        row, parameter = row_of(op)
        if not row:
            return f"{op.name} has no vector code"
        given = [_kind(place, kinds, steps) for place in operands]
        if given != [code.takes(row, i) for i in range(len(operands))]:
            return f"{op.name} of {', '.join(given)} has no vector code"
        steps.append(code.Step(row, operands, parameter))
    if reduction and code.gives(steps[-1].row) != "float":
        return f"{reduction} of booleans has no vector code"
    return code.Program(floats.pop(), tuple(kinds), tuple(steps), reduction)


def row_of(op: Op) -> tuple[str, float]:
    """Return the name under which kernels know an operator, "" for none, and its parameter."""
    if isinstance(op, Power):
        return "power", float(op.exponent)
    if isinstance(op, Cast):
        return ("as_number" if op.dtype.name in ("float32", "float64") else ""), 0.0
    known = ROWS.get(op.name) is op and op.name in code.ROWS
    return (op.name if known else ""), 0.0


def names_of(parts: Parts) -> list[str]:
    """Return the rows of these operators, for a prediction of their cost."""
    return [_costs_as(op) for op, _ in parts]


def _costs_as(op: Op) -> str:
    """Return the row that costs what `op` does: a power is some products, a root or a real one."""
    row, exponent = row_of(op)
    if row == "power":
        return "mul" if exponent in code.POWERS else "sqrt" if exponent == 0.5 else "pow"
    return row or op.name


def _kind(place: int, inputs: Sequence[str], steps: Sequence[code.Step]) -> str:
    return inputs[place] if place >= 0 else code.gives(steps[-1 - place].row)
