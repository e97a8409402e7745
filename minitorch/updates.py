"""Torch's in-place methods by name: `x.exp_()` overwrites x with `x.exp()`, recorded as `add_` is.

May import: errors, generator, inplace, ops.
"""

from collections.abc import Callable
from typing import Any

from .arrays import as_dtype
from .errors import ArgumentError
from .generator import default_generator
from .inplace import InPlace
from .ops import activation


def updating(name: str, function: Callable[..., object]) -> Callable[..., Any]:
    """Return the method `name` that overwrites a tensor with `function` of it."""

    def method(self: InPlace, *others: object, **options: object) -> Any:
        return self._updated(name, function, *others, **options)

    method.__name__ = name
    method.__doc__ = f"Overwrite with what `{name[:-1]}` gives."
    return method


class Updates(InPlace):
    """The in-place methods that are a function of the tensor and perhaps others."""

    __slots__ = ()

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
        """Overwrite with numbers of a normal distribution."""
        if std < 0:
            raise ArgumentError(f"normal_: got std {std}, expected 0 or more.")
        source = generator or default_generator(self.device)
        return self._drawn("normal_", source.normal(self.shape, as_dtype(self.dtype)), std, mean)

    # torch calls the limits so
    def uniform_(self, from_: float = 0.0, to: float = 1.0, *, generator: Any = None) -> Any:
        """Overwrite with numbers evenly spread in [from_, to)."""
        if to < from_:
            raise ArgumentError(f"uniform_: got {from_} to {to}, expected them in order.")
        source = generator or default_generator(self.device)
        drawn = source.uniform(self.shape, as_dtype(self.dtype))
        return self._drawn("uniform_", drawn, to - from_, from_)

    def _drawn(self, name: str, numbers: Any, scale: float, shift: float) -> Any:
        self._refuse_leaf(name)
        return self.copy_(type(self)._new(numbers * scale + shift))  # type: ignore[attr-defined]


_OF_METHODS = """
abs ceil clamp_max clamp_min clip cos exp floor floor_divide index_add log logical_not
masked_fill neg pow reciprocal relu remainder round rsqrt scatter scatter_add sigmoid sin sqrt
square tanh tril triu trunc
"""
for _name in _OF_METHODS.split():
    setattr(Updates, f"{_name}_", updating(f"{_name}_", getattr(InPlace, _name)))
for _function in (activation.elu, activation.leaky_relu):
    _name = f"{_function.__name__}_"
    setattr(Updates, _name, updating(_name, _function))
