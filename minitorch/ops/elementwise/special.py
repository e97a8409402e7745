"""The error function on arrays: NumPy has none. Other libraries bring their own.

Source: W. J. Cody, Rational Chebyshev approximations for the error function, Math. Comp. 23, 1969,
coefficients as in his CALERF; relative error near 1e-16.
"""

import importlib
from typing import Any

import numpy as np

from ...arrays.library import Array, Namespace

_SMALL = (
    (1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2),
    (2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3),
    3.20937758913846947e3,
    2.84423683343917062e3,
)
_MIDDLE = (
    (
        2.15311535474403846e-8,
        5.64188496988670089e-1,
        8.88314979438837594e0,
        6.61191906371416295e1,
        2.98635138197400131e2,
        8.81952221241769090e2,
        1.71204761263407058e3,
        2.05107837782607147e3,
    ),
    (
        1.57449261107098347e1,
        1.17693950891312499e2,
        5.37181101862009858e2,
        1.62138957456669019e3,
        3.29079923573345963e3,
        4.36261909014324716e3,
        3.43936767414372164e3,
    ),
    1.23033935479799725e3,
    1.23033935480374942e3,
)
_LARGE = (
    (
        1.63153871373020978e-2,
        3.05326634961232344e-1,
        3.60344899949804439e-1,
        1.25781726111229246e-1,
        1.60837851487422766e-2,
    ),
    (2.56852019228982242e0, 1.87295284992346725e0, 5.27905102951428412e-1, 6.05183413124413191e-2),
    6.58749161529837803e-4,
    2.33520497626869185e-3,
)


def _ratio(x: Array, table: Any) -> Array:
    top, bottom, top_last, bottom_last = table
    above: Array = top[0] * x
    below = x
    for t, b in zip(top[1:], bottom, strict=True):
        above, below = (above + t) * x, (below + b) * x
    fraction: Array = (above + top_last) / (below + bottom_last)
    return fraction


def _erfc_positive(x: Array) -> Array:
    """Return erfc for x >= 0.46875."""
    near = np.minimum(x, 4.0)
    far = np.maximum(x, 4.0)
    inverse = 1.0 / (far * far)
    tail = (0.56418958354775628695 - inverse * _ratio(inverse, _LARGE)) / far
    erfc_x: Array = np.exp(-x * x) * np.where(x <= 4.0, _ratio(near, _MIDDLE), tail)
    return erfc_x


def erf_array(xp: Namespace, x: Array) -> Array:
    """Return erf(x), of the dtype of `x`."""
    if xp is not np:
        own = xp if hasattr(xp, "erf") else importlib.import_module("cupyx.scipy.special")
        return own.erf(x)
    wide = np.asarray(x, dtype=np.float64)
    size = np.abs(wide)
    small = wide * _ratio(np.minimum(size, 0.5) ** 2, _SMALL)
    large = np.sign(wide) * (1.0 - _erfc_positive(np.maximum(size, 0.46875)))
    return np.where(size <= 0.46875, small, large).astype(x.dtype)
