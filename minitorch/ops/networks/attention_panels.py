"""Attention on NumPy arrays, there and back, without the table of all weights.

Queries are taken some rows at a time, against all keys that these rows see: a panel of scores stays
in cache from its product to the product with the values, and the way back computes it again. So
memory grows with the number of tokens, not with its square, and no row is ever in two pieces.

Legend: G matrices (heads of the batch) at a time, R rows of queries, K keys seen, E and V features.
Source: Dao et al., FlashAttention, NeurIPS 2022, which also cuts the keys.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from ...arrays.allocator import empty_as
from ...arrays.library import Array
from ...arrays.threads import get_num_threads, reads_small_products
from ..elementwise import compiled

LONG = 256  # tokens, from which on rows are taken in panels
ROWS = 64  # of a panel at least, unless they are too long
PANEL = 2**17  # scores in a panel at most: half a MiB of a second cache
SHARED = 2**15  # scores, of which a thread should have as many
FEW_TERMS = 2**7  # of a product, up to which a kernel that packs once is faster than BLAS
MANY_ROWS = 2**8  # of B, from which on that is so
UNPACKED = 3 * 2**18  # multiplications, up to which OpenBLAS reads matrices where they lie


class TurnedRows:
    """Products with the rows of B (..., N, K): A (..., M, K) @ Bᵀ, for many A and the same B.

    With AVX-512 a single matrix of few terms is packed once, for a kernel; all else is BLAS's.
    """

    def __init__(self, b: Array) -> None:
        self._b = b
        self._packed: Array | None = None
        *lead, rows, terms = b.shape
        few = 0 < terms <= FEW_TERMS and rows >= MANY_ROWS and math.prod(lead) == 1
        self._packs = few and compiled.compiles(b.dtype) and _outruns_blas()

    def product(self, a: Array, count: int) -> Array:
        """Return the product with the first `count` rows of B, (..., M, count)."""
        if not self._packs or a.shape[-2] < compiled.FEW or a.strides[-1] != a.itemsize:
            product: Array = np.matmul(a, self._b[..., :count, :].swapaxes(-1, -2))
            return product
        from ...compile import panels as packed

        first = (0,) * (a.ndim - 2)
        if self._packed is None:
            self._packed = packed.pack_weights(self._b[first][None])
        out = np.empty((*a.shape[:-1], count), a.dtype)
        packed.product(a[first], self._packed, out[first])
        return out


@functools.cache
def _outruns_blas() -> bool:
    """Tell whether a kernel that packs once is faster than BLAS: with AVX-512's registers it is."""
    from ...compile import engine

    return engine.vector_registers() == (32, 512)


class Panel(NamedTuple):
    """Some rows of some matrices: where they are, and the keys that they see.

    Attributes:
        lead: the index of the matrices.
        rows: of the queries.
        keys: how many of the first keys.
        place: the panel's number, which its dropped weights are drawn by.
    """

    lead: Any
    rows: slice
    keys: int
    place: int


_ALL = Panel((), slice(None), 0, 0)


class Weighing(NamedTuple):
    """How scores become weights: what all panels share.

    Attributes:
        mask: broadcasts to (..., L, S): True where attention goes, or numbers to add; or None.
        p, seed: with which probability weights are dropped, and what is drawn by.
    """

    scale: float
    causal: bool
    mask: Any = None
    p: float = 0.0
    seed: int = 0

    def weights(self, scores: Array, panel: Panel, shape: Sequence[int]) -> Array:
        """Return the softmax of a panel's scores, written over them; none is dropped yet."""
        if self.mask is None and compiled.fits_rows(np, scores):
            first = panel.rows.start + 1 if self.causal else scores.shape[-1]
            compiled.run_rows("softmax", (scores, scores), self.scale,
                              rows=scores.shape[-2], first=first)  # fmt: skip
            return scores
        scores *= self.scale
        if self.causal:
            rows = np.arange(panel.rows.start, panel.rows.stop)[:, None]
            scores[..., rows < np.arange(panel.keys)] = -np.inf
        elif self.mask is not None:
            part = np.broadcast_to(self.mask, shape)[panel.lead][..., panel.rows, : panel.keys]
            if part.dtype.kind == "b":
                np.copyto(scores, -np.inf, where=~part)
            else:
                scores += part
        most = np.maximum.reduce(scores, -1, keepdims=True)
        scores -= most
        np.exp(scores, out=scores)
        scores /= np.add.reduce(scores, -1, keepdims=True)
        if self.mask is not None and (most == -np.inf).any():  # a row that sees nothing
            np.copyto(scores, 0, where=most == -np.inf)
        return scores

    def dropout_factors(self, weights: Array, panel: Panel) -> Array:
        """Return 0 for each weight that is dropped, else by what it is multiplied."""
        source = np.random.Generator(np.random.SFC64([self.seed, panel.place]))
        mask = source.random(weights.shape, np.float32) >= self.p
        factors: Array = mask * weights.dtype.type(1 / (1 - self.p))
        return factors


