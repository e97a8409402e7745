"""Sums of parts that lie in zeros, as gradients of `unbind` and of slices do: one array for all.

Zeros are neither made nor added for each part.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays import allocator
from ...arrays.library import Array, Namespace, native_device_of
from ...op import Gradients, Op, Spec
from ...ops.shaping.indexing import PlaceAdd, Slice, take_pattern
from ...ops.shaping.picked_parts import tiling
from ..core.node import Node
from .rewrite import rebuild, simple


class PlaceEach(Op):
    """Zeros of `shape` with each input added at its own pattern.

    `order` is that of the axes in memory, for what transposes the sum.
    """

    reads_inputs = reads_output = False

    def __init__(
        self,
        patterns: tuple[tuple[Any, ...], ...],
        shape: tuple[int, ...],
        order: tuple[int, ...] = (),
    ) -> None:
        self.patterns, self.shape, self.order = patterns, shape, order
        self.all = tiling(patterns, shape) is not None

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return the sum; where the parts are all of an axis, without zeros."""
        library: Any = allocator if xp is np else xp
        order = self.order or range(len(self.shape))
        sizes = tuple(self.shape[d] for d in order)
        make = library.empty if self.all else library.zeros
        out: Array = make(sizes, dtype=arrays[0].dtype, **native_device_of(arrays[0]))
        if self.order:
            out = xp.permute_dims(out, sorted(order, key=self.order.__getitem__))
        for pattern, array in zip(self.patterns, arrays, strict=True):
            if self.all:
                out[pattern] = array
            else:
                out[pattern] += array
        return out

    def infer(self, *specs: Spec) -> Spec:
        return Spec(self.shape, specs[0].dtype)

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        return tuple(take_pattern(out_grad, pattern, ()) for pattern in self.patterns)


def sum_of_placed(node: Node, a: Node, b: Node) -> Node | None:
    """Return the sum of two nodes that each place parts into zeros of one known shape, as one."""
    parts: list[tuple[tuple[Any, ...], Node]] = []
    for source in (a, b):
        op = source.op
        if not simple(source) or not isinstance(op, PlaceAdd | PlaceEach) or op.shape is None:
            return None
        if op.shape != tuple(node.shape) or not op.shape:
            return None
        if isinstance(op, PlaceEach):
            parts += zip(op.patterns, source.inputs, strict=True)
        elif len(source.inputs) == 1:
            parts.append((op.pattern, source.inputs[0]))
        else:
            return None
    shape = tuple(int(n) for n in node.shape)
    patterns, values = zip(*parts, strict=True)
    whole = _whole(patterns, values)
    if whole is not None and tuple(whole.shape) == shape and tiling(patterns, shape) is not None:
        return whole
    return rebuild(PlaceEach(patterns, shape), *values)


def _whole(patterns: Sequence[tuple[Any, ...]], values: Sequence[Node]) -> Node | None:
    """Return the node of which all values are slices, each where it is to be placed."""
    source = values[0].inputs[0] if values[0].inputs else None
    for pattern, value in zip(patterns, values, strict=True):
        slices = simple(value) and isinstance(value.op, Slice) and value.op.index == pattern
        if not slices or value.inputs[0] is not source:
            return None
    return source
