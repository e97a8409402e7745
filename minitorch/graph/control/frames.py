"""The operators that a loop is lowered to: Enter, Exit, NextIteration and LoopCond.

Each hands its input on. What they change is the token's tag, the frame (one run of a loop) and the
iteration it belongs to, and that is the executor's doing (`tokens`).

Source: Yu et al., Dynamic Control Flow in Large-Scale Machine Learning, EuroSys 2018, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...arrays import Array
from ...op import Op, Spec


@dataclass(frozen=True, eq=False)
class Frame:
    """A loop as an executor sees it: it runs in a frame of its own each time it is entered."""

    name: str
    parallel_iterations: int


class Passing(Op):
    """Base: the input itself, in another place."""

    pure = False
    ordered = False
    reads_inputs = reads_output = False

    def compute(self, xp: Any, *arrays: Array) -> Array:
        """Return the input."""
        return arrays[0]

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of the input."""
        return specs[0]


class Enter(Passing):
    """From outside into iteration 0 of the loop; a constant into every iteration."""

    def __init__(self, frame: Frame, constant: bool = False) -> None:
        self.frame, self.constant = frame, constant


class Exit(Passing):
    """From the loop's last iteration to the outside."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame


class NextIteration(Passing):
    """From one iteration to the next."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame


class LoopCond(Passing):
    """Whether there is another iteration; what decides for every Switch of the loop."""
