"""`Methods`: the operators as methods and operator signs, shared by every kind of value."""

from typing import Any

from ..op import Value
from ..shapes import numel
from . import (
    binary,
    casting,
    elementwise,
    indexing,
    linalg,
    logic,
    movement,
    pointwise,
    reduction,
)


class Methods(Value):
    """A value with torch's methods. A kind of value inherits these and adds its own."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy leaves `array * value` to us
    __hash__ = object.__hash__

    # signs
    __add__ = __radd__ = binary.add
    __sub__ = binary.sub
    __mul__ = __rmul__ = binary.mul
    __truediv__ = binary.true_divide
    __floordiv__ = binary.floor_divide
    __mod__ = binary.remainder
    __pow__ = pointwise.pow
    __matmul__ = linalg.matmul
    __neg__ = elementwise.neg
    __pos__ = elementwise.positive
    __abs__ = elementwise.abs
    __invert__ = logic.bitwise_not
    __and__ = __rand__ = logic.bitwise_and
    __or__ = __ror__ = logic.bitwise_or
    __xor__ = __rxor__ = logic.bitwise_xor
    __lshift__ = logic.bitwise_left_shift
    __rshift__ = logic.bitwise_right_shift
    __eq__ = logic.eq  # elementwise, as in torch
    __ne__ = logic.ne
    __lt__ = logic.lt
    __le__ = logic.le
    __gt__ = logic.gt
    __ge__ = logic.ge
    __getitem__ = indexing.getitem

    def __rsub__(self, other: Any) -> Any:
        return self._apply(binary.sub.op, (other, self))

    def __rtruediv__(self, other: Any) -> Any:
        return self._apply(binary.true_divide.op, (other, self))

    def __rfloordiv__(self, other: Any) -> Any:
        return self._apply(binary.floor_divide.op, (other, self))

    def __rmod__(self, other: Any) -> Any:
        return self._apply(binary.remainder.op, (other, self))

    def __rpow__(self, other: Any) -> Any:
        return self._apply(binary.power.op, (other, self))

    def __rmatmul__(self, other: Any) -> Any:
        return linalg.matmul(other, self)

    # shape
    T = property(movement.t_reversed)
    mT = property(linalg.mT)
    reshape, view, flatten = movement.reshape, movement.view, movement.flatten
    permute, transpose, t = movement.permute, movement.transpose, movement.t
    expand, squeeze, unsqueeze = movement.expand, movement.squeeze, movement.unsqueeze

    # arithmetic
    add, sub, mul, div, pow = pointwise.add, pointwise.sub, binary.mul, pointwise.div, pointwise.pow
    neg, abs, square, sqrt = elementwise.neg, elementwise.abs, elementwise.square, elementwise.sqrt
    exp, log, tanh = elementwise.exp, elementwise.log, elementwise.tanh
    sigmoid, relu = elementwise.sigmoid, elementwise.relu
    clamp = pointwise.clamp

    # reductions and products
    sum, amax, amin = reduction.sum, reduction.amax, reduction.amin
    logsumexp, mean = reduction.logsumexp, reduction.mean
    matmul = linalg.matmul

    clone = casting.clone
    ones_like = elementwise.ones_like

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def dim(self) -> int:
        """Return the number of axes."""
        return len(self.shape)

    def numel(self) -> Any:
        """Return the number of elements; None when a size is not known."""
        return numel(tuple(self.shape))
