"""Rows that belong together, gathered by a number for each row: sums, largest, smallest, sets.

`ids` numbers the leading axes of `x`; rows of one number make one row of the result. A negative
number leaves its row out.
"""

from typing import Any

import numpy as np

from ..arrays import add_at, cast, int32, int64
from ..errors import ShapeError
from ..op import Op, Spec, apply
from .casting import cast_to
from .indexing import getitem
from .logic import eq
from .movement import insert_axes


class SegmentSum(Op):
    """The sum of the rows of each number; of none, zeros.

    Args:
        count: how many rows the result has; None for one more than the largest number there is.
    """

    on_arrays = True
    reads_output = False
    name = "segment_sum"

    def __init__(self, count: int | None) -> None:
        self.count = count

    def compute(self, xp: Any, x: Any, ids: Any) -> Any:
        """Return the sums."""
        out, places, rows = _prepared(xp, x, ids, self.count, 0)
        return add_at(out, (places,), rows)

    def infer(self, *specs: Spec) -> Spec:
        """Return one row for each number."""
        x, ids = specs[0].shape, specs[1].shape
        axes = len(ids)
        pairs = zip(x[:axes], ids, strict=False)
        if len(x) < axes or any(None not in (a, b) and a != b for a, b in pairs):
            raise ShapeError(
                f"{self.name}: got values {x} and ids {ids}, expected a number for each row."
            )
        return Spec((self.count, *x[axes:]), specs[0].dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Every row gets the gradient of its sum."""
        x, ids = node.inputs
        return _picked(out_grad, ids, x), None


class SegmentMax(SegmentSum):
    """The largest, or smallest, of the rows of each number; of none, the dtype's least."""

    reads_output = True

    def __init__(self, count: int | None, largest: bool = True) -> None:
        super().__init__(count)
        self.largest = largest

    @property
    def name(self) -> str:  # type: ignore[override]
        """segment_max or segment_min."""
        return "segment_max" if self.largest else "segment_min"

    def compute(self, xp: Any, x: Any, ids: Any) -> Any:
        """Return the extremes."""
        if xp is not np:
            from ..arrays import to_numpy

            found = self.compute(np, to_numpy(x), to_numpy(ids))
            return xp.asarray(found, device=x.device)
        info: Any = np.finfo(x.dtype) if x.dtype.kind == "f" else np.iinfo(x.dtype)
        start = info.min if self.largest else info.max
        out, places, rows = _prepared(xp, x, ids, self.count, start)
        (np.maximum if self.largest else np.minimum).at(out, places, rows)
        return out

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Rows that are as large as the extreme share its gradient."""
        x, ids = node.inputs
        ties = cast_to(eq(x, _picked(node.output, ids, x)), x.dtype)
        number = apply(SegmentSum(self.count), ties, ids)
        return ties * _picked(out_grad, ids, x) / _picked(number, ids, x), None


class Stitched(Op):
    """Rows put at the places that `ids` names, a later row over an earlier; inputs ids, rows."""

    on_arrays = True
    reads_output = False
    name = "dynamic_stitch"

    def compute(self, xp: Any, ids: Any, x: Any) -> Any:
        """Return as many rows as the largest place needs."""
        count = int(xp.max(ids)) + 1 if ids.shape[0] else 0
        out = xp.zeros((count, *x.shape[1:]), dtype=x.dtype)
        out[cast(ids, int64)] = x
        return out

    def infer(self, *specs: Spec) -> Spec:
        """Return rows, how many is not known."""
        return Spec((None, *specs[1].shape[1:]), specs[1].dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Every row gets the gradient at its place."""
        return None, getitem(out_grad, node.inputs[0])


class Distinct(Op):
    """The different elements of a vector in the order in which they first come.

    Args:
        what: "values", or "places": for each element which of the values it is, or "counts".
    """

    reads_inputs = reads_output = False

    def __init__(self, what: str = "values") -> None:
        self.what = what

    @property
    def name(self) -> str:
        """unique, and what of it."""
        return f"unique_{self.what}"

    def compute(self, xp: Any, x: Any) -> Any:
        """Return values, places or counts."""
        from ..arrays import to_numpy

        host = x if xp is np else to_numpy(x)
        values, first, back, counts = np.unique(
            host, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(first, kind="stable")
        if self.what == "values":
            found = values[order]
        elif self.what == "counts":
            found = counts[order].astype(np.int32)
        else:
            rank = np.empty(len(order), np.int32)
            rank[order] = np.arange(len(order), dtype=np.int32)
            found = rank[back.reshape(-1)]
        return found if xp is np else xp.asarray(found, device=x.device)

    def infer(self, *specs: Spec) -> Spec:
        """Return a vector; how many values there are is not known."""
        if len(specs[0].shape) != 1:
            raise ShapeError(f"unique: got shape {specs[0].shape}, expected a vector.")
        if self.what == "values":
            return Spec((None,), specs[0].dtype)
        return Spec(specs[0].shape if self.what == "places" else (None,), int32)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Return nothing: a set is no function to follow."""
        return (None,)


def _prepared(xp: Any, x: Any, ids: Any, count: int | None, start: Any) -> tuple[Any, Any, Any]:
    """Return the result to fill, the places, and the rows that go there."""
    places = xp.reshape(cast(ids, int64), (-1,))
    rows = xp.reshape(x, (places.shape[0], *x.shape[len(ids.shape) :]))
    kept = places >= 0
    if not bool(xp.all(kept)):
        places, rows = places[kept], rows[kept]
    if count is None:
        count = int(xp.max(places)) + 1 if places.shape[0] else 0
    shape = (count, *rows.shape[1:])
    place = {} if xp is np else {"device": x.device}
    return xp.full(shape, start, dtype=x.dtype, **place), places, rows


def _picked(rows: Any, ids: Any, like: Any) -> Any:
    """Return for each row of `like` the row of its number; zeros for a negative number."""
    kept = cast_to(ids >= 0, rows.dtype)
    axes = len(like.shape) - len(ids.shape)
    taken = getitem(rows, ids * cast_to(ids >= 0, ids.dtype))
    return taken * insert_axes(kept, tuple(range(len(ids.shape), len(ids.shape) + axes)))


# ── functions ───────────────────────────────────────────────────────────────────────────────────


def segment_sum(x: Any, ids: Any, count: int | None = None) -> Any:
    """Return the sum of the rows of each number."""
    return apply(SegmentSum(count), x, ids)


def segment_extreme(x: Any, ids: Any, count: int | None = None, largest: bool = True) -> Any:
    """Return the largest, or smallest, of the rows of each number."""
    return apply(SegmentMax(count, largest), x, ids)


def stitched(ids: Any, rows: Any) -> Any:
    """Return `rows` in the places that `ids` names."""
    return apply(Stitched(), ids, rows)
