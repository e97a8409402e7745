"""Torch's in-place methods by name: `x.exp_()` overwrites x with `x.exp()`, recorded as `add_` is.

May import: errors, generator, inplace, ops.
"""

from collections.abc import Callable
from typing import Any

from .arrays import as_dtype
from .errors import ArgumentError
from .generator import default_generator
from .inplace import InPlace
from .ops import activation, binary, elementwise, gathering, logic, matrices, pointwise


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

    abs_ = updating("abs_", elementwise.abs)
    ceil_ = updating("ceil_", elementwise.ceil)
    clamp_max_ = updating("clamp_max_", pointwise.clamp_max)
    clamp_min_ = updating("clamp_min_", pointwise.clamp_min)
    clip_ = updating("clip_", pointwise.clamp)
    cos_ = updating("cos_", elementwise.cos)
    elu_ = updating("elu_", activation.elu)
    exp_ = updating("exp_", elementwise.exp)
    floor_ = updating("floor_", elementwise.floor)
    floor_divide_ = updating("floor_divide_", binary.floor_divide)
    index_add_ = updating("index_add_", gathering.index_add)
    index_put_ = updating("index_put_", gathering.index_put)
    leaky_relu_ = updating("leaky_relu_", activation.leaky_relu)
    log_ = updating("log_", elementwise.log)
    logical_not_ = updating("logical_not_", logic.logical_not)
    masked_fill_ = updating("masked_fill_", gathering.masked_fill)
    neg_ = updating("neg_", elementwise.neg)
    pow_ = updating("pow_", pointwise.pow)
    reciprocal_ = updating("reciprocal_", elementwise.reciprocal)
    relu_ = updating("relu_", elementwise.relu)
    remainder_ = updating("remainder_", binary.remainder)
    round_ = updating("round_", pointwise.round)
    rsqrt_ = updating("rsqrt_", elementwise.rsqrt)
    scatter_ = updating("scatter_", gathering.scatter)
    scatter_add_ = updating("scatter_add_", gathering.scatter_add)
    sigmoid_ = updating("sigmoid_", elementwise.sigmoid)
    sin_ = updating("sin_", elementwise.sin)
    sqrt_ = updating("sqrt_", elementwise.sqrt)
    square_ = updating("square_", pointwise.square)
    tanh_ = updating("tanh_", elementwise.tanh)
    tril_ = updating("tril_", matrices.tril)
    triu_ = updating("triu_", matrices.triu)
    trunc_ = updating("trunc_", elementwise.trunc)

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
