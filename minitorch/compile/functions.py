"""exp, log, tanh, sigmoid, erf, sin, cos, atan2 and remainders on vectors, by arithmetic alone.

Each holds for every number, infinities, NaN, denormals and -0 included. Remainders are exact. The
largest errors found of the others, in units in the last place
(`tests/minitorch/compile/test_functions.py` measures them anew):

              float32   float64
    exp          1.1       1.1
    expm1        2.0       2.0
    log          1.0       1.0
    log1p        2.0       2.0
    sigmoid      3.0       3.0
    tanh         2.5       3.0
    erf          7.0       5.0
    sin, cos     1.5       2.1
    atan2        2.5       2.5

Source: argument reduction and the correction terms of `log` as in W. J. Cody & W. Waite, Software
Manual for the Elementary Functions, 1980, and P. T. P. Tang, ACM TOMS 15(2), 1989; series where
the reduced argument is small enough for them; erf by W. J. Cody, Math. Comp. 23, 1969.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

from ..ops.elementwise import special
from .text import Text

# ln 2 in two parts, the first with so few bits that its products with exponents are exact
LN2 = {
    True: (0.693359375, -2.12194440e-4),
    False: (6.93147180369123816490e-01, 1.90821492927058770002e-10),
}
EXP_RANGE = {True: (-104.0, 89.0), False: (-746.0, 710.0)}  # beyond: 0 and infinity anyway
EXP_TERMS = {True: 8, False: 14}  # of Taylor's series on |r| <= ln 2 / 2
LOG_TERMS = {True: 4, False: 10}  # of artanh's series on |s| <= 0.172
TANH_REACH = {True: 10.0, False: 20.0}  # beyond it rounds to 1
# tanh(x) = x P(x²) / Q(x²) for |x| <= 9, a division and ten products, fitted by reweighted least
# squares to 2e-8
RATIO_REACH = 9.4  # the fraction is above 1 here, and cut to it
RATIO_P = [1.335517645e-08, 2.060954063e-05, 3.495619992e-03, 1.338105389e-01, 1.0]
RATIO_Q = [7.776794265e-07, 3.285684051e-04, 2.587710780e-02, 4.671436955e-01, 1.0]
# erf(x) = x P(x²) / Q(x²) for |x| <= 3.93, fitted so too
ERF_REACH = 4.1  # the fraction is above 1 here, and cut to it
ERF_P = [2.0419624480733177e-06, 0.0002848086108240964, 0.0037796275572686043]
ERF_P += [0.05279034548315577, 0.19078431118852934, 1.1283791453537948]
ERF_Q = [3.8003987590187365e-05, 0.0011652163153993424, 0.014997475979863931]
ERF_Q += [0.11425771676656964, 0.5024109131318956, 1.0]
MANTISSA = {True: 23, False: 52}
BIAS = {True: 127, False: 1023}


def exp(t: Text, x: str) -> str:
    """e to the x."""
    low, high = EXP_RANGE[t.single]
    power, r = _reduce(t, clamp(t, x, low, high))
    return _scale(t, _exp_series(t, r), power)


def exp_of_negative(t: Text, x: str) -> str:
    """e to the x, for x from `EXP_RANGE`'s lower end to 0: the bits of `exp` in fewer steps."""
    power, r = _reduce(t, x)
    up = 32 if t.single else 64  # 2ⁿ⁺ᵘᵖ is no denormal
    factor = _two_to(t, t.int_op("add", power, t.whole(up)))
    return t.mul(t.mul(_exp_series(t, r), factor), t.number(2.0**-up))


def _exp_series(t: Text, r: str) -> str:
    return t.polynomial(r, [1 / math.factorial(k) for k in reversed(range(EXP_TERMS[t.single]))])


def expm1(t: Text, x: str) -> str:
    """exp(x) - 1, exact near 0: 2ⁿ·(exp(r) - 1) + (2ⁿ - 1)."""
    low, high = EXP_RANGE[t.single][0] / 2, EXP_RANGE[t.single][1]
    power, r = _reduce(t, clamp(t, x, low, high))
    series = _expm1_series(t, r)
    half = t.int_op("sub", power, t.whole(1))  # 2ⁿ⁻¹, as 2¹²⁸ is not a number
    scale = _two_to(t, half)
    less = t.sub(scale, t.number(0.5))
    half_result = t.fma(scale, series, less)
    result = t.add(half_result, half_result)
    return t.either(t.compare("oeq", x, t.number(0.0)), x, result)  # -0 stays


