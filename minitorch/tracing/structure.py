"""Arguments and results as lists of tensors, and the way back: nested lists, tuples and dicts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np

from minitorch.errors import ArgumentError
from minitorch.tensor import Tensor, as_tensor

Rebuild = Callable[[Iterator[Any]], Any]


def flatten(value: object, tensors: list[Tensor], operation: str) -> tuple[Hashable, Rebuild]:
    """Add the tensors in `value` to `tensors`; return what else it holds, and how to rebuild it.

    Raises:
        ArgumentError: it holds something that neither is a tensor nor can be compared.
    """
    if isinstance(value, np.ndarray | np.generic):
        value = as_tensor(value)
    if isinstance(value, Tensor):
        tensors.append(value)
        return Tensor, next
    if isinstance(value, dict):
        parts = [flatten(item, tensors, operation) for item in value.values()]
        names = tuple(value)
        key = (dict, names, tuple(part[0] for part in parts))
        return key, lambda take: {n: p[1](take) for n, p in zip(names, parts, strict=True)}
    if isinstance(value, list | tuple):
        parts = [flatten(item, tensors, operation) for item in value]
        kind = type(value)
        make = kind._make if hasattr(kind, "_make") else kind
        return (kind, tuple(p[0] for p in parts)), lambda take: make([p[1](take) for p in parts])
    try:
        hash(value)
    except TypeError:
        raise ArgumentError(
            f"{operation}: got an argument of type {type(value).__name__}, expected tensors, "
            "hashable values, or lists, tuples and dicts of them."
        ) from None
    return (type(value), value), lambda take: value
