"""Elementwise operators as rows: name, arithmetic, derivative by each input.

`unary("exp", lambda xp, x: xp.exp(x), lambda g, x, y: g * y, "e to the power of x.")` makes the
operator and returns the function `exp`. A derivative is written for one element, as in a table of
calculus: `g` is the gradient of the result, `y` the result. Broadcasting is undone here, for all.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar

from ...arrays.library import Array, DType, Namespace, float16, float32, get_default_dtype
from ...arrays.promotion import result_type
from ...arrays.shapes import broadcast
from ...errors import DTypeError
from ...op import Gradients, Kind, Methods, Op, Spec, Value, apply
from ..shaping.broadcasting import sum_to
from . import compiled

Compute = Callable[..., Array]
Partial = Callable[..., Any]
Function = TypeVar("Function", bound=Callable[..., object])


def promoted_dtype(specs: tuple[Spec, ...], promotes: str) -> DType:
    """Return the dtype that an operator's inputs are brought to before it computes."""
    common = specs[0].dtype if specs else get_default_dtype()
    if any(spec.dtype is not common for spec in specs):
        common = result_type([(spec.dtype, len(spec.shape)) for spec in specs])
    return get_default_dtype() if promotes == "float" and common.kind != "f" else common


class Elementwise(Op):
    """An operator that treats each element alone; its inputs broadcast.

    Args:
        partials: the derivative by each input; none where there is no gradient.
        dtype, promotes, kinds: of the result where it is another; of the inputs; those allowed.
        reads: what derivatives read the numbers of: "x" inputs, "o" other inputs, "d" other inputs
            for the first, all for the second, "y" the result.
        fixed: how many inputs keep their dtype.
    """

    on_arrays = True

    def __init__(
        self,
        name: str,
        compute: Compute,
        partials: tuple[Partial, ...],
        *,
        dtype: DType | None = None,
        promotes: str = "common",
        reads: str = "xy",
        fixed: int = 0,
        kinds: str = "biuf",
    ) -> None:
        self._name, self.partials, self.dtype, self.kinds = name, partials, dtype, kinds
        self.compute = compute  # type: ignore[method-assign]  # a row's own arithmetic
        self.promotes, self.fixed = promotes, fixed
        self.reads_inputs, self.reads_output = bool(set("xod") & set(reads)), "y" in reads
        self.reads_across = 2 if "o" in reads else int("d" in reads)

    name = property(attrgetter("_name"), doc="The row's name, which is torch's.")

    def infer(self, *specs: Spec) -> Spec:
        shape = broadcast(*(spec.shape for spec in specs), op=self._name)
        common = promoted_dtype(specs[self.fixed :], self.promotes)
        if common.kind not in self.kinds:
            expected = " or ".join(KINDS[kind] for kind in self.kinds if kind != "u")
            raise DTypeError(f"{self._name}: got {common}, expected {expected}. Convert first.")
        return Spec(shape, self.dtype or common)

    def attributes(self) -> dict[str, object]:
        """Return nothing: a row has no parameters."""
        return {}

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> tuple[object, ...]:
        return _row, (self._name,)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return the derivative by each input that is asked for, summed to its shape."""
        shares = []
        for partial, source, wanted in zip(self.partials, node.inputs, node.wants, strict=True):
            share = partial(out_grad, *node.inputs, node.output) if wanted else None
            shares.append(None if share is None else sum_to(share, source))
        return shares


class Unary(Elementwise):
    """A row of one input."""

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        if not self.partials:
            return (None,)
        return (self.partials[0](out_grad, node.inputs[0], node.output),)


class Binary(Elementwise):
    """A row of two inputs that broadcast against each other."""

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return the row's two derivatives, each summed to the shape of its input."""
        if not self.partials:
            return None, None
        a, b = node.inputs
        left, right = node.wants
        da = db = None
        if left:
            da, shape = self.partials[0](out_grad, a, b, node.output), a.shape
            if da.shape != shape or None in shape:
                da = sum_to(da, a)
        if right:
            db, shape = self.partials[1](out_grad, a, b, node.output), b.shape
            if db.shape != shape or None in shape:
                db = sum_to(db, b)
        return da, db


NUMBERS = "iuf"
"""The kinds of dtype that are numbers: all but bools."""

KINDS = {"b": "bools", "i": "integers", "f": "floats"}
"""What the kinds of dtype are called in messages."""

ROWS: dict[str, Elementwise] = {}
"""Every row by name."""


def operator_of(row: Callable[..., object]) -> Elementwise:
    """Return the operator that a row's function applies."""
    return ROWS[row.__name__]


def _row(name: str) -> Elementwise:
    return ROWS[name]


def unary(
    name: str, compute: Compute, partial: Partial | None, says: str, **how: Any
) -> Callable[[Kind], Kind]:
    """Add a row of one input and return its function; `partial` None: no gradient, zero steps."""
    partials = () if partial is None else (partial,)
    op = Unary(name, compute, partials, **how)
    ROWS[name] = op

    def call(input: Kind) -> Kind:
        if isinstance(input, Value):
            return input._apply(op, (input,))
        return apply(op, input)

    return name_after_row(call, name, says, op)


def binary(
    name: str,
    compute: Compute,
    left: Partial | None,
    right: Partial | None,
    says: str,
    **how: Any,
) -> Callable[[Kind, object], Kind]:
    """Add a row of two inputs and return its function."""
    partials = () if left is None or right is None else (left, right)
    op = Binary(name, compute, partials, **how)
    ROWS[name] = op

    def call(input: Kind, other: object) -> Kind:
        if isinstance(input, Value):
            return input._apply(op, (input, other))
        return apply(op, input, other)

    return name_after_row(call, name, says, op)


def name_after_row(function: Function, name: str, says: str, op: Op) -> Function:
    """Return `function` with the row's name and docstring, and the operator as `.op`."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = says
    function.op = op  # type: ignore[attr-defined]  # a function's own attribute
    return function


# Rows of float16 by way of float32, in which processors compute: NumPy does it one by one.


def _widen(x: Any) -> Any:
    return compiled.convert(x, float32) if x.dtype is float16 else x


def compute_in_float32(op: Op, xp: Namespace, *arrays: Array) -> Array:
    """Return an operator of NumPy's arrays, of which the first is float16, rounded once."""
    if not isinstance(op, Elementwise):
        return op.compute(xp, *arrays)
    result = op.compute(xp, *map(_widen, arrays))
    return compiled.convert(result, float16) if result.dtype is float32 else result


def gradient_in_float32(op: Op, grad: Array, node: Any) -> Any:
    """Return the gradients of an operator's inputs; that of its result, `grad`, is float16."""
    if not isinstance(op, Elementwise):
        return op.gradient(grad, node)
    node.inputs, node.output = tuple(map(_widen, node.inputs)), _widen(node.output)
    wide, shares = _widen(grad), []
    for share in op.gradient(wide, node):  # type: ignore[union-attr]  # one for each input
        if share is wide:
            share = grad
        is_wide = share is not None and share.dtype is float32
        shares.append(compiled.convert(share, float16) if is_wide else share)
    return shares
