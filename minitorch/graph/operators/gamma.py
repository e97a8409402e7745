"""The logarithm of the gamma function and its derivatives, under TensorFlow's names.

Sources: Lanczos, SIAM J. Numer. Anal. B 1, 1964 (g = 7, nine terms); Abramowitz & Stegun, 6.3.18
for the digamma function, 23.2 for Hurwitz's zeta function by Euler's and Maclaurin's sum.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...arrays import Array, asarray, to_numpy
from ...op import apply
from ...ops import elementwise as rows
from ...ops.rows import Binary, Unary
from ..alike import alike
from ..lined import lined
from ..naming import rename
from ..node import Node, convert
from .elementwise import cos, exp, where
from .math import reduce_sum

LANCZOS = (
    0.99999999999980993,
    676.5203681218851,
    -1259.1392167224028,
    771.32342877765313,
    -176.61502916214059,
    12.507343278686905,
    -0.13857109526572012,
    9.9843695780195716e-6,
    1.5056327351493116e-7,
)
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""B2, B4, ... B16."""
LEAST = -1e3  # below, the sum of zeta would take a term for each whole number up to 0
FAR = 10.0  # from here on eight terms of the asymptotic sums are exact to the last digit


def _lgamma(x: Any) -> Any:
    """Return log |gamma(x)|; infinite at 0, -1, -2, ..."""
    right = np.where(x < 0.5, 1.0 - x, x) - 1.0
    total = LANCZOS[0] + sum(c / (right + i) for i, c in enumerate(LANCZOS[1:], 1))
    t = right + 7.5
    found = 0.5 * math.log(2 * math.pi) + (right + 0.5) * np.log(t) - t + np.log(total)
    turned = np.sin(np.pi * (x - np.floor(x)))
    return np.where(x < 0.5, np.log(np.pi) - np.log(np.abs(turned)) - found, found)


def _digamma(x: Any) -> Any:
    """Return the derivative of lgamma; not a number at 0, -1, -2, ..."""
    at = np.where(x < 0.5, 1.0 - x, x)
    found = np.zeros_like(at)
    while (near := at < FAR).any():
        found = np.where(near, found - 1.0 / np.where(near, at, 1.0), found)
        at = np.where(near, at + 1.0, at)
    found = found + np.log(at) - 0.5 / at
    for i, b in enumerate(BERNOULLI, 1):
        found = found - b / (2 * i * at ** (2 * i))
    pole = (x <= 0) & (x == np.floor(x))
    back = np.where(pole, np.nan, np.pi / np.tan(np.pi * x))
    return np.where(x < 0.5, found - back, found)


def _zeta(s: Any, q: Any) -> Any:
    """Return the sum of (q + k)^-s over k = 0, 1, 2, ..."""
    s, at = np.broadcast_arrays(s, np.where(q < LEAST, np.nan, q))
    found = np.zeros(at.shape)
    while (near := at < FAR).any():
        found = np.where(near, found + np.where(near, at, 1.0) ** -s, found)
        at = np.where(near, at + 1.0, at)
    found = found + at ** (1.0 - s) / (s - 1.0) + 0.5 * at**-s
    factor = s * at ** (-s - 1.0)
    for i, b in enumerate(BERNOULLI, 1):
        found = found + b / math.factorial(2 * i) * factor
        factor = factor * (s + 2 * i - 1) * (s + 2 * i) / (at * at)
    return found


def _on_arrays(function: Any) -> Any:
    """Return a row's `compute`: by NumPy in float64, given back as the last input came."""

    def compute(xp: Any, *arrays: Array) -> Array:
        wide = [np.asarray(to_numpy(a), np.float64) for a in arrays]
        with np.errstate(all="ignore"):
            found = np.asarray(function(*wide))
        last = arrays[-1]
        if xp is np:
            return found.astype(np.asarray(last).dtype)
        return asarray(found.astype(to_numpy(last).dtype), None, last.device)

    return compute


def _by_q(g: Any, s: Any, q: Any, y: Any) -> Any:
    return g * -s * apply(ZETA, s + 1.0, q)


ZETA = Binary("zeta", _on_arrays(_zeta), (lambda g, s, q, y: g * 0.0, _by_q), promotes="float")
DIGAMMA = Unary(
    "digamma",
    _on_arrays(_digamma),
    (lambda g, x, y: g * apply(ZETA, rows.ones_like(x) * 2.0, x),),
    promotes="float",
)
LGAMMA = Unary(
    "lgamma", _on_arrays(_lgamma), (lambda g, x, y: g * apply(DIGAMMA, x),), promotes="float"
)


def lgamma(x: Any, name: str | None = None) -> Node:
    """log |gamma(x)|."""
    return rename(apply(LGAMMA, convert(x)), name)


def digamma(x: Any, name: str | None = None) -> Node:
    """The derivative of `lgamma`."""
    return rename(apply(DIGAMMA, convert(x)), name)


@lined
def zeta(x: Any, q: Any, name: str | None = None) -> Node:
    """Hurwitz's zeta function: the sum of (q + k)^-x over k = 0, 1, ...; a gradient for q alone."""
    return rename(apply(ZETA, *alike("zeta", x, q)), name)


@lined
def polygamma(a: Any, x: Any, name: str | None = None) -> Node:
    """The derivative of order `a` of `digamma`, a whole number; a gradient for x alone."""
    order, at = alike("polygamma", a, x)
    sign = -cos(order * math.pi)
    higher = sign * exp(lgamma(order + 1.0)) * zeta(where(order > 0, order, 1.0 + order) + 1.0, at)
    return rename(where(order > 0, higher, rows.zeros_like(higher) + digamma(at)), name)


def lbeta(x: Any, name: str | None = None) -> Node:
    """The logarithm of the beta function over the last axis."""
    node = convert(x)
    return rename(reduce_sum(lgamma(node), -1) - lgamma(reduce_sum(node, -1)), name)
