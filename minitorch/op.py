"""The seam: `Op`, what every operator is; `Value`, what operators apply to; `apply` between them.

An operator is three things side by side:

    compute(xp, *arrays)      the arithmetic, written once against the array API; `xp` is NumPy on
                              the CPU, array-api-compat's torch or CuPy on CUDA
    infer(*specs)             shape and dtype of the result from those of the inputs
    gradient(out_grad, node)  the gradient of each input, written in the library's own operators

`apply(op, *inputs)` asks the first `Value` among the inputs what to do. A `Tensor` computes at once
and remembers the operator; a `graph.Node` remembers and computes when a session runs; plain arrays
are just computed. This file and `ops/` know neither. Because `gradient` is written in operators,
one rule serves all three: it differentiates again on tensors, builds the backward graph on nodes,
and costs no more than NumPy on arrays (see `on_arrays`).

A kind of value subclasses `ops.Methods` (which is a `Value` with all operators as methods) and
provides `shape`, `dtype`, `op`, `inputs` and `_apply(op, inputs)`. `_apply` receives its own kind,
other Python numbers and arrays mixed; it wraps what is not yet of its kind, and, when
`op.promotes`, brings the inputs to one dtype first.

A learner's operator, in a notebook:

    class Exp(Op):
        def compute(self, xp, x):
            return xp.exp(x)

        def gradient(self, out_grad, node):
            (x,) = node.inputs
            return out_grad * exp(x)          # or out_grad * node: node is the result

    exp_op = Exp()
    exp_op(tensor([1.0]))                     # a Tensor, with a backward
    exp_op(graph.placeholder("float32", (3,)))   # a Node, with a symbolic gradient

Parameters go into `__init__` as attributes. `infer` may be left out: it is then found by running
`compute` on zeros. With several inputs `gradient` returns a tuple, `None` where an input has no
gradient (an index, say). An operator without `gradient` runs forward; backward through it raises
`NoGradientRule` and names it.

May import: errors, arrays; ops.methods, to check types.
Source of the trio: the operator nodes of CSE 599W and needle.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeAlias, TypeVar, overload

import numpy as np

from .arrays.bfloat16 import widen
from .arrays.library import (
    HOST_TYPES,
    Array,
    DType,
    Halves,
    Namespace,
    Scalar,
    get_default_dtype,
    host_dtype,
    namespace,
)
from .arrays.promotion import result_type, scalar_dtype
from .arrays.shapes import Shape, is_known
from .errors import DTypeError, GraphError, IndexShapeError, NoGradientRule, ShapeError

if TYPE_CHECKING:
    from .ops.methods import Methods as Methods

Kind = TypeVar("Kind", bound="Methods")
"""A kind of value: operators of a tensor give tensors, those of a node nodes."""


class Spec(NamedTuple):
    """What is known of a value before it is computed. A size that is not known is None."""

    shape: Shape
    dtype: DType


class Value:
    """What operators apply to. A kind of value says how, in `_apply`."""

    __slots__ = ()

    shape: Any
    dtype: Any
    op: Any
    inputs: Any
    once_sized: ClassVar[Callable[..., object] | None] = None  # puts a function off until then

    def _apply(self, op: "Op", inputs: tuple[object, ...]) -> Self:
        raise NotImplementedError(f"{type(self).__name__} does not say how it applies operators.")

    @property
    def output(self) -> Self:
        """The result of `op`: the value itself. A rule that reuses its result reads it here."""
        return self

    @property
    def wants(self) -> tuple[bool, ...]:
        """For each input, whether its gradient is asked for; a rule may leave out the others."""
        return (True,) * len(self.inputs)


if not TYPE_CHECKING:
    Methods = Value  # what rules are annotated with; `ops.methods` stands above this file

Gradients: TypeAlias = Value | Sequence[Value | None] | None
"""What a gradient rule gives: a value for each input, None where there is none; of one input alone
it need not be in a tuple."""


class Op:
    """An operator: `compute`, `infer`, `gradient`. Instances are callable on any kind of value."""

    promotes: str = ""
    """"common": inputs are first brought to one dtype; "float": to one floating dtype; "numbers":
    to one dtype, and none is a bool; "same": they have one dtype already."""

    fixed: int = 0
    """How many leading inputs promotion leaves alone: a condition, an index."""

    on_arrays: bool = False
    """`gradient` uses only arithmetic and functions of `ops`, so it also runs on plain arrays."""

    reads_inputs: bool = True
    reads_output: bool = True
    """What `gradient` reads the numbers of, not only the shape: must not be overwritten before."""
    copies_output: bool = False
    """A recorded update of the result leaves `gradient` a copy: PyTorch's does not read it."""

    reads_across: int = 0
    """The gradient of each of so many first inputs reads only other inputs: 2 of a product's, the
    dividend of a quotient's."""

    halves: str = "as float32"
    """How `compute` takes bfloat16: "as float32", "as they are", or "moved" without being read."""
    reads_indices: bool = False
    """Of the inputs, the gradient reads only those that are no floats: indices, a condition."""

    views: bool = False
    """The result looks into the memory of the first input, where the array library can."""

    pure: bool = True
    """Equal inputs give equal results: false for random numbers and for effects."""

    name = property(attrgetter("__class__.__name__"), doc="What messages and pictures call it.")

    def compute(self, xp: Namespace, *arrays: Any) -> Array:
        """Return the result for these arrays, in the namespace `xp` of their library."""
        raise NotImplementedError(f"{self.name}: `compute` is not defined. Define it.")

    def infer(self, *specs: Spec) -> Spec:
        """Return the `Spec` of the result; here by running `compute` on zeros.

        Raises:
            ShapeError, DTypeError: the inputs do not fit.
            GraphError: a size is unknown and `compute` fails on a guess.
        """
        return infer_by_trial(self, specs)

    def gradient(self, out_grad: Any, node: Any) -> Gradients:
        """Return the gradient of each input of `node`, given that of its result.

        Args:
            out_grad: gradient of the result, of the result's shape.
            node: the result; `node.inputs` are the inputs it was computed from.
        """
        raise NoGradientRule(
            f"{self.name}: backward through an operator that has no gradient. "
            f"Define gradient(self, out_grad, node) on {type(self).__name__}, or detach its result."
        )

    def __call__(self, *inputs: object) -> Any:
        return apply(self, *inputs)

    def attributes(self) -> dict[str, object]:
        """Return the parameters of the operator by name, for pictures and graph passes."""
        return dict(vars(self))

    def __repr__(self) -> str:
        parameters = ", ".join(f"{k}={v!r}" for k, v in self.attributes().items())
        return f"{self.name}({parameters})"


