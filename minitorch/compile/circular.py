"""sin and cos on vectors: an odd and an even series around the nearest multiple of π/2.

That multiple is found by π/2 in three parts, whose products with whole numbers are exact to twice
the precision. Far away (`NEAR`) every bit of 2/π may count: vectors that reach there are left to
the C library, lane by lane. The largest error found is 1.5 units in the last place.

May import: text, functions.
Source: W. J. Cody & W. Waite, Software Manual for the Elementary Functions, 1980.
"""

from __future__ import annotations

import math

from .functions import MANTISSA
from .text import Text

NEAR = {True: 2.0**17, False: 2.0**30}  # |x| below which three parts of π/2 are enough
PARTS = {
    True: (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    False: (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
TERMS = {True: 5, False: 8}  # of each series on |r| <= π/4, after its first


def sin(t: Text, x: str) -> str:
    """The sine of x, radians."""
    return _called(t, "sin", x)


def cos(t: Text, x: str) -> str:
    """The cosine of x, radians."""
    return _called(t, "cos", x)


def _called(t: Text, name: str, x: str) -> str:
    """Call the function of vectors, and define it."""
    function = f"{name}.{t.width}.{t.scalar}"
    if function not in t.defined:
        inner = Text(t.dtype, t.width)
        _body(inner, name)
        body = "\n".join(inner.lines)
        head = f"define internal {t.vector} @{function}({t.vector} %x)"
        t.defined[function] = f"{head} {{\nentry:\n{body}\n}}\n"
        t.declared |= inner.declared
    return t.emit(f"call {t.vector} @{function}({t.vector} {x})")


def _body(t: Text, name: str) -> None:
    """Write the function: the library's where a lane is far away, infinite or NaN."""
    far = t.compare("uge", t.intrinsic("fabs", "%x"), t.number(NEAR[t.single]))
    if t.width > 1:
        far = t.emit(f"icmp ne i{t.width} {t.emit(f'bitcast {t.mask} {far} to i{t.width}')}, 0")
    t.do(f"br i1 {far}, label %far, label %near")
    t.label("far")
    t.do(f"ret {t.vector} {t.intrinsic(name, '%x')}")
    t.label("near")
    found = _turned(t, "%x", 0 if name == "sin" else 1)
    if name == "sin":  # -0 stays
        found = t.either(t.compare("oeq", "%x", t.number(0.0)), "%x", found)
    t.do(f"ret {t.vector} {found}")


def _turned(t: Text, x: str, quarters: int) -> str:
    """Return sin(x + quarters · π/2)."""
    magic = 1.5 * 2.0 ** MANTISSA[t.single]  # adding it rounds to a whole number in the low bits
    shifted = t.fma(x, t.number(2 / math.pi), t.number(magic))
    n, r = t.sub(shifted, t.number(magic)), x
    for part in PARTS[t.single]:
        r = t.fma(n, t.number(-part), r)
    turns = t.int_op("add", t.as_bits(shifted), t.whole(quarters))
    odd = t.int_op("and", turns, t.whole(1))
    by_cos = t.emit(f"icmp ne {t.bits} {odd}, {t.whole(0)}")
    size = t.either(by_cos, _cos_series(t, r), _sin_series(t, r))
    sign = t.int_op("shl", t.int_op("and", turns, t.whole(2)), t.whole(30 if t.single else 62))
    return t.as_number(t.int_op("xor", t.as_bits(size), sign))


def _sin_series(t: Text, r: str) -> str:
    z = t.mul(r, r)
    terms = [(-1) ** k / math.factorial(2 * k + 1) for k in range(TERMS[t.single], 0, -1)]
    return t.fma(t.mul(r, z), t.polynomial(z, terms), r)


def _cos_series(t: Text, r: str) -> str:
    """1 - r²/2 + r⁴ Q(r²), with what the first difference rounds away."""
    z = t.mul(r, r)
    terms = [(-1) ** k / math.factorial(2 * k) for k in range(TERMS[t.single] + 1, 1, -1)]
    half = t.mul(t.number(0.5), z)
    one = t.sub(t.number(1.0), half)
    lost = t.sub(t.sub(t.number(1.0), one), half)
    return t.add(one, t.fma(t.mul(z, z), t.polynomial(z, terms), lost))