def _expm1_series(t: Text, r: str) -> str:
    terms = [1 / math.factorial(k) for k in reversed(range(2, EXP_TERMS[t.single] + 1))]
    return t.fma(t.mul(r, r), t.polynomial(r, terms), r)


def _reduce(t: Text, x: str) -> tuple[str, str]:
    """Return n, an integer, and r with x = n·ln 2 + r and |r| <= ln 2 / 2."""
    magic = 1.5 * 2.0 ** MANTISSA[t.single]  # adding it rounds to a whole number in the low bits
    shifted = t.fma(x, t.number(1 / math.log(2)), t.number(magic))
    n = t.sub(shifted, t.number(magic))
    bits = t.as_bits(t.number(magic))
    power = t.int_op("sub", t.as_bits(shifted), bits)
    high, low = LN2[t.single]
    r = t.fma(n, t.number(-high), x)
    return power, t.fma(n, t.number(-low), r)


def _scale(t: Text, x: str, power: str) -> str:
    """Return x · 2^power in two factors, so that the result may be a denormal."""
    half = t.int_op("ashr", power, t.whole(1))
    rest = t.int_op("sub", power, half)
    return t.mul(t.mul(x, _two_to(t, half)), _two_to(t, rest))


def _two_to(t: Text, power: str) -> str:
    biased = t.int_op("add", power, t.whole(BIAS[t.single]))
    return t.as_number(t.int_op("shl", biased, t.whole(MANTISSA[t.single])))


def clamp(t: Text, x: str, low: float, high: float) -> str:
    """Return x within [low, high]; NaN stays NaN."""
    above = t.either(t.compare("ogt", x, t.number(high)), t.number(high), x)
    return t.either(t.compare("olt", above, t.number(low)), t.number(low), above)


def log(t: Text, x: str) -> str:
    """The natural logarithm: x = 2ᵉ·(1 + f), then artanh's series in f / (2 + f)."""
    tiny = 2.0 ** (1 - BIAS[t.single])
    up = MANTISSA[t.single] + 1
    small = t.compare("olt", x, t.number(tiny))
    normal = t.either(small, t.mul(x, t.number(2.0**up)), x)
    exponent, f = _fraction(t, normal)
    exponent = t.sub(exponent, t.either(small, t.number(float(up)), t.number(0.0)))
    logarithm = _log_of(t, exponent, f)
    logarithm = t.either(t.compare("oeq", x, t.number(0.0)), t.number(-math.inf), logarithm)
    logarithm = t.either(t.compare("olt", x, t.number(0.0)), t.number(math.nan), logarithm)
    whole = t.compare("une", x, x)  # NaN and infinity are their own logarithms
    whole = t.logic("or", whole, t.compare("oeq", x, t.number(math.inf)))
    return t.either(whole, x, logarithm)


def _fraction(t: Text, x: str) -> tuple[str, str]:
    """Return e as a number, and f, with x = 2ᵉ·(1 + f) and 1 + f in [√½, √2)."""
    place = MANTISSA[t.single]
    root_half = t.as_bits(t.number(math.sqrt(0.5)))
    above = t.int_op("sub", t.as_bits(x), root_half)
    exponent = t.int_op("ashr", above, t.whole(place))
    mantissa = t.int_op("sub", t.as_bits(x), t.int_op("shl", exponent, t.whole(place)))
    as_number = t.emit(f"sitofp {t.bits} {exponent} to {t.vector}")
    return as_number, t.sub(t.as_number(mantissa), t.number(1.0))


def _log_of(t: Text, exponent: str, f: str) -> str:
    """Return e·ln 2 + ln(1 + f) = e·ln 2 + f - f²/2 + s·(f²/2 + R), s = f / (2 + f)."""
    s = t.div(f, t.add(f, t.number(2.0)))
    z = t.mul(s, s)
    terms = [2 / (2 * k + 3) for k in reversed(range(LOG_TERMS[t.single]))]
    rest = t.mul(z, t.polynomial(z, terms))
    half_square = t.mul(t.mul(t.number(0.5), f), f)
    high, low = LN2[t.single]
    right = t.fma(s, t.add(half_square, rest), t.mul(exponent, t.number(low)))
    inner = t.sub(t.sub(half_square, right), f)
    return t.fma(exponent, t.number(high), t.neg(inner))


