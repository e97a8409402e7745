"""Make one batch of a list of items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minitorch.errors import ArgumentError
from minitorch.ops.shaping.joining import stack
from minitorch.tensor.tensor import Tensor, tensor


def default_collate(batch: Sequence[Any]) -> Any:
    """Return `batch` turned inside out, with numbers, arrays and tensors stacked.

    Tensors and arrays of shape S become one tensor of shape (n, *S); int, float and bool become
    tensors of shape (n,) with int64, float64 and bool; strings stay a list; of tuples, lists and
    dicts each field is collated by itself.

    Raises:
        ValueError: items differ in shape or length; says how.
        TypeError: an item is of another type.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        _same([tuple(item.shape) for item in batch], "shape")
        return stack(list(batch))
    if isinstance(first, np.ndarray | np.generic | bool | int | float):
        _same([np.shape(item) for item in batch], "shape")
        return tensor(np.array(batch))
    if isinstance(first, str | bytes):
        return list(batch)
    if isinstance(first, Mapping):
        return {key: default_collate([item[key] for item in batch]) for key in first}
    if isinstance(first, tuple | list):
        return _collate_fields(batch)
    raise TypeError(
        f"default_collate: got items of type {type(first).__name__}, expected tensors, arrays, "
        "numbers, strings, or tuples, lists and dicts of them. Give the loader a collate_fn."
    )


def _collate_fields(batch: Sequence[Any]) -> Any:
    first = batch[0]
    _same([len(item) for item in batch], "length")
    fields = [default_collate(list(field)) for field in zip(*batch, strict=True)]
    if isinstance(first, tuple) and hasattr(first, "_fields"):  # a namedtuple stays one
        return type(first)(*fields)
    return fields


def _same(facts: list[object], what: str) -> None:
    for i, fact in enumerate(facts):
        if fact != facts[0]:
            raise ArgumentError(
                f"default_collate: items differ in {what}: got {facts[0]} for item 0 and {fact} "
                f"for item {i} of the batch. Pad them, or give the loader a collate_fn."
            )
