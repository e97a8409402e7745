"""Formulas of elements, written in rows and computed at once: one kernel there, one back.

`Formula(name, function, partials)` is a function of values. On tensors of floats it is one
operator, which remembers its inputs alone; on a graph's nodes, which passes fuse later, it is the
rows that it is made of. Large NumPy arrays go through a kernel that is compiled from those rows.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from ...arrays.library import Array, DType, Namespace, as_dtype, bool_
from ...op import Gradients, Kind, Methods, Op, Value, apply
from ..shaping.broadcasting import sum_to
from . import compiled
from .binary import add, mul, sub, true_divide
from .logic import ge, gt, le, lt
from .rows import Elementwise
from .unary import neg

Numbers = tuple[float, ...]
FEW_STEPS = 2  # up to which NumPy's calls take less time of few elements than a kernel's


class Formula:
    """A function of elements: `formula(*values, numbers=())`.

    Args:
        name: torch's.
        function: the result of some values and numbers, in rows: `f(x, slope)`.
        partials: its derivative by each value: `f(g, x, slope)`, `g` the result's gradient; None
            where it is `g` itself.
    """

    def __init__(
        self, name: str, function: Callable[..., Any], *partials: Callable[..., Any] | None
    ) -> None:
        self.name, self.function, self.partials = name, function, partials

    def __call__(self, *values: Kind, numbers: Numbers = ()) -> Kind:
        """Return the formula of values that broadcast."""
        first = values[0]
        if not isinstance(first, Value):
            return at_once(self.function, values, numbers)
        dtype = first.dtype
        for value in values:
            if not getattr(value, "has_numbers", False) or value.dtype != dtype:
                return self.function(*values, *numbers)  # type: ignore[no-any-return]
        if as_dtype(dtype).kind != "f":
            return self.function(*values, *numbers)  # type: ignore[no-any-return]
        return apply(_op_of(self, numbers), *values)


class _Applied(Elementwise):
    """A formula with its numbers, as an operator."""

    def __init__(self, formula: Formula, numbers: Numbers) -> None:
        self.formula, self.numbers = formula, numbers
        super().__init__(formula.name, self._result, (), reads="x")

    def _result(self, xp: Namespace, *arrays: Array) -> Any:
        return at_once(self.formula.function, arrays, self.numbers)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return the derivative by each input that is asked for, summed to its shape."""
        shares, partials = [], self.formula.partials
        for partial, source, wanted in zip(partials, node.inputs, node.wants, strict=True):
            values = (out_grad, *node.inputs)
            share: Any = out_grad if wanted else None
            if wanted and partial is not None:
                share = at_once(partial, values, self.numbers)
            shares.append(None if share is None else sum_to(share, source))
        return shares

    def attributes(self) -> dict[str, object]:
        return {"numbers": self.numbers} if self.numbers else {}

    def __reduce__(self) -> tuple[object, ...]:
        return _Applied, (self.formula, self.numbers)


@functools.lru_cache(256)
def _op_of(formula: Formula, numbers: Numbers) -> _Applied:
    return _Applied(formula, numbers)


def at_once(function: Callable[..., Any], values: Sequence[Any], numbers: Numbers = ()) -> Any:
    """Return `function(*values, *numbers)`, of NumPy's arrays by a kernel of its rows if it pays.

    They are of one dtype and broadcast.
    """
    first, *others = values
    if not compiled.fits(np, first, least=compiled.FEW) or any(
        type(other) is not np.ndarray or other.dtype is not first.dtype for other in others
    ):
        return function(*values, *numbers)
    recording = _record(function, numbers, len(values), first.dtype)
    if first.size < compiled.SEVERAL and len(recording.steps) <= FEW_STEPS:
        return function(*values, *numbers)
    return compiled.in_order(recording.kernel, values, recording.arrays)


@functools.cache
def _record(
    function: Callable[..., Any], numbers: Numbers, count: int, dtype: DType
) -> "_Recording":
    """Return the steps of a function of `count` arrays."""
    recording = _Recording(count, dtype)
    function(*(_Recorded(recording, place, dtype) for place in range(count)), *numbers)
    return recording


class _Recording:
    """The steps of a program, as rows are applied: see `compile.rows.Step`."""

    def __init__(self, count: int, dtype: DType) -> None:
        self.count, self.dtype = count, dtype
        self.steps: list[tuple[str, tuple[int, ...]]] = []
        self.constants: list[float] = []

    @functools.cached_property
    def kernel(self) -> Callable[..., Array]:
        """The kernel of all steps; it takes `arrays` behind the inputs."""
        count = self.count + len(self.constants)
        return compiled.kernel(self.dtype, count, tuple(self.steps))

    @functools.cached_property
    def arrays(self) -> list[Array]:
        """The numbers among the steps' inputs."""
        return [np.asarray(number, self.dtype) for number in self.constants]

    def place_of(self, value: Any) -> int:
        """Return the place of a value, or of a number among the inputs that follow."""
        if isinstance(value, _Recorded):
            return value.place
        if value not in self.constants:
            self.constants.append(value)
        return self.count + self.constants.index(value)


class _Recorded(Value):
    """An input of the function that is recorded, or a step's result."""

    __slots__ = ("dtype", "place", "recording")

    def __init__(self, recording: _Recording, place: int, dtype: DType) -> None:
        self.recording, self.place, self.dtype = recording, place, dtype

    def _apply(self, op: Op, inputs: tuple[object, ...]) -> Self:
        steps = self.recording.steps
        steps.append((op.name, tuple(self.recording.place_of(value) for value in inputs)))
        dtype = bool_ if getattr(op, "dtype", None) is bool_ else self.recording.dtype
        return type(self)(self.recording, -len(steps), dtype)


_SIGNS: dict[str, Callable[..., Any]] = {
    "add": add, "sub": sub, "mul": mul, "truediv": true_divide, "neg": neg,
    "gt": gt, "ge": ge, "lt": lt, "le": le,
}  # fmt: skip
for _sign, _row in _SIGNS.items():
    setattr(_Recorded, f"__{_sign}__", _row)
for _sign in ("add", "sub", "mul", "truediv"):
    setattr(_Recorded, f"__r{_sign}__", lambda a, b, row=_SIGNS[_sign]: row(b, a))
