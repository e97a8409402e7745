"""Program: what a kernel computes, as plain data. Equal programs share one kernel.

May import: errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..errors import ArgumentError

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
