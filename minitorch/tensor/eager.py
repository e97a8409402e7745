"""What happens around an operator's `compute` when it is applied to tensors at once.

Inputs that are no tensors are wrapped, dtypes promoted as torch promotes, devices compared; what
NumPy reports when shapes do not fit is replaced by what the operator's `infer` says about it.
May import: errors, arrays, op, ops; tensor, to check types.
"""

import contextvars
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.bfloat16 import compute_widened
from ..arrays.library import (
    HOST_TYPES,
    Array,
    Device,
    DType,
    Halves,
    Scalar,
    asarray,
    float16,
    host_dtype,
    namespace,
)
from ..arrays.promotion import result_type
from ..errors import AxisError, DeviceError, DTypeError, MinitorchError, ShapeError
from ..op import Op, Spec, Value, check_result, common_dtype
from ..ops.elementwise.casting import Cast, Move
from ..ops.elementwise.rows import compute_in_float32

if TYPE_CHECKING:
    from .tensor import Tensor


class _Quiet(threading.local):
    """`run(f, *args)` calls f with NumPy's floating-point warnings off: torch has none either.

    Entering a context prepared once a thread costs a tenth of `numpy.errstate`.
    """

    def __init__(self) -> None:
        context = contextvars.copy_context()
        context.run(np.seterr, all="ignore")
        self.run = context.run


quiet = _Quiet()
_ndarray = np.ndarray

_constants: dict[tuple[Scalar, type, str], "Tensor"] = {}
_CONSTANTS_KEPT = 512  # more than the distinct Python numbers in any sensible program


def constant(number: Scalar, dtype: DType, kind: type["Tensor"]) -> "Tensor":
    """Return a tensor of `kind` around a Python number; the same one again for the same number."""
    key = (number, type(number), dtype.char)
    scalar = _constants.get(key)
    if scalar is None:
        fits = dtype.kind == "f" or number == 0
        scalar = kind._new(dtype.type(number) if fits else np.asarray(number).astype(dtype)[()])
        if len(_constants) >= _CONSTANTS_KEPT:
            _constants.clear()
        if number:  # 0.0 and -0.0 are equal, and not the same
            _constants[key] = scalar
    return scalar


def host_arrays(op: Op, inputs: tuple[Any, ...], kind: type["Tensor"]) -> list[Array] | None:
    """Return the inputs' arrays where NumPy computes with them as they are, else None.

    All are tensors of `kind` in NumPy's memory, of one dtype in what the operator promotes. What a
    view is taken of is an array, no scalar.
    """
    arrays: list[Array] = []
    dtype, promotes = None, op.promotes
    for value in inputs:
        if not isinstance(value, kind):
            return None
        array = value.array
        if type(array) is not _ndarray:
            if type(array) not in HOST_TYPES:
                return None
            if op.views:
                array = value._own_array()
        if promotes and array.dtype is not dtype and len(arrays) >= op.fixed:
            if dtype is not None or (promotes == "float" and array.dtype.kind != "f"):
                return None
            dtype = array.dtype
        arrays.append(array)
    return arrays


def run_op(op: Op, arrays: list[Array]) -> Array:
    """Return `op` of prepared arrays, of whatever library; of two bytes as float32."""
    xp, compute = namespace(arrays[0]), op.compute
    if Halves in map(type, arrays):
        compute = partial(compute_widened, op, op.compute)
    elif arrays[0].dtype is float16:
        compute = partial(compute_in_float32, op)
    if op.on_arrays:
        return quiet.run(compute, xp, *arrays)
    return check_result(op, compute(xp, *arrays))


