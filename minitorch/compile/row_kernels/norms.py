"""Bodies of kernels over rows: layer norm and its gradient.

May import: row_text.
"""

from __future__ import annotations

from .row_text import Each, RowText


def _standardized(k: RowText, x: int) -> tuple[Each, str]:
    """Return what gives a row's elements with mean 0 and variance 1, and 1 / their deviation."""
    t = k.t
    (middle,) = k.mean(lambda v, mask: k.load(x, v, mask))

    def away(v: str, mask: str | None) -> str:
        return t.sub(k.load(x, v, mask), middle)

    def square(v: str, mask: str | None) -> str:
        a = away(v, mask)
        return t.mul(a, a)

    (spread,) = k.mean(square)
    scale = t.div(t.number(1.0), t.intrinsic("sqrt", t.add(spread, k.number)))
    return lambda v, mask: t.mul(away(v, mask), scale), scale


def layer_norm(k: RowText) -> None:
    """x, weight, bias, out: each row standardized, scaled and shifted; number is epsilon."""
    t = k.t
    y, _ = _standardized(k, 0)

    def result(v: str, mask: str | None) -> str:
        scaled = t.mul(y(v, mask), k.load(1, v, mask, True))
        return k.store(3, t.add(scaled, k.load(2, v, mask, True)), v, mask)

    k.each(result, k.integers[0])


def layer_norm_gradient(k: RowText) -> None:
    """g, x, weight, dx, dweight, dbias: the gradients; the last two a row for each `rows` rows."""
    t = k.t
    n, rows, _ = k.integers
    part = t.times(t.emit(f"sdiv i64 {k.row}, {rows}"), n)
    y, scale = _standardized(k, 1)

    def flow(v: str, mask: str | None) -> str:
        return t.mul(k.load(0, v, mask), k.load(2, v, mask, True))

    middle, along = k.mean(flow, lambda v, mask: t.mul(flow(v, mask), y(v, mask)))

    def share(v: str, mask: str | None) -> None:
        g, standard = k.load(0, v, mask), y(v, mask)
        inner = t.sub(t.sub(flow(v, mask), middle), t.mul(standard, along))
        k.store(3, t.mul(inner, scale), v, mask)
        total = t.plus(part, v)
        k.store(4, t.add(k.load(4, total, mask, True), t.mul(g, standard)), total, mask, True)
        k.store(5, t.add(k.load(5, total, mask, True), g), total, mask, True)

    k.each(share, n)
