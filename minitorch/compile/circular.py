"""sin and cos on vectors: an odd and an even series around the nearest multiple of π/2.

Near 0 that multiple is found by π/2 in three parts, whose products with whole numbers are exact to
twice the precision. Far away (`NEAR`) every bit of 2/π may count: there lanes go one by one through
integers of 192 bits. The largest errors found, in units in the last place, are 1.5 near and far.

May import: text. Source: W. J. Cody & W. Waite, Software Manual for the Elementary Functions, 1980;
far away M. Payne & R. Hanek, Radian Reduction for Trigonometric Functions, SIGNUM 18, 1983.
"""

from __future__ import annotations

import functools
import math

from .text import Text, literal

NEAR = {True: 2.0**17, False: 2.0**30}  # |x| below which three parts of π/2 are enough
PARTS = {
    True: (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    False: (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
TERMS = {True: 5, False: 8}  # of each series on |r| <= π/4, after its first
MANTISSA = {True: 23, False: 52}
BIAS = {True: 127, False: 1023}
BITS = 1344  # of 2/π: as many as the largest exponent reaches, and a window more
WINDOW = 192  # bits of a product: 2 for the quadrant, 190 of a fraction
MARGIN = 256  # bits that are read to have a window of them, and zeros above 2/π


def sin(t: Text, x: str) -> str:
    """The sine of x, radians."""
    found = _turned(t, x, 0)
    return t.either(t.compare("oeq", x, t.number(0.0)), x, found)  # -0 stays


def cos(t: Text, x: str) -> str:
    """The cosine of x, radians."""
    return _turned(t, x, 1)


def _turned(t: Text, x: str, quarters: int) -> str:
    """Return sin(x + quarters · π/2)."""
    function, text, declared = _reduction(t.dtype, t.width)
    t.defined[function] = text
    t.declared |= declared
    pair = t.emit(f"call {_pair(t)} @{function}({t.vector} {x})")
    r = t.emit(f"extractvalue {_pair(t)} {pair}, 0")
    n = t.int_op("add", t.emit(f"extractvalue {_pair(t)} {pair}, 1"), t.whole(quarters))
    odd = t.int_op("and", n, t.whole(1))
    by_cos = t.emit(f"icmp ne {t.bits} {odd}, {t.whole(0)}")
    size = t.either(by_cos, _cos_series(t, r), _sin_series(t, r))
    sign = t.int_op("shl", t.int_op("and", n, t.whole(2)), t.whole(30 if t.single else 62))
    return t.as_number(t.int_op("xor", t.as_bits(size), sign))


def _pair(t: Text) -> str:
    return f"{{ {t.vector}, {t.bits} }}"


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


# ── the nearest multiple of π/2 ─────────────────────────────────────────────────────────────────


@functools.cache
def _reduction(dtype: str, width: int) -> tuple[str, str, frozenset[str]]:
    """Return a function of x for r and n, x = n π/2 + r, |r| <= π/4: name, text, what it calls."""
    t = Text(dtype, width)
    name = f"reduced.{width}.{t.scalar}"
    t.label("entry")
    r, n = _near(t)
    far = t.compare("uge", t.intrinsic("fabs", "%x"), t.number(NEAR[t.single]))  # NaN too
    some = far
    if width > 1:
        some = t.emit(f"icmp ne i{width} {t.emit(f'bitcast {t.mask} {far} to i{width}')}, 0")
    t.do(f"br i1 {some}, label %slow, label %done")
    t.label("slow")
    given = f"{t.vector} %x, {t.vector} {r}, {t.bits} {n}, {t.mask} {far}"
    pair = t.emit(f"call {_pair(t)} @slow.{name}({given})")
    slow_r = t.emit(f"extractvalue {_pair(t)} {pair}, 0")
    slow_n = t.emit(f"extractvalue {_pair(t)} {pair}, 1")
    t.do("br label %done")
    t.label("done")
    t.do(f"%r = phi {t.vector} [ {r}, %entry ], [ {slow_r}, %slow ]")
    t.do(f"%n = phi {t.bits} [ {n}, %entry ], [ {slow_n}, %slow ]")
    first = t.emit(f"insertvalue {_pair(t)} poison, {t.vector} %r, 0")
    t.do(f"ret {_pair(t)} {t.emit(f'insertvalue {_pair(t)} {first}, {t.bits} %n, 1')}")
    body = "\n".join(t.lines)
    text = f"define internal {_pair(t)} @{name}({t.vector} %x) {{\n{body}\n}}\n"
    slow, declared = _lane_by_lane(dtype, width, f"slow.{name}")
    return name, f"{text}\n{slow}", frozenset(t.declared | declared)


def _near(t: Text) -> tuple[str, str]:
    magic = 1.5 * 2.0 ** MANTISSA[t.single]  # adding it rounds to a whole number in the low bits
    shifted = t.fma("%x", t.number(2 / math.pi), t.number(magic))
    n = t.sub(shifted, t.number(magic))
    r = "%x"
    for part in PARTS[t.single]:
        r = t.fma(n, t.number(-part), r)
    return r, t.as_bits(shifted)


def _lane_by_lane(dtype: str, width: int, name: str) -> tuple[str, set[str]]:
    """Return a function that puts right the lanes of r and n that are far away; what it calls."""
    t = Text(dtype, width)
    one = f"{{ {t.scalar}, {t.integer} }}"
    r, n = "%r", "%n"
    for i in range(width):
        found = t.emit(f"call {one} @far.{t.scalar}({t.scalar} {t.lane(t.vector, '%x', i)})")
        here = t.lane(t.mask, "%far", i)
        for place, (kind, element) in enumerate(((t.vector, t.scalar), (t.bits, t.integer))):
            new, old = t.emit(f"extractvalue {one} {found}, {place}"), (r, n)[place]
            was = t.lane(kind, old, i)
            new = t.emit(f"select i1 {here}, {element} {new}, {element} {was}")
            r, n = (
                (t.with_lane(kind, r, new, i), n)
                if place == 0
                else (r, t.with_lane(kind, n, new, i))
            )
    first = t.emit(f"insertvalue {_pair(t)} poison, {t.vector} {r}, 0")
    t.do(f"ret {_pair(t)} {t.emit(f'insertvalue {_pair(t)} {first}, {t.bits} {n}, 1')}")
    given = f"{t.vector} %x, {t.vector} %r, {t.bits} %n, {t.mask} %far"
    body = "\n".join(t.lines)
    text = f"define internal {_pair(t)} @{name}({given}) noinline cold {{\n{body}\n}}\n"
    far, declared = _far(dtype)
    return f"{text}\n{far}", t.declared | declared


# ── far away ────────────────────────────────────────────────────────────────────────────────────


def _far(dtype: str) -> tuple[str, set[str]]:
    """Return the text of the reduction of one number, and what it calls.

    x = m 2^e with a whole number m. In quarter turns that is m · (2/π) 2^e, of which only the part
    below four quarters counts: the window of 2/π that m moves there, times m, modulo 2^192.
    """
    t = Text(dtype, 1)
    product = _quarters(t)
    half = 2 ** (WINDOW - 3)
    above = t.emit(f"add i{WINDOW} {product}, {half}")
    quadrant = t.emit(f"lshr i{WINDOW} {above}, {WINDOW - 2}")
    n = t.emit(f"trunc i{WINDOW} {quadrant} to {t.integer}")
    back = t.emit(f"shl i{WINDOW} {quadrant}, {WINDOW - 2}")
    r = _fraction(t, t.emit(f"sub i{WINDOW} {product}, {back}"))
    negative = t.emit(f"fcmp olt {t.scalar} %x, {t.number(0.0)}")
    minus_n = t.emit(f"sub {t.integer} 0, {n}")
    r, n = (
        t.either(negative, t.neg(r), r),
        t.emit(f"select i1 {negative}, {t.integer} {minus_n}, {t.integer} {n}"),
    )
    nothing = t.sub("%x", "%x")  # NaN for infinities and NaN
    r = t.either(t.compare("uno", nothing, nothing), nothing, r)
    pair = _pair(t)
    first = t.emit(f"insertvalue {pair} poison, {t.scalar} {r}, 0")
    t.do(f"ret {pair} {t.emit(f'insertvalue {pair} {first}, {t.integer} {n}, 1')}")
    head = f"define internal {pair} @far.{t.scalar}({t.scalar} %x) noinline cold {{\n"
    table = f"@two.over.pi = internal constant i{BITS + MARGIN} {two_over_pi()}, align 8\n"
    return f"{table}\n{head}{chr(10).join(t.lines)}\n}}\n", t.declared


def _quarters(t: Text) -> str:
    """Return |x| 2/π modulo 4 as an integer in units of 2^-190."""
    place = MANTISSA[t.single]
    bits = t.as_bits(t.intrinsic("fabs", "%x"))
    exponent = t.emit(f"lshr {t.integer} {bits}, {place}")
    kept = t.int_op("and", bits, t.whole(2**place - 1))
    whole = t.int_op("or", kept, t.whole(2**place))
    m = t.emit(f"zext {t.integer} {whole} to i{WINDOW}")
    # the lowest bit of the window, counted in the integer 2/π · 2^BITS
    first = t.emit(f"sub {t.integer} {BITS + BIAS[t.single] + place - WINDOW + 2}, {exponent}")
    first = t.emit(
        f"call {t.integer} @llvm.umin.{t.integer}({t.integer} {first}, {t.integer} {BITS})"
    )
    t.declared.add(f"declare {t.integer} @llvm.umin.{t.integer}({t.integer}, {t.integer})")
    n_bytes = t.emit(f"lshr {t.integer} {first}, 3")
    n_bits = t.emit(f"and {t.integer} {first}, 7")
    at = t.emit(f"getelementptr i8, ptr @two.over.pi, {t.integer} {n_bytes}")
    wide = t.emit(f"load i{MARGIN}, ptr {at}, align 1")
    moved = t.emit(f"lshr i{MARGIN} {wide}, {t.emit(f'zext {t.integer} {n_bits} to i{MARGIN}')}")
    window = t.emit(f"trunc i{MARGIN} {moved} to i{WINDOW}")
    return t.emit(f"mul i{WINDOW} {window}, {m}")


def _fraction(t: Text, units: str) -> str:
    """Return a signed number of units of 2^-190 quarter turns, in radians."""
    wide = f"i{WINDOW}"
    negative = t.emit(f"icmp slt {wide} {units}, 0")
    minus = t.emit(f"sub {wide} 0, {units}")
    size = t.emit(f"select i1 {negative}, {wide} {minus}, {wide} {units}")
    t.declared.add(f"declare {wide} @llvm.ctlz.{wide}({wide}, i1)")
    zeros = t.emit(f"call {wide} @llvm.ctlz.{wide}({wide} {size}, i1 false)")
    top = t.emit(f"lshr {wide} {t.emit(f'shl {wide} {size}, {zeros}')}, {WINDOW - 64}")
    leading = t.emit(f"uitofp i64 {t.emit(f'trunc {wide} {top} to i64')} to double")
    # 2^(64 - zeros) units of 2^(128 - 190) quarters: an exponent to add
    scale = t.emit(
        f"sub i64 {1023 + WINDOW - 64 - (WINDOW - 2)}, {t.emit(f'trunc {wide} {zeros} to i64')}"
    )
    power = t.emit(f"bitcast i64 {t.emit(f'shl i64 {scale}, 52')} to double")
    turns = t.emit(f"fmul double {leading}, {power}")
    radians = t.emit(f"fmul double {turns}, {literal(math.pi / 2, False)}")
    if not t.single:
        t.declared.add("declare double @llvm.fma.f64(double, double, double)")
        half_pi, rest = (literal(v, False) for v in PARTS[False][:2])
        minus_radians = t.emit(f"fneg double {radians}")
        lost = t.emit(
            f"call double @llvm.fma.f64(double {turns}, double {half_pi}, double {minus_radians})"
        )
        lost = t.emit(f"call double @llvm.fma.f64(double {turns}, double {rest}, double {lost})")
        radians = t.emit(f"fadd double {radians}, {lost}")
    signed = t.emit(
        f"select i1 {negative}, double {t.emit(f'fneg double {radians}')}, double {radians}"
    )
    return t.emit(f"fptrunc double {signed} to float") if t.single else signed


@functools.cache
def two_over_pi() -> int:
    """Return 2/π in units of 2^-BITS, by Machin's formula in whole numbers."""
    unit = 1 << (2 * BITS)

    def arctan_of_one_over(k: int) -> int:
        power, total, n = unit // k, 0, 1
        while power:
            total += power // n if n % 4 == 1 else -(power // n)
            power //= k * k
            n += 2
        return total

    pi = 4 * (4 * arctan_of_one_over(5) - arctan_of_one_over(239))
    return (2 * unit << BITS) // pi
