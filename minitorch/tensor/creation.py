"""New tensors: from data, filled with one number, or counting."""

import math
import operator
from typing import Any, TypedDict, Unpack

import numpy as np

from ..arrays import allocator
from ..arrays import library as _arrays
from ..arrays.generator import Generator, default_generator
from ..arrays.library import (
    Array,
    DeviceLike,
    DTypeLike,
    as_dtype,
    asarray,
    cast,
    check_fits,
    int64,
    native_device,
    native_dtype,
)
from ..arrays.promotion import scalar_dtype
from ..arrays.shapes import INTEGERS
from ..errors import ArgumentError, DTypeError
from ..op import Value, apply
from ..ops.elementwise.casting import cast_to
from ..ops.random import Integers, Normal, Permutation, Uniform
from ..ops.shaping.broadcasting import ExpandTo
from ..ops.shaping.movement import sizes
from .tensor import Tensor, tensor


class Options(TypedDict, total=False):
    """As what, where, and whether to follow its gradient, a tensor is made."""

    dtype: DTypeLike
    device: DeviceLike
    requires_grad: bool


def from_numpy(array: Array) -> Tensor:
    """Return a tensor that shares memory with a NumPy array.

    Raises:
        DTypeError: a tensor, which `jit` also makes of arrays that it gets.
    """
    if isinstance(array, Tensor):
        raise DTypeError(
            "from_numpy: got a tensor, expected a NumPy array. Leave it out, or use as_tensor, "
            "which takes both: in a jitted function arguments that are arrays are tensors."
        )
    as_dtype(array.dtype)
    return Tensor._new(array)


def from_dlpack(data: Any) -> Tensor:
    """Return a tensor that shares memory with another library's array, on its device (DLPack).

    Raises:
        DTypeError: it is no such array, or of a dtype that no tensor has.
    """
    if not hasattr(data, "__dlpack__"):
        raise DTypeError(
            f"from_dlpack: got a {type(data).__name__}, expected an array that has __dlpack__, as "
            "PyTorch's and NumPy's have. Use minitorch.tensor for numbers."
        )
    cpu = np.empty(0).__dlpack_device__()
    xp: Any = (
        np if data.__dlpack_device__() == cpu else _arrays.namespace_on(_arrays.device("cuda"))
    )
    array = xp.from_dlpack(data)
    as_dtype(array.dtype)
    return Tensor._new(array)


def as_tensor(data: object, dtype: DTypeLike = None, device: DeviceLike = None) -> Tensor:
    """Return `data` as a tensor, sharing memory where it can: a tensor itself, a NumPy array."""
    if isinstance(data, Tensor):
        moved: Tensor = data.to(dtype=dtype, device=device)
        return moved
    if isinstance(data, np.ndarray) and dtype is None and device is None:
        as_dtype(data.dtype)
        return Tensor._new(data)
    return tensor(data, dtype=dtype, device=device or "cpu")


def _shape(name: str, size: tuple[object, ...]) -> tuple[int, ...]:
    """Return the sizes of a new tensor."""
    shape = sizes(size)
    if any(n < 0 for n in shape):
        raise ArgumentError(f"{name}: got size {shape}, expected no negative size.")
    return shape


