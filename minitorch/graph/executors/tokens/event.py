"""What a token executor tells of itself: one event for each operator that fired."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TokenEvent:
    """A token, as it leaves the operator that made it.

    Attributes:
        step: its number in this run, from 0; the order in which the operators fired.
        node_name, op_name: the operator; a node copied into a loop keeps its name.
        frame: the loops it is in, outermost first, each but the last with the iteration it was
            entered from, such as "outer[2]/inner"; "" outside all loops.
        iteration: the iteration of the innermost loop; 0 outside.
        dead: it stands for a value that was not sent.
        value: the array; None when dead.
    """

    step: int
    node_name: str
    op_name: str
    frame: str
    iteration: int
    dead: bool
    value: Any


OnEvent = Callable[[TokenEvent], None]
