"""The operator of group norm: groups of channels brought to mean 0 and variance 1, scaled, shifted.

Letters: N samples, C channels, G groups.
"""

import math
from typing import Any

import numpy as np

from ...arrays import allocator
from ...arrays.library import Array, Namespace
from ...op import KeepsSpec, apply
from ..elementwise import compiled
from ..shaping.broadcasting import sum_to
from ..shaping.movement import reshape
from .standardizing import Standardize, StandardizeGradient


class GroupNorm(KeepsSpec):
    """Each group of channels of each sample standardized, times a weight, plus a bias a channel.

    Inputs x (N, C, ...), weight (C,), bias (C,).
    """

    on_arrays = True
    promotes = "float"
    reads_output = False
    name = "group_norm"

    def __init__(self, groups: int, eps: float) -> None:
        self.groups, self.eps = groups, eps

    def compute(self, xp: Namespace, x: Array, weight: Array, bias: Array) -> Array:
        y: Array
        if compiled.fits_rows(xp, x, weight, bias):
            inputs, size = (self._rows(x), weight, bias), math.prod(x.shape[2:])
            y = compiled.over_rows(
                "group_norm", inputs, self.eps, x.shape, rows=size, first=x.shape[1]
            )
            return y
        grouped = Standardize((2,), self.eps).compute(xp, xp.reshape(x, self._rows_shape(x)))
        column = (-1, *(1,) * (len(x.shape) - 2))
        y = xp.reshape(grouped, x.shape) * xp.reshape(weight, column)
        y += xp.reshape(bias, column)
        return y

    def _rows(self, x: Array) -> Array:
        return x.reshape(len(x) * self.groups, -1)

    def _rows_shape(self, x: Any) -> tuple[int, ...]:
        return (-1, self.groups, math.prod(x.shape[1:]) // self.groups)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """That of the standardized array; the weight's is Σ g y, the bias's Σ g."""
        x, weight, bias = node.inputs
        if type(out_grad) is np.ndarray and compiled.fits_rows(np, out_grad, x, weight):
            return self._gradients(out_grad, x, weight)
        shape, grouped = tuple(x.shape), self._rows_shape(x)
        w, b = (reshape(v, (1, -1, *(1,) * (len(shape) - 2))) for v in (weight, bias))
        rows = reshape(x, grouped)
        y = apply(Standardize((2,), self.eps), rows)
        op, flow = StandardizeGradient((2,), self.eps), reshape(out_grad * w, grouped)
        by_x = reshape(apply(op, flow, rows, y), shape)
        by_w, by_b = sum_to(out_grad * reshape(y, shape), w), sum_to(out_grad, b)
        return by_x, reshape(by_w, -1), reshape(by_b, -1)

    def _gradients(self, g: Array, x: Array, weight: Array) -> tuple[Array, Array, Array]:
        """Return all three by a kernel, which gives sums of each channel of each sample."""
        into = allocator.empty(x.shape, x.dtype)
        sums = np.empty((2, *x.shape[:2]), x.dtype)
        inputs = [np.ascontiguousarray(a) for a in (self._rows(g), self._rows(x), weight)]
        compiled.run_rows(
            "group_norm_gradient", (*inputs, self._rows(into), *sums), self.eps,
            rows=math.prod(x.shape[2:]), first=x.shape[1],
        )  # fmt: skip
        by_weight, by_bias = sums.sum(1)
        return into, by_weight, by_bias
