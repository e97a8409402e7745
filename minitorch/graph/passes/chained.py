"""A chain of matrix products whose order the run chooses, because only the run knows the sizes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ...arrays import Array
from ...op import Op, Spec
from ...ops.linalg import MatMul
from ..core.gradients import gradients

Split = dict[tuple[int, int], int]
MATMUL = MatMul()


class Chain(Op):
    """The product of several matrices, in the order of the fewest multiplications."""

    def compute(self, xp: Any, *factors: Array) -> Array:
        """Return the product."""
        sizes = (*(int(f.shape[0]) for f in factors), int(factors[-1].shape[1]))
        return _product(xp, factors, split_of(sizes), 0, len(factors) - 1)

    def infer(self, *specs: Spec) -> Spec:
        """Return what the products infer, from left to right."""
        return functools.reduce(MATMUL.infer, specs)

    def unfused(self, *inputs: Any) -> Any:
        """Return the products as they were, over these nodes."""
        return functools.reduce(MATMUL, inputs)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Differentiate the products as they were, over the same inputs."""
        inputs = list(node.inputs)
        return tuple(gradients(self.unfused(*inputs), inputs, out_grad, stop_gradients=inputs))


def cheapest(sizes: Sequence[int]) -> tuple[int, Split]:
    """Return the least number of multiplications for matrices sizes[i] x sizes[i+1], and where
    each stretch (i, j) of the chain is cut.

    Source: Cormen et al., Introduction to Algorithms, section 14.2.
    """
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split: Split = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            choices = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], split[i, j] = min(choices)
    return cost[0, count - 1], split


@functools.lru_cache(maxsize=1024)
def split_of(sizes: tuple[int, ...]) -> Split:
    """Return where the cheapest order cuts; kept, because most runs have sizes of one kind."""
    return cheapest(sizes)[1]


def _product(xp: Any, factors: Sequence[Array], split: Split, i: int, j: int) -> Array:
    if i == j:
        return factors[i]
    k = split[i, j]
    left, right = _product(xp, factors, split, i, k), _product(xp, factors, split, k + 1, j)
    return MATMUL.compute(xp, left, right)
