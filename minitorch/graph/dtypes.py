"""`tf.DType` and `tf.dtypes`: what TensorFlow asks of a dtype, around the package's own.

A program sees dtypes in this form, by their names (`tf.float32`) and on nodes (`x.dtype`). Inside
the package a dtype is NumPy's; everything that takes a dtype takes either.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from .. import arrays
from ..arrays import DTYPES


class DType:
    """One of the package's dtypes; NumPy takes it for its own, and it is equal to that."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype

    @property
    def name(self) -> str:
        """The name: "float32"."""
        return self.dtype.name

    @property
    def as_numpy_dtype(self) -> Any:
        """NumPy's type of one number: `numpy.float32`."""
        return self.dtype.type

    @property
    def base_dtype(self) -> DType:
        """The dtype itself: there are no references here."""
        return self

    real_dtype = base_dtype

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def is_floating(self) -> bool:
        """Whether it is one of the floating dtypes."""
        return self.dtype.kind == "f"

    @property
    def is_integer(self) -> bool:
        """Whether it is one of the integers, with a sign or without."""
        return self.dtype.kind in "iu"

    @property
    def is_unsigned(self) -> bool:
        """Whether it is an integer without a sign."""
        return self.dtype.kind == "u"

    @property
    def is_bool(self) -> bool:
        """Whether it is the boolean."""
        return self.dtype.kind == "b"

    @property
    def is_complex(self) -> bool:
        """False: complex numbers are not here."""
        return self.dtype.kind == "c"

    @property
    def min(self) -> Any:
        """The smallest number; False of the boolean."""
        return self._limits()[0]

    @property
    def max(self) -> Any:
        """The largest number; True of the boolean."""
        return self._limits()[1]

    @property
    def limits(self) -> tuple[Any, Any]:
        """What images of the dtype hold: 0 to 1 of floats, 0 to the largest of integers."""
        return (0, 1 if self.is_floating else self.max)

    def is_compatible_with(self, other: Any) -> bool:
        """Tell whether values of the other dtype are of this one."""
        return self == as_dtype(other)

    def _limits(self) -> tuple[Any, Any]:
        if self.is_bool:
            return False, True
        info: Any = np.finfo(self.dtype) if self.is_floating else np.iinfo(self.dtype)
        return info.min, info.max

    def __getattr__(self, name: str) -> Any:
        """Return what NumPy's dtype has: `kind`, `itemsize`, `type`."""
        if name.startswith("__"):
            raise AttributeError(f"DType has no {name!r}.")
        return getattr(self.dtype, name)

    def __eq__(self, other: object) -> bool:
        try:
            return bool(self.dtype == (other.dtype if isinstance(other, DType) else other))
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)


SEEN = {dtype: DType(dtype) for dtype in DTYPES.values()}
"""The form in which a program sees each of the package's dtypes."""


def as_dtype(type_value: Any) -> DType:
    """Return the dtype for one of NumPy's, a Python type or a name.

    Raises:
        DTypeError: there is no such dtype; lists those there are.
    """
    return SEEN[arrays.as_dtype(type_value)]


bool_, uint8 = as_dtype("bool"), as_dtype("uint8")
int8, int16, int32, int64 = map(as_dtype, ("int8", "int16", "int32", "int64"))
float16, float32, float64 = map(as_dtype, ("float16", "float32", "float64"))


def __getattr__(name: str) -> Any:
    """Return what else TensorFlow keeps beside its dtypes: `cast`, `bool`, `complex64`, ..."""
    return getattr(import_module("minitorch.graph"), name)
