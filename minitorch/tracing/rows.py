"""`scan`, `map_fn`, `foldl` and `foldr` for every kind of value, as `cond` and `while_loop` are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitorch.arrays import DTypeLike
from minitorch.errors import GraphError
from minitorch.graph.control.scan import foldl as graph_foldl
from minitorch.graph.control.scan import foldr as graph_foldr
from minitorch.graph.control.scan import map_fn as graph_map_fn
from minitorch.graph.control.scan import scan as graph_scan
from minitorch.ops.joining import stack
from minitorch.tensor import Tensor
from minitorch.tracing.control import building, has_tensors, lift, lower
from minitorch.tracing.structure import flatten
from minitorch.tracing.switch import is_tracing


def scan(fn: Callable[..., Any], elems: Any, initializer: Any = None, **options: Any) -> Any:
    """Return every value of a = fn(a, elem), for elem along the first axis of `elems`.

    Nodes: as `minitorch.graph.control.scan.scan`, which says what the options are.
    Traced tensors: the same, written with tensors. Tensors: a Python loop, at once.
    """
    if is_tracing():
        return lift(graph_scan(building(fn), lower(elems), lower(initializer), **options))
    if not has_tensors(elems, initializer):
        return graph_scan(fn, elems, initializer, **options)
    found = _running("scan", fn, elems, initializer, bool(options.get("reverse")))
    return _stacked(found[::-1] if options.get("reverse") else found)


def foldl(
    fn: Callable[..., object], elems: object, initializer: object = None, **options: object
) -> Any:
    """Return the last value of a = fn(a, elem), from the first row to the last."""
    return _fold(graph_foldl, fn, elems, initializer, options)


def foldr(
    fn: Callable[..., object], elems: object, initializer: object = None, **options: object
) -> Any:
    """Return the last value of a = fn(a, elem), from the last row to the first."""
    return _fold(graph_foldr, fn, elems, initializer, options)


def map_fn(fn: Callable[..., Any], elems: Any, dtype: DTypeLike = None, **options: Any) -> Any:
    """Return fn(elem) for every elem along the first axis of `elems`."""
    if not has_tensors(elems):
        return graph_map_fn(fn, elems, dtype, **options)
    if is_tracing():
        return lift(graph_map_fn(building(fn), lower(elems), dtype, **options))
    return _stacked([fn(row) for row in _rows("map_fn", elems)])


def _fold(
    on_nodes: Any, fn: Callable[..., Any], elems: Any, initializer: Any, options: dict[str, Any]
) -> Any:
    if not has_tensors(elems, initializer):
        return on_nodes(fn, elems, initializer, **options)
    if is_tracing():
        return lift(on_nodes(building(fn), lower(elems), lower(initializer), **options))
    name = on_nodes.__name__
    found = _running(name, fn, elems, initializer, name == "foldr")
    return found[-1] if found else initializer


def _rows(name: str, elems: Any) -> list[Any]:
    """Return the rows of tensors, each in the structure of the whole."""
    tensors: list[Tensor] = []
    _, rebuild = flatten(elems, tensors, name)
    counts = {len(tensor) if tensor.ndim else None for tensor in tensors}
    if len(counts) != 1 or None in counts:
        raise GraphError(f"{name}: got elems of {counts} rows, expected one axis and as many each.")
    [count] = counts
    return [rebuild(iter([tensor[i] for tensor in tensors])) for i in range(count or 0)]


def _running(
    name: str, fn: Callable[..., object], elems: object, initializer: object, reverse: bool
) -> list[object]:
    """Return the values of the accumulator, in the order in which they were computed."""
    rows = _rows(name, elems)
    rows = rows[::-1] if reverse else rows
    found = []
    acc = initializer
    for row in rows:
        acc = row if acc is None else fn(acc, row)
        found.append(acc)
    if not found and initializer is None:
        raise GraphError(f"{name}: got no row and no initializer. Give an initializer.")
    return found


def _stacked(values: list[object]) -> Any:
    """Return one structure of stacked tensors for a list of structures of tensors."""
    columns: list[list[Tensor]] = []
    rebuild = None
    for value in values:
        tensors: list[Tensor] = []
        _, rebuild = flatten(value, tensors, "scan")
        columns.append(tensors)
    if rebuild is None:
        raise GraphError("scan: got no row, so the type of the results is not known. Give rows.")
    return rebuild(iter([stack(list(column)) for column in zip(*columns, strict=True)]))
