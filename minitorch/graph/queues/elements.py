"""Elements of datasets: tuples and dicts of values, taken apart and put together again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ...arrays import DType, as_dtype
from ...errors import GraphError
from ...op import Spec
from ..node import UNKNOWN, as_shape

Rebuild = Callable[[Sequence[Any]], Any]


class Structure(NamedTuple):
    """What an element looks like: what is known of its values, and how they are put together."""

    specs: list[Spec]
    rebuild: Rebuild

    @property
    def dtypes(self) -> list[DType]:
        """The dtypes of the values."""
        return [spec.dtype for spec in self.specs]

    def types(self) -> Any:
        """The dtypes in the element's structure."""
        return self.rebuild(self.dtypes)

    def shapes(self) -> Any:
        """The shapes in the element's structure."""
        return self.rebuild([spec.shape for spec in self.specs])

    def over(self, specs: list[Spec]) -> Structure:
        """Return the same structure of other values."""
        return Structure(specs, self.rebuild)


def apart(value: Any) -> tuple[list[Any], Rebuild]:
    """Return the values in tuples and dicts in a row, and how to rebuild; a list is a value."""
    if isinstance(value, tuple):
        parts = [apart(item) for item in value]
        kind: Any = type(value) if hasattr(value, "_fields") else lambda *items: tuple(items)
        return [v for found, _ in parts for v in found], _nested(parts, lambda items: kind(*items))
    if isinstance(value, Mapping):
        keys = sorted(value)
        parts = [apart(value[key]) for key in keys]
        return [v for found, _ in parts for v in found], _nested(
            parts, lambda items: dict(zip(keys, items, strict=True))
        )
    return [value], lambda row: row[0]


def _nested(
    parts: Sequence[tuple[list[Any], Rebuild]], join: Callable[[list[Any]], Any]
) -> Rebuild:
    def rebuild(row: Sequence[Any]) -> Any:
        at, items = 0, []
        for found, inner in parts:
            items.append(inner(row[at : at + len(found)]))
            at += len(found)
        return join(items)

    return rebuild


def declared(types: Any, shapes: Any = None) -> Structure:
    """Return the structure of these types; shapes of the same structure, or None for unknown.

    Raises:
        GraphError: there are more or fewer shapes than types.
    """
    flat, rebuild = apart(types)
    if shapes is None:
        return Structure([Spec(UNKNOWN, as_dtype(t)) for t in flat], rebuild)
    listed = [shapes] if not isinstance(types, tuple | Mapping) else _like(types, shapes)
    if len(listed) != len(flat):
        raise GraphError(
            f"data: got {len(listed)} shapes for {len(flat)} types, expected one for each."
        )
    pairs = zip(flat, listed, strict=True)
    return Structure([Spec(as_shape(s), as_dtype(t)) for t, s in pairs], rebuild)


def _like(types: Any, shapes: Any) -> list[Any]:
    """Return the shapes that stand where `types` has a type."""
    if isinstance(types, tuple):
        return [s for t, inner in zip(types, shapes, strict=True) for s in _like(t, inner)]
    if isinstance(types, Mapping):
        return [s for key in sorted(types) for s in _like(types[key], shapes[key])]
    return [shapes]
