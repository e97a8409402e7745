"""Operators with several results: each is an `Output` of a hub, and the hub's operator goes back.

The gradients of the results come together at the hub, by place, before its rule runs once.
May import: op, tensor.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..op import Op, ReadsShapes
from .tensor import Tensor


@dataclass
class Arriving:
    """The gradients of a hub's outputs, by place, as they come in."""

    by_place: dict[int, Any]

    hooks = None

    def __add__(self, other: "Arriving") -> "Arriving":
        total = dict(self.by_place)
        for place, grad in other.by_place.items():
            total[place] = total[place] + grad if place in total else grad
        return Arriving(total)


class Output(ReadsShapes):
    """One result of an operator that has several."""

    def __init__(self, place: int) -> None:
        self.place = place

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Return the gradient, marked with this result's place."""
        return (Arriving({self.place: out_grad}),)


def attach(op: Op, inputs: tuple[Tensor, ...], results: Mapping[int, Tensor]) -> None:
    """Make `results`, by place, remember that `op` of `inputs` gave them.

    Its rule gets an `Arriving`.
    """
    hub = Tensor._new(np.zeros(()))
    hub.requires_grad, hub.op, hub.inputs = True, op, inputs
    for place, result in results.items():
        result.requires_grad, result.op, result.inputs = True, Output(place), (hub,)