class ReadsShapes(Op):
    """An operator whose gradient reads shapes alone, no numbers."""

    on_arrays = True
    reads_inputs = reads_output = False


class Flat(ReadsShapes):
    """An operator that no small change of its inputs changes: no gradient flows through it."""

    def gradient(self, out_grad: Any, node: Any) -> Gradients:
        return (None,) * len(node.inputs)


class KeepsSpec(Op):
    """An operator whose result has the shape and dtype of an input, the first unless told."""

    like: ClassVar[int] = 0

    def infer(self, *specs: Spec) -> Spec:
        return specs[self.like]


class FixedSpec(Op):
    """An operator whose result has a shape and dtype of its own; one number unless told."""

    shape: Shape = ()
    dtype: DType

    def infer(self, *specs: Spec) -> Spec:
        return Spec(self.shape, self.dtype)


@overload
def apply(op: Op, first: Kind, /, *inputs: object) -> Kind: ...


@overload
def apply(op: Op, /, *inputs: object) -> "Methods": ...


def apply(op: Op, /, *inputs: object) -> object:
    """Return `op` of `inputs`, of the kind that the first `Value` among them is."""
    if inputs and isinstance(inputs[0], Value):  # most often
        return inputs[0]._apply(op, inputs)
    host = False
    for value in inputs:
        if type(value) in HOST_TYPES:
            host = True
        elif isinstance(value, Value):
            return value._apply(op, inputs)
        elif isinstance(value, Halves):
            return op.compute(np, *(inputs if op.halves == "as they are" else widen(inputs)))
        elif hasattr(value, "dtype"):
            return op.compute(namespace(value), *inputs)
    if host:
        return op.compute(np, *inputs)
    kinds = ", ".join(type(value).__name__ for value in inputs)
    raise DTypeError(
        f"{op.name}: got {kinds or 'no inputs'}, expected a tensor, a node or an array among them. "
        "Wrap one with minitorch.tensor."
    )


def common_dtype(op: Op, operands: Sequence[tuple[DType, int | None] | Scalar]) -> DType:
    """Return the one dtype to which `op` brings operands, given as to `result_type`.

    Raises:
        DTypeError: a bool is among what must be numbers; names the dtypes.
    """
    if op.promotes == "numbers":
        dtypes = [o[0] if isinstance(o, tuple) else scalar_dtype(o) for o in operands]
        if any(dtype.kind == "b" for dtype in dtypes):
            raise DTypeError(
                f"{op.name}: got {' and '.join(map(str, dtypes))}, expected no bools. Use ~ or ^, "
                "or convert first."
            )
    dtype = result_type(operands)
    return get_default_dtype() if op.promotes == "float" and dtype.kind != "f" else dtype


def check_result(op: Op, result: object) -> Array:
    """Return what `compute` of a learner's operator gave, if it is an array.

    Raises:
        DTypeError: it is something else; says what.
    """
    if not hasattr(result, "dtype") or isinstance(result, Value):
        raise DTypeError(
            f"{op.name}.compute: got {type(result).__name__} as its result, expected one array. "
            "Return one, as xp.exp(x) gives it."
        )
    return result  # type: ignore[return-value]  # of whatever library


def infer_by_trial(op: Op, specs: Sequence[Spec]) -> Spec:
    """Return shape and dtype of the result by running `compute` on zeros of these shapes.

    Where sizes are unknown it runs twice, with different guesses; a size of the result that
    changes with the guess is unknown too.
    """
    first = _trial(op, specs, 2)
    if all(is_known(spec.shape) for spec in specs):
        return first
    second = _trial(op, specs, 3)
    shape = tuple(a if a == b else None for a, b in zip(first.shape, second.shape, strict=True))
    return Spec(shape, first.dtype)


def _trial(op: Op, specs: Sequence[Spec], guess: int) -> Spec:
    shapes = [tuple(guess if n is None else n for n in spec.shape) for spec in specs]
    zeros = [np.zeros(s, host_dtype(spec.dtype)) for s, spec in zip(shapes, specs, strict=True)]
    try:
        with np.errstate(all="ignore"):
            result = op.compute(np, *zeros)
    except Exception as error:
        got = ", ".join(str(spec.shape) for spec in specs)
        if not all(is_known(spec.shape) for spec in specs):
            raise GraphError(
                f"{op.name}: cannot tell its shape: got inputs {got} with unknown sizes, and a "
                f"trial with {guess} fails ({error}). Define infer(self, *specs)."
            ) from error
        kind = IndexShapeError if isinstance(error, IndexError) else ShapeError
        raise kind(f"{op.name}: does not fit: got inputs {got}: {error}") from error
    checked = np.asarray(check_result(op, result))
    return Spec(checked.shape, checked.dtype)
