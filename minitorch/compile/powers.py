"""x to the power y on vectors: e to the y log |x|, with the logarithm to more than its precision.

Singles are computed in doubles. For doubles the logarithm is a sum of two, as its error is
multiplied by up to 745 on its way through the exponential. The largest errors found, in units in
the last place, are 0.6 in single and 2.0 in double.

May import: text, functions. Source: the sum of two doubles as in T. J. Dekker, A Floating-Point
Technique for Extending the Available Precision, Numer. Math. 18, 1971; the cases of infinities,
zeros and negative numbers as C99, annex F.9.4.4, has them.
"""

from __future__ import annotations

import math

from . import functions
from .text import Text

LOG_TERMS = 10  # of artanh's series after its second
THIRD = (1 / 3, 1.850371707708594e-17)  # in two parts
LN2 = (6.93147180369123816490e-01, 1.90821492927058770002e-10)
LN2_REST = 1.1612227229362532e-26
EDGE = 746.0  # of the exponential: beyond it 0 or infinity


def pow(t: Text, x: str, y: str) -> str:
    """x to the y."""
    if not t.single:
        return _pow(t, x, y)
    wide = Text("float64", t.width, prefix=f"{t.prefix}{len(t.lines)}w")
    wide.lines, wide.declared, wide.defined = t.lines, t.declared, t.defined
    a, b = (t.emit(f"fpext {t.vector} {n} to {wide.vector}") for n in (x, y))
    return t.emit(f"fptrunc {wide.vector} {_pow(wide, a, b, plain=True)} to {t.vector}")


def _pow(t: Text, x: str, y: str, plain: bool = False) -> str:
    """The power of doubles; `plain`: as exact as singles need."""
    size = t.intrinsic("fabs", x)
    high, low = (functions.log(t, size), t.number(0.0)) if plain else _log(t, size)
    product = t.mul(y, high)
    lost = t.fma(y, low, t.fma(y, high, t.neg(product)))
    found = functions.exp(t, product)
    ordinary = t.compare("olt", size_of(t, product), t.number(EDGE))
    ordinary = t.logic("and", ordinary, t.compare("olt", found, t.number(math.inf)))
    found = t.either(ordinary, t.fma(found, t.either(ordinary, lost, t.number(0.0)), found), found)
    return _edges(t, x, y, _signed(t, x, y, found))


def _signed(t: Text, x: str, y: str, found: str) -> str:
    """Return the power of |x| as that of x: negative for odd y, NaN for broken y."""
    zero = t.number(0.0)
    whole = t.compare("oeq", t.intrinsic("floor", y), y)
    half = t.mul(y, t.number(0.5))
    broken = t.compare("one", t.intrinsic("floor", half), half)
    odd = t.logic("and", whole, broken)
    signed = t.either(odd, t.intrinsic("copysign", found, x), found)
    no_root = t.logic("and", t.compare("olt", x, zero), t.compare("ogt", x, t.number(-math.inf)))
    whole_or_infinite = t.logic("or", whole, t.compare("oeq", size_of(t, y), t.number(math.inf)))
    nothing = t.logic("and", no_root, t.logic("xor", whole_or_infinite, true(t)))
    return t.either(nothing, t.number(math.nan), signed)


def _edges(t: Text, x: str, y: str, found: str) -> str:
    """Return 1 where the power is 1 whatever the other number is, and NaN for other NaN."""
    one = t.number(1.0)
    nan = t.compare("uno", x, y)
    found = t.either(nan, t.number(math.nan), found)
    at_infinity = t.logic(
        "and",
        t.compare("oeq", size_of(t, x), one),
        t.compare("oeq", size_of(t, y), t.number(math.inf)),
    )
    is_one = t.logic("or", t.compare("oeq", x, one), t.compare("oeq", y, t.number(0.0)))
    return t.either(t.logic("or", is_one, at_infinity), one, found)


def size_of(t: Text, x: str) -> str:
    """Return |x|."""
    return t.intrinsic("fabs", x)


def true(t: Text) -> str:
    """Return the mask that holds everywhere."""
    return t.repeat("i1", "true")


def _log(t: Text, x: str) -> tuple[str, str]:
    """Return the logarithm of x >= 0 as a sum of two numbers.

    x = 2^e m; with s = (m - 1) / (m + 1) it is e ln 2 + 2 (s + s^3 / 3 + s^5 / 5 + ...).
    """
    tiny, up = t.number(2.0**-1022), 54
    small = t.compare("olt", x, tiny)
    normal = t.either(small, t.mul(x, t.number(2.0**up)), x)
    e, f = functions._fraction(t, normal)
    e = t.sub(e, t.either(small, t.number(float(up)), t.number(0.0)))
    high, low = _log_of_mantissa(t, f)
    top, rest = t.mul(e, t.number(LN2[0])), t.mul(e, t.number(LN2[1]))  # the first is exact
    total, lost = _sum(t, top, high)
    rest_high, rest_low = _sum(t, total, rest)
    rest_lost = t.fma(e, t.number(LN2[1]), t.neg(rest))
    low = t.add(t.add(t.add(lost, rest_low), rest_lost), t.fma(e, t.number(LN2_REST), low))
    high, low = _sum(t, rest_high, low)
    infinite = t.compare("oeq", x, t.number(math.inf))
    none = t.compare("oeq", x, t.number(0.0))
    edge = t.logic("or", infinite, none)
    high = t.either(infinite, x, t.either(none, t.number(-math.inf), high))
    return high, t.either(edge, t.number(0.0), low)


def _log_of_mantissa(t: Text, f: str) -> tuple[str, str]:
    """Return ln(1 + f) as a sum of two, 1 + f in [root 1/2, root 2)."""
    two = t.number(2.0)
    below = t.add(f, two)
    below_low = t.sub(f, t.sub(below, two))
    s = t.div(f, below)
    left = t.fma(t.neg(s), below_low, t.fma(t.neg(s), below, f))
    s_low = t.div(left, below)
    z = t.mul(s, s)
    z_low = t.fma(t.mul(two, s), s_low, t.fma(s, s, t.neg(z)))
    terms = [1 / (2 * k + 5) for k in reversed(range(LOG_TERMS))]
    more = t.mul(t.mul(z, z), t.polynomial(z, terms))  # s^4 / 5 + s^6 / 7 + ...
    third = t.number(THIRD[0])
    inner = t.mul(z, third)
    inner_low = t.fma(z_low, third, t.fma(z, t.number(THIRD[1]), t.fma(z, third, t.neg(inner))))
    inner, extra = _sum(t, inner, more)
    inner_low = t.add(inner_low, extra)
    product = t.mul(s, inner)
    product_low = t.fma(s, inner_low, t.fma(s_low, inner, t.fma(s, inner, t.neg(product))))
    high, low = _sum(t, s, product)
    low = t.add(low, t.add(s_low, product_low))
    return t.mul(two, high), t.mul(two, low)


def _sum(t: Text, a: str, b: str) -> tuple[str, str]:
    """Return a + b, and what it rounds away, whichever is larger."""
    total = t.add(a, b)
    of_b = t.sub(total, a)
    of_a = t.sub(total, of_b)
    return total, t.add(t.sub(a, of_a), t.sub(b, of_b))
