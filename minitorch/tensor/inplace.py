"""In-place updates of tensors: `x += y`, `x.add_(y)`, `x[i] = y`, `x.exp_()`.

Under `no_grad`, and on values without history, they only write. An update of a recorded result, or
by one, is recorded itself (`rebase`). A leaf that requires a gradient cannot be updated while
recording: its gradient would be that of numbers which are gone.

May import: this folder, arrays, errors, op, ops.
"""

import functools
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from ..arrays.generator import default_generator
from ..arrays.library import HOST_TYPES, Array, DTypeLike, as_dtype, asarray, cast, check_fits
from ..arrays.shapes import stretches
from ..errors import ArgumentError, DTypeError, GradientError, ShapeError
from ..op import Op
from ..ops.elementwise import activation, binary, logic, pointwise
from ..ops.elementwise.casting import clone
from ..ops.methods import Methods
from ..ops.random import Drawn, Normal, Uniform
from ..ops.shaping.assigning import assign_at, replace_all
from ..ops.shaping.indexing import put, split_index
from .eager import quiet
from .modes import no_grad, recording
from .rebase import apply_views, base_of, hides_base, past_of, rebase
from .versions import clock


def _sign(name: str) -> Callable[["InPlace", object], "InPlace"]:
    """Return the method behind a sign such as `+=`."""

    def method(self: "InPlace", other: object) -> "InPlace":
        return self._apply_sign(name, other)

    return method


