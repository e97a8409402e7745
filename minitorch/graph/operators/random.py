"""Random nodes: new numbers at each run, from a generator that each session keeps for each node.

With a seed (of the node, or of the graph by `set_random_seed`) every new session repeats the same
sequence; two nodes of one graph differ.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...arrays.library import (
    CPU,
    Array,
    DType,
    DTypeLike,
    asarray,
    float32,
    get_default_dtype,
    graph_dtype,
)
from ...arrays.shapes import Shape
from ...errors import GraphError
from ...op import Flat, Spec
from ..core.graph import get_default_graph
from ..core.naming import rename
from ..core.node import Node, UnknownShape, as_shape, build
from ..core.variables import State, StateOp
from ..shapes.computed import is_computed, of_shape

__all__ = ["random_normal", "random_uniform", "set_random_seed", "truncated_normal"]


class Random(Flat, StateOp):
    """Numbers drawn anew at each run, of a fixed shape or that of the input."""

    name = ""  # of the function that makes the node: random_uniform, random_normal, ...

    def __init__(
        self, kind: str, a: float, b: float, shape: Shape, dtype: DType, seed: Sequence[int] | None
    ) -> None:
        self.name, self.a, self.b = kind, a, b
        self.shape, self.dtype, self.seed = shape, dtype, seed

    def run(self, state: State, *arrays: Array) -> Array:
        draw = state.generator(self, self.seed)
        shape = tuple(arrays[0].shape) if arrays else self.shape
        array = getattr(self, f"_{self.name}")(draw, shape)
        return array if state.device == CPU else asarray(array, None, state.device)

    def infer(self, *specs: Spec) -> Spec:
        return Spec(specs[0].shape if specs else self.shape, self.dtype)

    def _random_uniform(self, draw: np.random.Generator, shape: tuple[int, ...]) -> Any:
        if self.dtype.kind in "iu":
            return draw.integers(int(self.a), int(self.b), shape, self.dtype)
        drawn = np.float32 if self.dtype == float32 else np.float64  # half the bits, half the time
        numbers = draw.random(shape, drawn).astype(self.dtype, copy=False)
        return numbers * self.dtype.type(self.b - self.a) + self.dtype.type(self.a)

    def _random_normal(self, draw: np.random.Generator, shape: tuple[int, ...]) -> Any:
        drawn = np.float32 if self.dtype == float32 else np.float64
        numbers = draw.standard_normal(shape, drawn).astype(self.dtype, copy=False)
        return numbers * self.dtype.type(self.b) + self.dtype.type(self.a)

    def _truncated_normal(self, draw: np.random.Generator, shape: tuple[int, ...]) -> Any:
        numbers = np.asarray(draw.standard_normal(shape))
        while (outside := np.abs(numbers) > 2.0).any():  # 4.6 % a round
            numbers[outside] = draw.standard_normal(int(outside.sum()))
        return (numbers * self.b + self.a).astype(self.dtype)


def random_uniform(
    shape: object,
    minval: float = 0.0,
    maxval: float | None = None,
    dtype: DTypeLike = None,
    seed: int | None = None,
    name: str | None = None,
) -> Node:
    """Return numbers uniform in [minval, maxval), 1 unless given; integers need a maxval."""
    kind = get_default_dtype() if dtype is None else graph_dtype(dtype)
    if maxval is None and kind.kind != "f":
        raise GraphError("random_uniform: integers need a maxval, which is left out of the range.")
    return _random(
        "random_uniform", minval, 1.0 if maxval is None else maxval, shape, kind, seed, name
    )


def _normal(called: str, says: str) -> Callable[..., Node]:
    def draw(
        shape: object,
        mean: float = 0.0,
        stddev: float = 1.0,
        dtype: DTypeLike = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Node:
        kind = get_default_dtype() if dtype is None else graph_dtype(dtype)
        return _random(called, mean, stddev, shape, kind, seed, name)

    draw.__name__ = draw.__qualname__ = called
    draw.__doc__ = says
    return draw


random_normal = _normal("random_normal", "Return numbers of a normal distribution.")
truncated_normal = _normal(
    "truncated_normal",
    "Return numbers of a normal distribution, those beyond two deviations drawn again.",
)


def set_random_seed(seed: int | None) -> None:
    """Seed the random nodes that the default graph builds from here on."""
    get_default_graph().seed = seed


def uniform_like(x: Node, seed: int | None = None) -> Node:
    """Return numbers uniform in [0, 1) of the shape and dtype of `x`."""
    op = Random("random_uniform", 0.0, 1.0, (), x.dtype, seed_of(seed))
    return build(op, (x,))


def _random(
    kind: str, a: float, b: float, shape: object, dtype: DType, seed: int | None, name: str | None
) -> Node:
    if is_computed(shape):
        op = Random(kind, a, b, (), dtype, seed_of(seed))
        return rename(build(op, (of_shape(shape),)), name)
    sizes = as_shape(shape)
    if isinstance(sizes, UnknownShape) or None in sizes:
        raise GraphError(f"{kind}: got shape {shape}, expected every size. Random needs to know.")
    return rename(build(Random(kind, a, b, sizes, dtype, seed_of(seed)), ()), name)


def seed_of(seed: int | None) -> Sequence[int] | None:
    """Return what a new random node seeds its generators with; None is anew in each session."""
    graph = get_default_graph()
    graph.random_nodes += 1
    if seed is None:
        return None if graph.seed is None else (graph.seed, graph.random_nodes)
    return (0 if graph.seed is None else graph.seed, seed)
