"""From fused operators to a kernel's program, where there is one; and its runs.

A run is how far arithmetic goes before it begins anew: a matrix plus a vector begins anew at each
row. A kernel computes the end of a row as one more vector, so a short row that is no whole number
of vectors costs it as much as dozens of elements; NumPy pays less for a row, but once for every
operator that meets the vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ...arrays.library import DType
from ...arrays.shapes import Shape, numel
from ...compile.rows import POWERS, Program, Step, gives, takes
from ...compile.rows import ROWS as KERNEL_ROWS
from ...op import Op
from ...ops.elementwise.casting import Cast
from ...ops.elementwise.pointwise import Power
from ...ops.elementwise.rows import ROWS
from ..costs.machine import machine

Parts = Sequence[tuple[Op, tuple[int, ...]]]
"""Operators, inputs first; an operand is an input, or, negative, the result of -1 - operand."""


def program_of(parts: Parts, dtypes: Sequence[DType], reduction: str = "") -> Program | None:
    """Return the program of these operators; None where no kernel can compute them."""
    floats = {dtype.name for dtype in dtypes if dtype.kind != "b"}
    if len(floats) != 1 or not floats <= {"float32", "float64"}:
        return None
    kinds = ["bool" if dtype.kind == "b" else "float" for dtype in dtypes]
    steps: list[Step] = []
    for op, operands in parts:
        row, parameter = row_of(op)
        kinds_in = [kinds[i] if i >= 0 else gives(steps[-1 - i].row) for i in operands]
        if not row or kinds_in != [takes(row, i) for i in range(len(operands))]:
            return None
        steps.append(Step(row, operands, parameter))
    if reduction and gives(steps[-1].row) != "float":
        return None
    return Program(floats.pop(), tuple(kinds), tuple(steps), reduction)


def row_of(op: Op) -> tuple[str, float]:
    """Return the name under which kernels know an operator, "" for none, and its parameter."""
    if isinstance(op, Power):
        return "power", float(op.exponent)
    if isinstance(op, Cast):
        return ("as_number" if op.dtype.name in ("float32", "float64") else ""), 0.0
    is_own_row = ROWS.get(op.name) is op and op.name in KERNEL_ROWS
    return (op.name if is_own_row else ""), 0.0


def names_of(parts: Parts) -> list[str]:
    """Return the rows of these operators, for a prediction of their cost."""
    return [_costs_as(op) for op, _ in parts]


def _costs_as(op: Op) -> str:
    """Return the row that costs what `op` does: a power is some products, a root or a real one."""
    row, exponent = row_of(op)
    if row == "power":
        return "mul" if exponent in POWERS else "sqrt" if exponent == 0.5 else "pow"
    return row or op.name


LANES = 16  # of a vector of float32; of float64 it has half of them
FOLDING = 2  # operators of NumPy that take as long to begin a row as a reduction does


@dataclass(frozen=True)
class Runs:
    """The runs of one group of operators.

    Attributes:
        length: elements in a run; None where it is the whole, or not known before the run.
        broken: how many of the operators begin anew at each run when NumPy computes them.
    """

    length: int | None
    broken: int

    def kernel_s(self, parts: Parts) -> float:
        """Return the seconds, for an element, that a kernel takes for beginning runs."""
        if self.length is None:
            return 0.0
        beyond = -self.length % LANES
        extra = beyond * sum(map(machine().kernel_element_s, names_of(parts)))
        return (machine().kernel_run_s(ragged=beyond > 0) + extra) / self.length

    def numpy_s(self) -> float:
        """Return the seconds, for an element, that NumPy takes for beginning runs."""
        return 0.0 if self.length is None else self.broken * machine().numpy_run_s / self.length


def runs_of(parts: Parts, shapes: Sequence[Shape], whole: Shape, folded: int = 0) -> Runs:
    """Return the runs of operators over inputs of these shapes, whose result has the shape `whole`.

    Args:
        folded: of a reduction on top, how many of the last axes it folds.
    """
    broken = {i for i, shape in enumerate(shapes) if _axes_in_run(shape, whole) < len(whole)}
    axes = min([_axes_in_run(shapes[i], whole) for i in broken], default=len(whole))
    if folded:
        axes = min(axes, folded)
    if axes == len(whole):
        return Runs(None, 0)
    count = sum(any(place in broken for place in operands) for _, operands in parts)
    return Runs(numel(whole[len(whole) - axes :]) or None, count + (FOLDING if folded else 0))


def _axes_in_run(shape: Shape, whole: Shape) -> int:
    """Return how many of the last axes are gone through as one: all kept, or all repeated."""
    own = (*([1] * (len(whole) - len(shape))), *shape)
    repeats: bool | None = None
    for axes, (size, full) in enumerate(zip(reversed(own), reversed(whole), strict=True)):
        if full == 1:
            continue
        repeated = size == 1
        if repeats is not None and repeated != repeats:
            return axes
        repeats = repeated
    return len(whole)