class InPlace(Methods):
    """The in-place half of `Tensor`."""

    __slots__ = ()

    array: Array
    requires_grad: bool
    _grad: "InPlace | None"
    op: Op | None
    device: Any
    to: Any
    item: Any
    _draw: Any
    _new: Any
    _own_array: Any

    def _refuse_leaf(self, name: str) -> None:
        if recording.on and self.requires_grad and self.op is None:
            raise GradientError(
                f"{name}: cannot overwrite a leaf that requires a gradient while recording. "
                "Update it under no_grad(), or compute a new tensor."
            )

    def _records(self, name: str, *sources: object) -> bool:
        """Tell whether an update by `sources` is to be recorded.

        Raises:
            GradientError: a leaf that requires a gradient would be overwritten.
        """
        if not recording.on:
            return False
        self._refuse_leaf(name)
        return self.requires_grad or any(getattr(s, "requires_grad", False) for s in sources)

    def _record(
        self, name: str, function: Callable[..., Any], *others: object, **options: object
    ) -> Self:
        """Update by `function(self, *others)` and take its place in the graph.

        An update of a view is recorded as one of its base: what else shows the base follows.
        """
        own: Any = self
        base, path = base_of(own)
        if path:
            base._refuse_leaf(name)
        if hides_base(base):
            raise GradientError(
                f"{name}: cannot record an update of a view that was made under no_grad(). Make "
                "the view outside of it, or update a clone()."
            )
        predecessor = past_of(base)
        before = apply_views(predecessor, path)
        if name not in _BLIND:  # the update's gradient reads the numbers: keep them
            before = clone(before)
        result = function(before, *(before if o is self else o for o in others), **options)
        self._write(name, result.array)
        rebase(base, predecessor, path, result)
        return self

    def _write(self, name: str, array: Array) -> Self:
        """Put the numbers of `array` into this tensor's own memory."""
        own = self._array_to_write(name)
        if own.shape != array.shape:
            raise ShapeError(
                f"{name}: the result has shape {tuple(array.shape)}, expected {tuple(own.shape)}: "
                "in place nothing grows."
            )
        check_rank(name, array.dtype, own.dtype)
        own[...] = array
        clock.tick(own)
        return self

    def _array_to_write(self, name: str) -> Array:
        """Return the array that is going to be written to."""
        own: Array = self._own_array()
        if type(own) is np.ndarray and not own.flags.writeable:
            raise ShapeError(
                f"{name}: this memory cannot be written to: it is an expanded tensor's or "
                "overlapping windows', where several elements lie in one place, or a read-only "
                "array's. Update a clone()."
            )
        return own

    def _update(
        self, name: str, function: Callable[..., Any], *others: object, **options: object
    ) -> Self:
        if self._records(name, *others, *options.values()):
            return self._record(name, function, *others, **options)
        with no_grad():
            return self._write(name, function(self, *others, **options).array)

    def add_(self, other: object, *, alpha: float = 1) -> Self:
        """Add `alpha * other` in place."""
        return self._arithmetic("add_", other, alpha)

    def sub_(self, other: object, *, alpha: float = 1) -> Self:
        """Subtract `alpha * other` in place."""
        return self._arithmetic("sub_", other, alpha)

    def mul_(self, other: object) -> Self:
        """Multiply by `other` in place."""
        return self._arithmetic("mul_", other)

    def div_(self, other: object, *, rounding_mode: str | None = None) -> Self:
        """Divide by `other` in place."""
        if rounding_mode is not None:
            return self._update("div_", pointwise.div, other, rounding_mode=rounding_mode)
        return self._arithmetic("div_", other)

    def _arithmetic(self, name: str, other: Any, alpha: float = 1) -> Self:
        """Do one of the four operations in place: by the ufunc where that says the same."""
        if self._records(name, other):
            scaled = other if alpha == 1 else other * alpha
            return self._record(name, _FUNCTIONS[name], scaled)
        own = self._array_to_write(name)
        array = other.array if isinstance(other, InPlace) else other
        plain = type(array) in (float, int)
        fits = type(own) is np.ndarray and own.dtype.kind == "f"
        fits = fits and (plain or (type(array) in HOST_TYPES and array.dtype is own.dtype))
        if fits and (plain or array.shape == own.shape or stretches(array.shape, own.shape)):
            quiet.run(_into, _UFUNCS[name], own, array if alpha == 1 else array * alpha)
            clock.tick(own)
            return self
        return self._update(name, _FUNCTIONS[name], other if alpha == 1 else other * alpha)

    def _apply_sign(self, name: str, other: object) -> Self:
        """Do `x += y` and its like."""
        if name in _UFUNCS:
            return self._arithmetic(name, other)
        return self._update(name, _FUNCTIONS[name], other)

    __iadd__ = _sign("add_")
    __isub__ = _sign("sub_")
    __imul__ = _sign("mul_")
    __itruediv__ = _sign("div_")
    __ifloordiv__ = _sign("floor_divide_")
    __imod__ = _sign("remainder_")
    __ipow__ = _sign("pow_")
    __iand__ = _sign("bitwise_and_")
    __ior__ = _sign("bitwise_or_")
    __ixor__ = _sign("bitwise_xor_")
    __ilshift__ = _sign("bitwise_left_shift_")
    __irshift__ = _sign("bitwise_right_shift_")

    def copy_(self, source: object) -> Self:
        """Overwrite with the numbers of `source`, broadcast and converted."""
        if self._records("copy_", source):
            return self._record("copy_", replace_all, source)
        own = self._array_to_write("copy_")
        array = source.array if isinstance(source, InPlace) else np.asarray(source)
        if not stretches(array.shape, own.shape):
            raise ShapeError(
                f"copy_: got shape {tuple(array.shape)}, expected one that broadcasts to "
                f"{tuple(own.shape)}."
            )
        own[...] = asarray(cast(array, self.dtype), None, self.device, copy=False)
        clock.tick(own)
        return self

    def zero_(self) -> Self:
        """Overwrite with zeros."""
        return self.fill_(0)

    def fill_diagonal_(self, fill_value: object) -> Self:
        """Overwrite the elements whose places on all axes are equal with one number.

        Raises:
            ShapeError: there are no two axes, or more of different sizes.
        """
        own: Any = self
        shape = own.shape
        if len(shape) < 2 or (len(shape) > 2 and len({*shape}) > 1):
            raise ShapeError(f"fill_diagonal_: got shape {shape}, expected a matrix or a cube.")
        own[(np.arange(min(shape)),) * len(shape)] = fill_value
        return self

    def fill_(self, value: object) -> Self:
        """Overwrite with one number."""
        if self._records("fill_", value):
            return self._record("fill_", replace_all, value)
        own = self._array_to_write("fill_")
        number = value.item() if isinstance(value, InPlace) else value
        check_fits("fill_", number, self.dtype)
        own[...] = cast(np.asarray(number), self.dtype) if type(own) is np.ndarray else number
        clock.tick(own)
        return self

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Self:
        """Overwrite with numbers of a normal distribution."""
        if std < 0:
            raise ArgumentError(f"normal_: got std {std}, expected 0 or more.")
        return self._draw_into("normal_", Normal, mean, std, generator)

    # torch calls the limits so
    def uniform_(self, from_: float = 0.0, to: float = 1.0, *, generator: Any = None) -> Self:
        """Overwrite with numbers evenly spread in [from_, to)."""
        if to < from_:
            raise ArgumentError(f"uniform_: got {from_} to {to}, expected them in order.")
        return self._draw_into("uniform_", Uniform, from_, to, generator)

    def _draw_into(
        self, name: str, kind: type[Drawn], first: float, second: float, generator: Any
    ) -> Self:
        self._refuse_leaf(name)
        source = generator or default_generator(self.device)
        op = kind(self.shape, as_dtype(self.dtype), first, second, source)
        return self.copy_(self._draw(op, self.device))

    def __setitem__(self, index: Any, value: object) -> None:
        if self._records(_ASSIGN, value):
            self._record(_ASSIGN, assign_at, index, value)
            return
        own = self._array_to_write(_ASSIGN)
        pattern, arrays = split_index(index)
        if arrays:
            arrays = tuple([a.array if isinstance(a, InPlace) else a for a in arrays])
        values: Any = value.array if isinstance(value, InPlace) else value
        check_fits(_ASSIGN, values, self.dtype)
        try:
            if not hasattr(values, "dtype"):
                values = asarray(cast(np.asarray(values), self.dtype), None, self.device)
            elif type(values) is not np.ndarray or values.dtype is not own.dtype:
                values = cast(values, self.dtype)
            put(own, pattern, arrays, values)
        except (ValueError, IndexError, RuntimeError) as error:
            kind = IndexError if isinstance(error, IndexError) else ShapeError
            raise kind(f"x[index] = value: does not fit: {error}") from error
        clock.tick(own)