def log1p(t: Text, x: str) -> str:
    """ln(1 + x): the logarithm of 1 + x, and what the addition rounded away."""
    whole = t.add(t.number(1.0), x)
    lost = t.sub(x, t.sub(whole, t.number(1.0)))
    logarithm = t.add(log(t, whole), t.div(lost, whole))
    same = t.compare("oeq", whole, t.number(1.0))  # x itself, denormals and -0 too
    edge = t.logic(
        "or", t.compare("oeq", x, t.number(math.inf)), t.compare("ole", whole, t.number(0.0))
    )
    logarithm = t.either(edge, log(t, whole), logarithm)
    return t.either(same, x, logarithm)


def sigmoid(t: Text, x: str) -> str:
    """1 / (1 + exp(-x)), by the exponential that does not overflow."""
    small = exp(t, t.neg(t.intrinsic("fabs", x)))
    positive = t.compare("oge", x, t.number(0.0))
    top = t.either(positive, t.number(1.0), small)
    return t.div(top, t.add(t.number(1.0), small))


def tanh(t: Text, x: str) -> str:
    """u / (u + 2) with u = exp(2|x|) - 1, and x's sign."""
    size = t.intrinsic("fabs", x)
    reach = t.number(TANH_REACH[t.single])
    size = t.either(t.compare("ogt", size, reach), reach, size)
    power, r = _reduce(t, t.add(size, size))
    scale = _two_to(t, power)
    u = t.fma(scale, _expm1_series(t, r), t.sub(scale, t.number(1.0)))
    return t.intrinsic("copysign", t.div(u, t.add(u, t.number(2.0))), x)


def tanh_of_gate(t: Text, x: str) -> str:
    """tanh in two thirds of the time, in single within 7 units in the last place."""
    return _rational(t, x, RATIO_REACH, RATIO_P, RATIO_Q) if t.single else tanh(t, x)


def _rational(t: Text, x: str, reach: float, p: Sequence[float], q: Sequence[float]) -> str:
    """Return x P(x²) / Q(x²) for |x| up to `reach`, from where on it is ±1."""
    near = clamp(t, x, -reach, reach)
    square = t.mul(near, near)
    top = t.mul(near, t.polynomial(square, p))
    return clamp(t, t.div(top, t.polynomial(square, q)), -1.0, 1.0)


def erf(t: Text, x: str) -> str:
    """The error function: an odd rational in single; in double 1 - exp(-x²)·R(x) past 0.47."""
    if t.single:
        return _rational(t, x, ERF_REACH, ERF_P, ERF_Q)
    return _erf_double(t, x)


def _erf_double(t: Text, x: str) -> str:
    size = t.intrinsic("fabs", x)
    small = t.compare("ole", size, t.number(0.46875))
    square = t.mul(x, x)
    near = t.mul(x, _cody(t, square, special._SMALL))
    size = t.either(t.compare("ogt", size, t.number(6.0)), t.number(6.0), size)
    tail = t.mul(exp(t, t.neg(t.mul(size, size))), _cody(t, size, special._MIDDLE))
    far = t.intrinsic("copysign", t.sub(t.number(1.0), tail), x)
    return t.either(small, near, far)


def _cody(t: Text, x: str, table: tuple[Sequence[float], Sequence[float], float, float]) -> str:
    top, bottom, top_last, bottom_last = table
    above = t.polynomial(x, [*top, top_last])
    return t.div(above, t.polynomial(x, [1.0, *bottom, bottom_last]))


def normal_cdf(t: Text, x: str) -> str:
    """Φ(x) = (1 + erf(x/√2)) / 2."""
    inner = erf(t, t.mul(x, t.number(math.sqrt(0.5))))
    return t.mul(t.add(inner, t.number(1.0)), t.number(0.5))


def gelu_slope(t: Text, x: str) -> str:
    """The derivative of x·Φ(x): Φ(x) + x·exp(-x²/2)/√2π."""
    density = exp(t, t.mul(t.mul(x, x), t.number(-0.5)))
    scaled = t.mul(density, t.number(1.0 / math.sqrt(2.0 * math.pi)))
    return t.add(normal_cdf(t, x), t.mul(x, scaled))


