"""The body of a kernel over rows: a step of Adam.

May import: row_text.
"""

from .row_text import RowText


def adam(k: RowText) -> None:
    """w, g, m, v, numbers: a step of Adam; see `optim.adam`, whose numbers and order these are.

    Rows are pieces of flat arrays; `first` is how many numbers these have.
    """
    t = k.t
    n, _, size = k.integers
    numbers = (k.spread_from(4, i) for i in range(7))
    keep, new, old_square, new_square, root_scale, eps, step = numbers

    def update(v: str, mask: str | None) -> None:
        w, g, m, square = (k.load(i, v, mask) for i in range(4))
        m = k.store(2, t.add(m, t.mul(new, t.sub(g, m))), v, mask)
        square = t.add(t.mul(square, old_square), t.mul(new_square, t.mul(g, g)))
        k.store(3, square, v, mask)
        root = t.add(t.mul(t.intrinsic("sqrt", square), root_scale), eps)
        k.store(0, t.sub(t.mul(w, keep), t.div(t.mul(step, m), root)), v, mask)

    t.each(update, t.least(n, t.minus(size, k.first)))
