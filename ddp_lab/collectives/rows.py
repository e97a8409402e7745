"""An array as pieces, one a rank: views, never copies, and never NumPy's scalars."""

from ddp_lab.transport.base import NDArray


def rows_of(x: NDArray) -> list[NDArray]:
    """Return `x[0], x[1], ...` as arrays, of no dimension where `x` has one."""
    return [x[i, ...] for i in range(len(x))]


def split_evenly(flat: NDArray, parts: int) -> list[NDArray]:
    """Return `parts` views that cover `flat`, their sizes differing by at most one."""
    n = flat.size
    return [flat[i * n // parts : (i + 1) * n // parts] for i in range(parts)]
