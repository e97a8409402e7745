"""`Sequence`: the steps of a recurrent layer in one direction, as one operator on tensors.

On plain arrays the loops of `time_loops` go there and back. Where gradients are recorded in turn,
the rule differentiates the formula instead: the same steps in the library's operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.backward import grad
from minitorch.nn.time_loops import Loop
from minitorch.op import Op
from minitorch.ops.elementwise.casting import clone
from minitorch.tensor.eager import quiet
from minitorch.tensor.hub import attach
from minitorch.tensor.modes import recording
from minitorch.tensor.tensor import Tensor

Formula = Callable[..., list[Any]]


class Sequence(Op):
    """The outputs of a layer in one direction and its last states, from (from_x, w, b, *first)."""

    on_arrays = True
    reads_output = False

    def __init__(self, loop: Loop, formula: Formula) -> None:
        self.loop, self.formula = loop, formula

    def attributes(self) -> dict[str, object]:
        """Return nothing: what it holds is numbers."""
        return {}

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Run the way back, or differentiate the formula."""
        arriving = out_grad.by_place
        if not any(isinstance(share, Tensor) for share in arriving.values()):
            ends = range(len(node.inputs) - 2)  # the outputs, and as many states as came in
            return self.loop.backward(*[arriving.get(place) for place in ends])
        own = [clone(value) for value in node.inputs]  # no path between them but the formula's
        results = self.formula(*own)
        wanted = [value for value in own if value.requires_grad]
        found = iter(
            grad(
                [results[place] for place in arriving],
                wanted,
                list(arriving.values()),
                create_graph=True,
                allow_unused=True,
            )
        )
        return tuple([next(found) if value.requires_grad else None for value in own])


def fits(inputs: tuple[object, ...]) -> bool:
    """Tell whether `inputs` are tensors with numbers in NumPy's memory, of one floating dtype.

    Not so are those on a device and those that are being traced.
    """
    arrays = [getattr(value, "array", None) for value in inputs]
    first = getattr(arrays[0], "dtype", None)
    return all(type(a) is np.ndarray and a.dtype == first and a.dtype.char in "fd" for a in arrays)


def run(loop: Loop, formula: Formula, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    """Return the results of the loop as tensors that remember it."""
    arrays = [value.array for value in inputs]
    results = [Tensor._new(array) for array in quiet.run(loop.forward, *arrays)]
    if recording.on and any(value.requires_grad for value in inputs):
        attach(Sequence(loop, formula), inputs, results)
    return results
