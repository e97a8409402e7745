"""In-place updates of tensors: `x += y`, `x.add_(y)`, `x[i] = y`.

They are for values that carry no history: parameters under `no_grad`, buffers, counters. While
recording, `x += y` on a result makes a new tensor, as it does for any Python number; on a leaf that
requires a gradient, and in methods such as `add_`, it is an error.
"""

from typing import Any

import numpy as np

from .arrays import HOST_TYPES, cast, namespace
from .clock import clock
from .eager import quiet
from .errors import DTypeError, GradientError, ShapeError
from .ops import binary, pointwise
from .ops.indexing import filled, split_index
from .ops.methods import Methods
from .recording import no_grad, recording


class InPlace(Methods):
    """The in-place half of `Tensor`."""

    __slots__ = ()

    array: Any
    requires_grad: bool
    device: Any
    to: Any
    item: Any

    def _may_write(self, name: str, *sources: Any) -> None:
        if not recording.on:
            return
        if self.requires_grad:
            kind = "a leaf that requires a gradient" if self.op is None else "a recorded result"
            raise GradientError(
                f"{name}: cannot overwrite {kind} while recording. "
                "Update it under no_grad(), or compute a new tensor."
            )
        if any(getattr(source, "requires_grad", False) for source in sources):
            raise GradientError(
                f"{name}: the new numbers require a gradient, which an in-place update would lose. "
                "Compute a new tensor (torch.where, index_put), or detach the numbers."
            )

    def _write(self, name: str, array: Any) -> Any:
        """Put the numbers of `array` into this tensor's own memory."""
        own = self._settled()
        if own.shape != array.shape:
            raise ShapeError(
                f"{name}: the result has shape {tuple(array.shape)}, expected {tuple(own.shape)}: "
                "in place nothing grows."
            )
        if _rank(array.dtype) > _rank(own.dtype):
            raise DTypeError(
                f"{name}: a {array.dtype} result does not fit {own.dtype} in place. Convert it."
            )
        own[...] = array
        clock.tick(own)
        return self

    def _settled(self) -> Any:
        raise NotImplementedError

    def _updated(self, name: str, function: Any, *others: Any, **options: Any) -> Any:
        self._may_write(name, *others)
        with no_grad():
            return self._write(name, function(self, *others, **options).array)

    def add_(self, other: Any, *, alpha: float = 1) -> Any:
        """Add `alpha * other` in place."""
        return self._arithmetic("add_", other, np.add, alpha)

    def sub_(self, other: Any, *, alpha: float = 1) -> Any:
        """Subtract `alpha * other` in place."""
        return self._arithmetic("sub_", other, np.subtract, alpha)

    def mul_(self, other: Any) -> Any:
        """Multiply by `other` in place."""
        return self._arithmetic("mul_", other, np.multiply)

    def div_(self, other: Any) -> Any:
        """Divide by `other` in place."""
        return self._arithmetic("div_", other, np.true_divide)

    def _arithmetic(self, name: str, other: Any, ufunc: Any, alpha: float = 1) -> Any:
        """Do one of the four operations in place: by the ufunc where that says the same."""
        self._may_write(name, other)
        own = self._settled()
        array = other.array if isinstance(other, InPlace) else other
        plain = type(array) in (float, int)
        fits = type(own) is np.ndarray and own.dtype.kind == "f"
        fits = fits and (plain or (type(array) in HOST_TYPES and array.dtype is own.dtype))
        if fits and (plain or array.shape == own.shape or _broadcasts(array.shape, own.shape)):
            quiet.run(_into, ufunc, own, array if alpha == 1 else array * alpha)
            clock.tick(own)
            return self
        table = {
            "add_": binary.add,
            "sub_": binary.sub,
            "mul_": binary.mul,
            "div_": binary.true_divide,
        }
        return self._updated(name, table[name], other if alpha == 1 else other * alpha)

    def _signed(self, name: str, function: Any, other: Any) -> Any:
        tracked = recording.on and (self.requires_grad or getattr(other, "requires_grad", False))
        if tracked and self.op is None and self.requires_grad:
            self._may_write(name)
        if tracked:
            return function(self, other)
        return None

    def __iadd__(self, other: Any) -> Any:  # type: ignore[misc]
        new = self._signed("+=", binary.add, other)
        return self.add_(other) if new is None else new

    def __isub__(self, other: Any) -> Any:  # type: ignore[misc]
        new = self._signed("-=", binary.sub, other)
        return self.sub_(other) if new is None else new

    def __imul__(self, other: Any) -> Any:  # type: ignore[misc]
        new = self._signed("*=", binary.mul, other)
        return self.mul_(other) if new is None else new

    def __itruediv__(self, other: Any) -> Any:  # type: ignore[misc]
        new = self._signed("/=", binary.true_divide, other)
        return self.div_(other) if new is None else new

    def copy_(self, source: Any) -> Any:
        """Overwrite with the numbers of `source`, broadcast and converted."""
        self._may_write("copy_", source)
        own = self._settled()
        array = source.to(self.device).array if isinstance(source, InPlace) else np.asarray(source)
        if not _broadcasts(array.shape, own.shape):
            raise ShapeError(
                f"copy_: got shape {tuple(array.shape)}, expected one that broadcasts to "
                f"{tuple(own.shape)}."
            )
        own[...] = cast(array, self.dtype)
        clock.tick(own)
        return self

    def zero_(self) -> Any:
        """Overwrite with zeros."""
        return self.fill_(0)

    def fill_(self, value: Any) -> Any:
        """Overwrite with one number."""
        self._may_write("fill_", value)
        own = self._settled()
        own[...] = value.item() if isinstance(value, InPlace) else value
        clock.tick(own)
        return self

    def clamp_(self, min: Any = None, max: Any = None) -> Any:
        """Clamp in place."""
        return self._updated("clamp_", pointwise.clamp, min, max)

    def addcmul_(self, a: Any, b: Any, *, value: float = 1) -> Any:
        """Add `value * a * b` in place."""
        return self._updated("addcmul_", pointwise.addcmul, a, b, value=value)

    def addcdiv_(self, a: Any, b: Any, *, value: float = 1) -> Any:
        """Add `value * a / b` in place."""
        return self._updated("addcdiv_", pointwise.addcdiv, a, b, value=value)

    def lerp_(self, end: Any, weight: Any) -> Any:
        """Go the part `weight` of the way to `end` in place."""
        return self._updated("lerp_", pointwise.lerp, end, weight)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._may_write("x[index] = value", value)
        own = self._settled()
        pattern, arrays = split_index(index)
        where = filled(pattern, tuple(a.array if isinstance(a, InPlace) else a for a in arrays))
        array = value.array if isinstance(value, InPlace) else value
        try:
            if hasattr(array, "dtype"):
                own[where] = cast(array, self.dtype)
            else:
                own[where] = namespace(own).asarray(array, dtype=own.dtype)
        except (ValueError, IndexError, RuntimeError) as error:
            kind = IndexError if isinstance(error, IndexError) else ShapeError
            raise kind(f"x[index] = value: does not fit: {error}") from error
        clock.tick(own)


def _into(ufunc: Any, own: Any, array: Any) -> None:
    ufunc(own, array, out=own)


def _broadcasts(shape: Any, to: Any) -> bool:
    tail = tuple(to)[len(to) - len(shape) :]
    return len(shape) <= len(to) and all(a in (1, b) for a, b in zip(shape, tail, strict=True))


def _rank(dtype: Any) -> int:
    name = str(dtype).removeprefix("torch.")
    return 0 if name == "bool" else 2 if "float" in name else 1