# sin and cos: an odd and an even series around the nearest multiple of π/2, found by π/2 in three
# parts, whose products with whole numbers are exact to twice the precision. Far away every bit of
# 2/π may count: vectors that reach there are left to the C library.

NEAR = {True: 2.0**17, False: 2.0**30}  # |x| below which three parts of π/2 are enough
PARTS = {
    True: (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    False: (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
TERMS = {True: 5, False: 8}  # of each series on |r| <= π/4, after its first


def circular(name: str, t: Text, x: str) -> str:
    """Return sin or cos of x, radians."""
    return _call(name, t, partial(_body, name=name), x)


def _call(name: str, t: Text, body: Callable[[Text], None], *operands: str) -> str:
    """Return what a function of vectors %x, %y gives, which is defined once, by its body."""
    function = f"{name}.{t.width}.{t.scalar}"
    if function not in t.defined:
        inner = Text(t.dtype, t.width)
        body(inner)
        text = "\n".join(inner.lines)
        named = ", ".join(f"{t.vector} {x}" for x in ("%x", "%y")[: len(operands)])
        head = f"define internal {t.vector} @{function}({named})"
        t.defined[function] = f"{head} {{\nentry:\n{text}\n}}\n"
        t.declared |= inner.declared
    passed = ", ".join(f"{t.vector} {x}" for x in operands)
    return t.emit(f"call {t.vector} @{function}({passed})")


def _body(t: Text, name: str) -> None:
    """Write the function: the library's where a lane is far away, infinite or NaN."""
    far = _in_a_lane(t, t.compare("uge", t.intrinsic("fabs", "%x"), t.number(NEAR[t.single])))
    t.do(f"br i1 {far}, label %far, label %near")
    t.label("far")
    t.do(f"ret {t.vector} {t.intrinsic(name, '%x')}")
    t.label("near")
    result = _turn(t, "%x", 0 if name == "sin" else 1)
    if name == "sin":  # -0 stays
        result = t.either(t.compare("oeq", "%x", t.number(0.0)), "%x", result)
    t.do(f"ret {t.vector} {result}")


def _in_a_lane(t: Text, mask: str) -> str:
    """Return whether a mask holds in a lane at least."""
    if t.width == 1:
        return mask
    return t.emit(f"icmp ne i{t.width} {t.emit(f'bitcast {t.mask} {mask} to i{t.width}')}, 0")


def _turn(t: Text, x: str, quarters: int) -> str:
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
    rounded = t.sub(t.number(1.0), half)
    lost = t.sub(t.sub(t.number(1.0), rounded), half)
    return t.add(rounded, t.fma(t.mul(z, z), t.polynomial(z, terms), lost))


ATAN_TERMS = {True: 8, False: 19}  # of atan's series on |tan| <= √2 - 1, after its first
EIGHTH = {  # π/4 in two parts
    True: (0.7853981852531433, -2.1855694143368964e-08),
    False: (0.7853981633974483, 3.061616997868383e-17),
}


def atan2(t: Text, y: str, x: str) -> str:
    """The angle of the point (x, y): a multiple of π/4, and atan's series for the rest, up to π/8.

    Near a diagonal the rest's tangent is (a - b) / (a + b), elsewhere that of the flat triangle.
    """
    zero, one = t.number(0.0), t.number(1.0)
    sizes = [t.intrinsic("fabs", v) for v in (y, x)]
    steep = t.compare("ogt", *sizes)
    large = t.compare("oge", t.either(steep, *sizes), t.number(2.0 ** (BIAS[t.single] - 1)))
    scale = t.either(large, t.number(0.25), one)  # so that a sum stays a number
    a, b = (t.mul(t.either(steep, *pair), scale) for pair in (sizes[::-1], sizes))
    is_near = t.compare("oge", t.mul(a, t.number(math.sqrt(2) + 1)), b)
    is_near = t.logic("and", is_near, t.compare("ogt", a, zero))
    top, bottom = t.either(is_near, t.sub(a, b), a), t.either(is_near, t.add(a, b), b)
    top = t.either(t.logic("and", is_near, t.compare("oeq", a, b)), zero, top)  # infinite ones too
    rest = t.div(top, t.either(t.compare("oeq", b, zero), one, bottom))
    z = t.mul(rest, rest)
    terms = [(-1) ** k / (2 * k + 1) for k in range(ATAN_TERMS[t.single], 0, -1)]
    rest = t.fma(t.mul(rest, z), t.polynomial(z, terms), rest)
    count = t.either(is_near, one, zero)  # of π/4
    left = t.emit(f"icmp slt {t.bits} {t.as_bits(x)}, {t.whole(0)}")
    for turns, whole in ((steep, 2.0), (left, 4.0)):
        count = t.either(turns, t.sub(t.number(whole), count), count)
        rest = t.either(turns, t.neg(rest), rest)
    high, low = EIGHTH[t.single]
    angle = t.fma(count, t.number(high), t.fma(count, t.number(low), rest))
    angle = t.intrinsic("copysign", angle, y)
    return t.either(t.compare("uno", y, x), t.add(y, x), angle)


# Remainders, exact: a correctly rounded quotient q leaves a - q·b, which is a number. One step is
# enough for q below 2²³ (2⁵²); larger ones take more, and multiples of b where a / b overflows.

STAGES = {True: (200, 100, 0), False: (1400, 700, 0)}  # powers of 2; quotients of a stage are less
ROUNDS = {True: 6, False: 16}  # of a stage, each of which takes 23 (52) bits off the quotient


def fmod(t: Text, x: str, y: str) -> str:
    """x - y·trunc(x / y), exact, with the sign of x."""
    return _call("fmod", t, _remainder_body, x, y)


def _remainder_body(t: Text) -> None:
    rest, size = t.variable(), t.intrinsic("fabs", "%y")
    t.store(t.intrinsic("fabs", "%x"), rest)
    quotient = t.div(t.load(rest), size)
    with t.when(_in_a_lane(t, t.compare("uge", quotient, t.number(2.0 ** MANTISSA[t.single])))):
        for power in STAGES[t.single]:
            half = t.number(2.0 ** (power // 2))
            multiple = t.mul(t.mul(size, half), half)
            with t.loop("i", ROUNDS[t.single]):
                t.store(_reduce_by(t, t.load(rest), multiple), rest)
    left = _reduce_by(t, t.load(rest), size)
    left = t.either(t.compare("olt", left, t.number(0.0)), t.add(left, size), left)
    t.do(f"ret {t.vector} {t.intrinsic('copysign', left, '%x')}")


def _reduce_by(t: Text, x: str, size: str) -> str:
    """Return x less the multiple of `size` that a rounded quotient says; x itself if smaller."""
    less = t.fma(t.neg(t.intrinsic("trunc", t.div(x, size))), size, x)
    return t.either(t.compare("uge", t.intrinsic("fabs", x), size), less, x)


def remainder(t: Text, x: str, y: str) -> str:
    """x - y·⌊x / y⌋, with the sign of y."""
    rest, zero = fmod(t, x, y), t.number(0.0)
    turned = t.either(_turns(t, rest, y), t.add(rest, y), rest)
    return t.either(t.compare("oeq", rest, zero), t.intrinsic("copysign", zero, y), turned)


def floor_divide(t: Text, x: str, y: str) -> str:
    """⌊x / y⌋ as NumPy and torch round it: the quotient of x without its remainder."""
    rest, zero, one, quotient = fmod(t, x, y), t.number(0.0), t.number(1.0), t.div(x, y)
    whole = t.div(t.sub(x, rest), y)
    whole = t.either(_turns(t, rest, y), t.sub(whole, one), whole)
    below = t.intrinsic("floor", whole)
    near = t.compare("ogt", t.sub(whole, below), t.number(0.5))
    below = t.either(near, t.add(below, one), below)
    below = t.either(t.compare("oeq", whole, zero), t.intrinsic("copysign", zero, quotient), below)
    return t.either(t.compare("oeq", y, zero), quotient, below)


def _turns(t: Text, rest: str, y: str) -> str:
    """Return whether a remainder that is not 0 has another sign than y."""
    zero = t.number(0.0)
    differ = t.logic("xor", t.compare("olt", rest, zero), t.compare("olt", y, zero))
    return t.logic("and", differ, t.compare("une", rest, zero))