def full(
    size: object,
    fill_value: object,
    *,
    dtype: DTypeLike = None,
    device: DeviceLike = "cpu",
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of shape `size` filled with one number, whose dtype it has unless given."""
    place = _arrays.device(device)
    xp = _arrays.namespace_on(place)
    number = fill_value.item() if hasattr(fill_value, "item") else fill_value
    if not isinstance(number, int | float):
        raise DTypeError(f"full: got {number!r}, expected a number.")
    wanted = scalar_dtype(number) if dtype is None else as_dtype(dtype)
    check_fits("full", number, wanted)
    shape = _shape("full", (size,))
    if xp is np:
        array = allocator.empty(shape, _arrays.host_dtype(wanted))
        array.fill(np.asarray(number).astype(array.dtype) if number < 0 else number)  # may wrap
    else:
        dtype_there = native_dtype(xp, _arrays.host_dtype(wanted))
        array = xp.full(shape, number, dtype=dtype_there, device=native_device(place))
    filled = Tensor._from_filled(cast(array, wanted))
    return filled.requires_grad_() if requires_grad else filled


def zeros(*dims: object, size: object = (), **options: Unpack[Options]) -> Tensor:
    """Return zeros of these sizes, or of shape `size`."""
    return full(sizes(dims or (size,)), 0.0, **options)


def ones(*dims: object, size: object = (), **options: Unpack[Options]) -> Tensor:
    """Return ones of these sizes, or of shape `size`."""
    return full(sizes(dims or (size,)), 1.0, **options)


empty = zeros  # memory that is not set would only make errors hard to repeat


def _wrap(
    numbers: Array,
    usual: DTypeLike,
    dtype: DTypeLike = None,
    device: DeviceLike = "cpu",
    requires_grad: bool = False,
) -> Tensor:
    usual = _arrays.get_default_dtype() if usual is None else usual
    wanted = as_dtype(usual if dtype is None else dtype)
    wrapped = Tensor._new(asarray(numbers, wanted, _arrays.device(device), copy=False))
    return wrapped.requires_grad_() if requires_grad else wrapped


def arange(
    start: float, end: float | None = None, step: float = 1, **options: Unpack[Options]
) -> Tensor:
    """Return the numbers from `start` (0) up to but not `end`, `step` apart; integers stay so."""
    start, end = (0, start) if end is None else (start, end)
    if not all(map(math.isfinite, (start, end, step))):
        raise ArgumentError(f"arange: got {start}, {end}, {step}, expected finite numbers.")
    if step == 0 or (end - start) * step < 0:
        raise ArgumentError(f"arange: got {start} to {end} in steps of {step}: it never arrives.")
    whole = all(isinstance(n, INTEGERS) for n in (start, end, step))
    count = math.ceil((end - start) / step)
    numbers: Array = np.arange(count, dtype=np.int64 if whole else np.float64)
    if (start, step) != (0, 1):
        numbers *= step
        numbers += start
    return _wrap(numbers, "int64" if whole else None, **options)


def linspace(start: float, end: float, steps: int, **options: Unpack[Options]) -> Tensor:
    """Return `steps` numbers from `start` to `end`, both included."""
    if steps < 0:
        raise ArgumentError(f"linspace: got {steps} steps, expected 0 or more.")
    return _wrap(np.linspace(float(start), float(end), operator.index(steps)), None, **options)


def eye(n: int, m: int | None = None, **options: Unpack[Options]) -> Tensor:
    """Return ones on the diagonal of an (n, m) matrix of zeros."""
    if min(n, 0 if m is None else m) < 0:
        raise ArgumentError(f"eye: got {n} rows and {m} columns, expected no negative number.")
    return _wrap(np.eye(n, m, dtype=bool), None, **options)


def _check_like(name: str, input: object) -> None:
    if not isinstance(input, Value):
        raise DTypeError(f"{name}: got {type(input).__name__}, expected a tensor or a node.")


def _like(input: Tensor, options: Options) -> Any:
    """Return `options` with the dtype and device of `input` where none is given."""
    stated = {name: value for name, value in options.items() if value is not None}
    return {"dtype": input.dtype, "device": input.device, **stated}


def full_like(input: Tensor, fill_value: object, **options: Unpack[Options]) -> Tensor:
    """Return a tensor like `input`, filled with one number; of a node, a node."""
    _check_like("full_like", input)
    if not isinstance(input, Tensor):
        dtype = as_dtype(options.get("dtype") or input.dtype)
        number = (
            np.asarray(fill_value, dtype) if isinstance(fill_value, int | float) else fill_value
        )
        return cast_to(apply(ExpandTo(), number, input), dtype)
    return full(input.size(), fill_value, **_like(input, options))


def zeros_like(input: Tensor, **options: Unpack[Options]) -> Tensor:
    """Return zeros like `input`."""
    return full_like(input, 0, **options)


def ones_like(input: Tensor, **options: Unpack[Options]) -> Tensor:
    """Return ones like `input`."""
    return full_like(input, 1, **options)


empty_like = zeros_like


# ── random numbers ──────────────────────────────────────────────────────────────────────────────


def _draw(
    kind: type[Uniform] | type[Normal],
    name: str,
    size: tuple[object, ...],
    generator: Generator | None,
    dtype: DTypeLike = None,
    device: DeviceLike = "cpu",
    requires_grad: bool = False,
) -> Tensor:
    place = _arrays.device(device)
    wanted = _arrays.get_default_dtype() if dtype is None else as_dtype(dtype)
    if wanted.kind != "f":
        raise DTypeError(f"{name}: got {wanted}, expected a floating dtype. Use randint.")
    op = kind(_shape(name, size), wanted, generator=generator or default_generator(place))
    drawn = Tensor._draw(op, place)
    return drawn.requires_grad_() if requires_grad else drawn


def rand(
    *dims: object,
    size: object = (),
    generator: Generator | None = None,
    **options: Unpack[Options],
) -> Tensor:
    """Return numbers evenly spread in [0, 1)."""
    return _draw(Uniform, "rand", dims or (size,), generator, **options)


def randn(
    *dims: object,
    size: object = (),
    generator: Generator | None = None,
    **options: Unpack[Options],
) -> Tensor:
    """Return numbers of the normal distribution with mean 0 and variance 1."""
    return _draw(Normal, "randn", dims or (size,), generator, **options)


def randint(
    low: int = 0,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: DTypeLike = None,
    device: DeviceLike = "cpu",
) -> Tensor:
    """Return integers from `low` (0) up to but not `high`, of shape `size`."""
    if size is None:
        high, size = None, high
    if high is None:
        low, high = 0, low
    low, high = operator.index(low), operator.index(high)
    if high <= low:
        raise ArgumentError(f"randint: got {low} to {high}, expected a range with a number in it.")
    place, shape = _arrays.device(device), _shape("randint", (size,))
    source = generator or default_generator(place)
    return Tensor._draw(Integers(shape, as_dtype(dtype or "int64"), low, high, source), place)


def randperm(n: int, *, generator: Generator | None = None, device: DeviceLike = "cpu") -> Tensor:
    """Return 0 to n - 1 in random order."""
    shape = _shape("randperm", (n,))
    place = _arrays.device(device)
    source = generator or default_generator(place)
    return Tensor._draw(Permutation(shape, int64, generator=source), place)


def normal(
    mean: Any, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None
) -> Tensor:
    """Return normally distributed numbers; mean and deviation: numbers, or tensors of a shape."""
    if not isinstance(std, Tensor) and std < 0:
        raise ArgumentError(f"normal: got std {std}, expected 0 or more.")
    if size is None:
        size = mean.shape if isinstance(mean, Tensor) else std.shape
    drawn: Tensor = randn(size, generator=generator) * std + mean
    return drawn


def rand_like(
    input: Tensor, *, generator: Generator | None = None, **options: Unpack[Options]
) -> Tensor:
    """Return numbers evenly spread in [0, 1), of the shape of `input`."""
    _check_like("rand_like", input)
    return rand(input.size(), generator=generator, **_like(input, options))


def randn_like(
    input: Tensor, *, generator: Generator | None = None, **options: Unpack[Options]
) -> Tensor:
    """Return normally distributed numbers of the shape of `input`."""
    _check_like("randn_like", input)
    return randn(input.size(), generator=generator, **_like(input, options))


def bernoulli(input: Tensor, *, generator: Generator | None = None) -> Tensor:
    """Return 1 with the probability that `input` gives, else 0."""
    drawn: Tensor = (rand_like(input, generator=generator) < input.detach()).to(input.dtype)
    return drawn
