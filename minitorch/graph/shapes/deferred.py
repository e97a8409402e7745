"""What is built once shapes are known, and slices that only the run knows.

`late(build, inputs)` stands for `build(*inputs)`: for variables and placeholders without any shape,
and for what computes with a size that is not known (`sizes`).
When a run feeds arrays, `by_shape` builds the graph again over placeholders of the arrays' shapes,
where everything is known.

A slice that NumPy's basic indexing cannot take before the run, `x[:n]` of a node n or `x[::-1]`,
becomes the places it names, which a gather then takes along its axis. May import nothing of the
graph but static shapes: nodes use it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...arrays.library import Array, DType, Namespace, int32, native_dtype
from ...arrays.shapes import Shape
from ...errors import GraphError
from ...op import FixedSpec, Flat, Gradients, Op, Spec, Value
from .static import StaticShape, UnknownShape, as_static

NOT_TOLD = (
    "shape: the shapes of the feeds do not tell a size: it depends on values, or comes out of a "
    "loop's lists. Say it by tf.reshape, or feed the value whose size it is."
)


class Late(FixedSpec):
    """A part of the graph that is built when the shapes of its inputs are known."""

    pure = False
    name = "late"

    def __init__(self, build: Callable[..., Any], dtype: DType, shape: Shape) -> None:
        self.build, self.dtype, self.shape = build, dtype, shape

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Raise: a run builds it first, from the shapes of what is fed."""
        raise GraphError(NOT_TOLD)


def late(
    build: Callable[..., object], inputs: Sequence[object], dtype: DType, shape: object = None
) -> Any:
    """Return a node that stands for `build(*inputs)`, with what is known of its shape."""
    static = as_static(shape)
    node = Late(build, dtype, static)(*inputs)
    node.shape = static  # though that of an input is not
    return node


def any_late(nodes: Iterable[Value]) -> bool:
    """Tell whether one of `nodes` is built late, or is a loop with something inside that is."""
    for node in nodes:
        inside = getattr(node.op, "nodes", None)  # of a loop
        if isinstance(node.op, Late) or (callable(inside) and any_late(inside())):
            return True
    return False


def unknown(*nodes: Value) -> bool:
    """Tell whether the number of axes of one of these is not known."""
    return any(isinstance(node.shape, UnknownShape) for node in nodes)


def defer(function: Callable[..., object], *nodes: Value) -> Any:
    """Return `function(*nodes)`, put off until they have a shape if one has none yet."""
    return late(function, nodes, nodes[0].dtype) if unknown(*nodes) else function(*nodes)


class AsScalar(Op):
    """The input, which at run time has to be one number.

    Attributes:
        source: the name of the input, for the message.
    """

    reads_inputs = reads_output = False

    def __init__(self, source: str) -> None:
        self.source = source

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return the array.

        Raises:
            GraphError: it has axes.
        """
        self._check(tuple(arrays[0].shape))
        return arrays[0]

    def infer(self, *specs: Spec) -> Spec:
        self._check(specs[0].shape)
        return Spec((), specs[0].dtype)

    def gradient(self, out_grad: Value, node: Value) -> Gradients:
        return out_grad

    def _check(self, shape: Shape) -> None:
        if shape != ():
            raise GraphError(
                f"scalar: {self.source!r} has axes: got shape {shape}, expected (), one value. "
                "Feed one, or reduce it."
            )


def as_scalar(node: Any) -> Any:
    """Return `node`; where nothing is known of its shape, as one number, checked at run time."""
    if not isinstance(node.shape, UnknownShape):
        return node
    scalar = AsScalar(node.name)(node)
    scalar.shape = StaticShape(())
    return scalar


class Places(Flat):
    """The places along an axis of the first input that a slice names.

    Attributes:
        axis: the axis.
        bounds: start, stop and step of the slice; ... for one that is a further input.
    """

    reads_inputs = reads_output = False

    def __init__(self, axis: int, bounds: tuple[object, object, object]) -> None:
        self.axis, self.bounds = axis, bounds

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        bounds = iter(arrays[1:])
        cut = slice(*(int(next(bounds)) if n is ... else n for n in self.bounds))
        return xp.arange(*cut.indices(arrays[0].shape[self.axis]), dtype=native_dtype(xp, int32))

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of a vector, of a known length where no bound is an input."""
        size = specs[0].shape[self.axis]
        if size is None or ... in self.bounds:
            return Spec((None,), int32)
        return Spec((len(range(*slice(*self.bounds).indices(size))),), int32)


def is_cut(item: object) -> bool:
    """Tell whether an index is a slice with a node in it, or one that goes back."""
    if not isinstance(item, slice):
        return False
    if any(isinstance(n, Value) for n in (item.start, item.stop, item.step)):
        return True
    return item.step is not None and item.step < 0


def cut(x: Any, index: tuple[Any, ...]) -> Any:
    """Return x[index], where some of the slices are cuts.

    Raises:
        GraphError: there are arrays of places as well.
    """
    if any(not isinstance(n, int | slice) and n is not None and n is not ... for n in index):
        raise x.error(
            f"index: got {x.name!r} indexed by places and by a computed slice at once. Index twice."
        )
    part = x[tuple(slice(None) if is_cut(n) else n for n in index)]
    slices = [n for n in index if not isinstance(n, int)]
    for i, item in enumerate(slices):
        if is_cut(item):
            axis = i - len(slices) if ... in slices[:i] else i
            part = _take(part, axis % len(part.shape), item)
    return part


def _take(x: Any, axis: int, item: slice) -> Any:
    bounds = (item.start, item.stop, item.step)
    nodes = [as_scalar(n) for n in bounds if isinstance(n, Value)]
    fixed = tuple(... if isinstance(n, Value) else n for n in bounds)
    places = Places(axis, fixed)(x, *nodes)  # type: ignore[arg-type]
    return x[(*(slice(None),) * axis, places)]