def prepare(op: Op, inputs: tuple[Any, ...], kind: type["Tensor"]) -> tuple["Tensor", ...]:
    """Return `inputs` as tensors of `kind`, on one device and, if the operator promotes, one dtype.

    Raises:
        DeviceError: tensors live on different devices.
        DTypeError: an input is not a tensor, an array or a number.
    """
    own, loose = inputs[: op.fixed], inputs[op.fixed :]
    if op.promotes and len(loose) == 2 and all(_is_host(v, kind) for v in own):
        a, b = loose
        if type(b) in _NUMBERS and _gives_dtype(op, a, b, kind):
            return (*own, a, constant(b, a.array.dtype, kind))
        if type(a) in _NUMBERS and _gives_dtype(op, b, a, kind):
            return (*own, constant(a, b.array.dtype, kind), b)
    tensors = [v for v in inputs if isinstance(v, kind)]
    place = next((v.device for v in tensors if v.ndim), tensors[0].device)
    if op.promotes:
        if op.promotes == "same":
            _check_same_dtype(op, [v.dtype for v in loose if isinstance(v, kind)])
        operands = [_operand(op, v, kind) for v in loose]
        dtype = common_dtype(op, operands)
        fixed = [_wrap(op, v, None, place, kind) for v in own]
        return (*fixed, *(_wrap(op, v, dtype, place, kind) for v in loose))
    return tuple(_wrap(op, v, None, place, kind) for v in inputs)


_NUMBERS = frozenset([int, float])


def _check_same_dtype(op: Op, dtypes: list[DType]) -> None:
    if len(set(dtypes)) > 1:
        names = " and ".join(map(str, dtypes))
        raise DTypeError(
            f"{op.name}: dtypes differ: got {names}, expected one. Convert with .to(dtype=...)."
        )


def _is_host(value: object, kind: type["Tensor"]) -> bool:
    return isinstance(value, kind) and type(value.array) in HOST_TYPES


def _gives_dtype(op: Op, value: Any, number: int | float, kind: type["Tensor"]) -> bool:
    """Tell whether a Python number beside `value` simply takes its dtype."""
    if not _is_host(value, kind):
        return False
    of = value.array.dtype.kind
    return of == "f" or (of == "i" and type(number) is int and op.promotes != "float")


def _operand(op: Op, value: object, kind: type["Tensor"]) -> tuple[DType, int] | Scalar:
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, kind):
        return value.dtype, value.ndim
    array = _foreign(op, value)
    return array.dtype, array.ndim


def _foreign(op: Op, value: object) -> Array:
    if isinstance(value, Value):
        raise DTypeError(
            f"{op.name}: a tensor meets a {type(value).__name__} of a dataflow graph. Feed the "
            "tensor to a placeholder, or make it a constant of the graph."
        )
    if isinstance(value, np.ndarray | np.generic | list | tuple):
        return np.asarray(value)
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    raise DTypeError(
        f"{op.name}: got an input of type {kind}, expected a tensor of minitorch or a number. "
        "Wrap it with minitorch.tensor."
    )


def _wrap(
    op: Op, value: object, dtype: DType | None, place: Device, kind: type["Tensor"]
) -> "Tensor":
    if isinstance(value, kind):
        if value.device != place:
            if value.ndim:
                raise DeviceError(
                    f"{op.name}: inputs live on {place} and {value.device}, expected one device. "
                    f"Move one with .to('{place}')."
                )
            value = value._apply(Move(place), (value,))
        if dtype is None or dtype == value.dtype:
            return value
        return value._apply(Cast(dtype), (value,))
    if isinstance(value, bool | int | float):
        wanted = host_dtype(dtype) if dtype is not None else result_type([value])
        if place.type == "cpu":
            wrapped = constant(value, wanted, kind)
            if type(wrapped.array) in HOST_TYPES:
                return wrapped
        return kind._new(asarray(value, wanted, place))
    return kind._new(asarray(_foreign(op, value), dtype, place))


def explain(op: Op, inputs: tuple["Tensor", ...], error: Exception) -> Exception:
    """Return the error to raise when `compute` failed: what `infer` says, else its own."""
    theirs = (IndexError, TypeError, ValueError, RuntimeError)  # what array libraries raise
    if isinstance(error, MinitorchError) or not op.on_arrays or not isinstance(error, theirs):
        return error
    if not all(isinstance(value, Value) for value in inputs):  # it is about one that is no array
        return error
    specs = [Spec(tuple(v.shape), v.dtype) for v in inputs]
    try:
        op.infer(*specs)
    except MinitorchError as better:
        return better
    types = " and ".join(f"{spec.dtype} {spec.shape}" for spec in specs)
    message = f"{op.name}: cannot be computed: got {types}: {error}"
    for ours, kind in ((AxisError, IndexError), (DTypeError, TypeError), (ShapeError, ValueError)):
        if isinstance(error, kind):
            return ours(message)
    return MinitorchError(message)