def panels(shape: Sequence[int], causal: bool, shares: int = 0) -> Iterator[Panel]:
    """Yield the panels of scores of this shape (..., L, S).

    Args:
        shape: of all scores.
        causal: a row sees the keys up to its own number only.
        shares: of how many the number of groups of matrices is a multiple, if it can be. 0: groups
            are those that dropped weights are drawn by, which reach over the last axis only.
    """
    *lead, length, keys = shape
    rows = length
    if max(length, keys) >= LONG:
        rows = min(max(ROWS, length // 8), max(PANEL // keys, 16), length)
    cuts = [slice(i, min(i + rows, length)) for i in range(0, length, rows)]
    place = 0
    most, count = max(PANEL // max(rows * keys, 1), 1), math.prod(lead)
    if shares:
        groups = -(-count // most)
        most = -(-count // max(-(-groups // shares) * shares, 1))
    for index in _groups(lead, most, joins=shares > 0 or count <= most):
        for cut in cuts:
            yield Panel(index, cut, min(keys, cut.stop) if causal else keys, place)
            place += 1


def _groups(lead: Sequence[int], most: int, joins: bool) -> Iterator[Any]:
    """Yield indices that select at most so many matrices each, one at least.

    Args:
        joins: whether they may be matrices of several indices before the last.
    """
    if not lead or (joins and math.prod(lead) <= most):
        yield ()
        return
    inner = math.prod(lead[1:])
    if len(lead) == 1 or (joins and inner <= most):
        step = max(most // max(inner, 1), 1)
        for first in range(0, lead[0], step):
            yield (slice(first, first + step),)
        return
    for outer in range(lead[0]):
        for rest in _groups(lead[1:], most, joins):
            yield (outer, *rest)


def spread(*arrays: Array) -> list[Array]:
    """Return views of the arrays with one shape but for the last two axes."""
    leads = [a.shape[:-2] for a in arrays]
    if leads.count(leads[0]) == len(leads):
        return list(arrays)
    lead = np.broadcast_shapes(*leads)
    return [np.broadcast_to(a, (*lead, *a.shape[-2:])) for a in arrays]


def all_dropout_factors(weights: Array, how: Weighing) -> Array:
    """Return by what each of all weights is multiplied where some are dropped."""
    factors = np.zeros_like(weights)
    for panel in panels(weights.shape, how.causal):
        part = factors[panel.lead][..., panel.rows, : panel.keys]
        part[...] = how.dropout_factors(part, panel)
    return factors


def attend(q: Array, k: Array, v: Array, how: Weighing) -> Array:
    """Return the attended values (..., L, V), in memory in the order of the queries' axes."""
    alone = q.shape[-2] == 1 and not (how.causal or how.p or how.mask is not None)
    if alone and k.size <= PANEL * k.shape[-1]:  # one query, as in generation
        scores = np.matmul(q, k.swapaxes(-1, -2))
        attended: Array = np.matmul(how.weights(scores, _ALL, scores.shape), v)
        return attended
    q, k, v = spread(q, k, v)
    shape = (*q.shape[:-1], k.shape[-2])
    out = empty_as(q, (*q.shape[:-1], v.shape[-1]))
    if _in_a_kernel((q, k, v), (out,), how):
        return out

    def attend_in(panel: Panel, keys: TurnedRows) -> None:
        here, rows, seen = panel.lead, panel.rows, slice(0, panel.keys)
        scores = keys.product(q[here][..., rows, :], panel.keys)
        weights = how.weights(scores, panel, shape)
        if how.p:
            weights *= how.dropout_factors(weights, panel)
        np.matmul(weights, v[here][..., seen, :], out=out[here][..., rows, :])

    _for_each_panel(shape, how, attend_in, k)
    return out


def _in_a_kernel(arrays: Sequence[Array], results: Sequence[Array], how: Weighing) -> bool:
    """Let one kernel write the results, if it can; tell whether it did."""
    plain = how.mask is None and not how.p
    return plain and compiled.attend(arrays, results, how.scale, how.causal)


def _for_each_panel(
    shape: Sequence[int], how: Weighing, body: Callable[..., None], *turned: Array
) -> None:
    """Let threads share the panels; those of the same matrices are one thread's, in order.

    Args:
        body: called with a panel, and the `TurnedRows` of its matrices of each of `turned`.
    """
    shares = 0 if how.p else 1  # where none is drawn, how many a panel has changes no bit
    if not how.p and math.prod(shape) >= 2 * SHARED:
        shares = get_num_threads()
    all_panels = panels(shape, how.causal, shares)
    runs = [list(run) for _, run in itertools.groupby(all_panels, attrgetter("lead"))]

    def work(lo: int, hi: int) -> None:
        for run in runs[lo:hi]:
            rows = [TurnedRows(matrices[run[0].lead]) for matrices in turned]
            for panel in run:
                body(panel, *rows)

    compiled.parallel_for(len(runs), 1, work)


def gradients(
    g: Array, q: Array, k: Array, v: Array, how: Weighing, into: Sequence[Array] = ()
) -> Sequence[Array]:
    """Return the gradients of queries, keys and values, with all leading axes; `into` is for them.

    With P the weights and g the gradient of P V: dV = Pᵀ g, dP = g Vᵀ, dS = scale P (dP - Σ dP P),
    dQ = dS K, dK = dSᵀ Q.
    """
    g, q, k, v = spread(g, q, k, v)
    shape = (*q.shape[:-1], k.shape[-2])
    dq, dk, dv = into or [empty_as(x, x.shape) for x in (q, k, v)]
    if _in_a_kernel((q, k, v, g), (dq, dk, dv), how):
        return dq, dk, dv

    def differentiate(panel: Panel, keys: TurnedRows, values: TurnedRows) -> None:
        here, rows, seen = panel.lead, panel.rows, slice(0, panel.keys)
        q_GRE, g_GRV = q[here][..., rows, :], g[here][..., rows, :]
        weights = how.weights(keys.product(q_GRE, panel.keys), panel, shape)
        d_weights = values.product(g_GRV, panel.keys)
        mask = how.dropout_factors(weights, panel) if how.p else None
        used = weights if mask is None else weights * mask
        _add_product(dv[here], used, g_GRV, panel)
        if mask is not None:
            d_weights *= mask
        d_scores = _softmax_gradient(d_weights, weights, how, panel)
        np.matmul(d_scores, k[here][..., seen, :], out=dq[here][..., rows, :])
        _add_product(dk[here], d_scores, q_GRE, panel)

    _for_each_panel(shape, how, differentiate, k, v)
    return dq, dk, dv


def _add_product(total_GS: Array, of_rows_GRK: Array, by_rows: Array, panel: Panel) -> None:
    """Add the product over a panel's rows to the keys that they see; the first one writes."""
    turned, is_first = of_rows_GRK.swapaxes(-1, -2), panel.rows.start == 0
    if is_first:
        total_GS[..., panel.keys :, :] = 0
    rows, size = by_rows.shape[-2:]
    step = max(UNPACKED // (rows * size), 16) if reads_small_products() else panel.keys
    for start in range(0, panel.keys, step):
        keys = slice(start, min(start + step, panel.keys))
        if is_first:
            np.matmul(turned[..., keys, :], by_rows, out=total_GS[..., keys, :])
        else:
            total_GS[..., keys, :] += np.matmul(turned[..., keys, :], by_rows)


def _softmax_gradient(g: Array, y: Array, how: Weighing, panel: Panel) -> Array:
    """Return scale · y (g - Σ g y), written over `g`."""
    if compiled.fits_rows(np, g, y):
        first = panel.rows.start + 1 if how.causal else y.shape[-1]
        compiled.run_rows("softmax_gradient", (g, y, g), how.scale, rows=y.shape[-2], first=first)
        return g
    g -= np.vecdot(g, y)[..., None]
    g *= y
    g *= how.scale
    return g