_ROWS = [binary.add, binary.sub, binary.mul, binary.true_divide, binary.floor_divide]
_ROWS += [binary.remainder, logic.bitwise_and, logic.bitwise_or, logic.bitwise_xor]
_ROWS += [logic.bitwise_left_shift, logic.bitwise_right_shift, pointwise.pow]
_FUNCTIONS = {f"{row.__name__}_": row for row in _ROWS}
_UFUNCS = {"add_": np.add, "sub_": np.subtract, "mul_": np.multiply, "div_": np.true_divide}
_ASSIGN = "x[index] = value"
_BLIND = frozenset(["add_", "sub_", "copy_", "fill_", "masked_fill_", _ASSIGN])
"""Updates whose gradient does not read what was overwritten."""


def _into(ufunc: np.ufunc, own: Array, array: object) -> None:
    ufunc(own, array, out=own)


def check_rank(name: str, result: DTypeLike, own: DTypeLike) -> None:
    """Raise if numbers of one dtype cannot be kept in place as another: halves as integers."""
    if _rank(result) > _rank(own):
        raise DTypeError(f"{name}: a {result} result does not fit {own} in place. Convert it.")


@functools.cache
def _rank(dtype: DTypeLike) -> int:
    name = str(dtype).removeprefix("torch.")
    return 0 if name == "bool" else 2 if "float" in name else 1


def _make_update(name: str, function: Callable[..., object]) -> Callable[..., Any]:
    """Return the method `name` that overwrites a tensor with `function` of it."""

    def method(self: InPlace, *others: object, **options: object) -> Any:
        return self._update(name, function, *others, **options)

    method.__name__ = name
    method.__doc__ = f"Overwrite with what `{name[:-1]}` gives."
    return method


_OF_METHODS = """
abs addcdiv addcmul ceil clamp clamp_max clamp_min clip cos exp floor floor_divide fmod frac
index_add index_fill index_put lerp log logical_not masked_fill neg pow reciprocal relu remainder
round rsqrt scatter scatter_add scatter_reduce sigmoid sin sqrt square tanh tril triu trunc
"""
for _name in _OF_METHODS.split():
    setattr(InPlace, f"{_name}_", _make_update(f"{_name}_", getattr(InPlace, _name)))
for _function in (activation.elu, activation.leaky_relu):
    _name = f"{_function.__name__}_"
    setattr(InPlace, _name, _make_update(_name, _function))
