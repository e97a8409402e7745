"""Comparisons, logic and bits: results have no gradient."""

from collections.abc import Callable
from typing import Any

from ...arrays.library import Array, bool_, dtype_of
from ...op import Kind
from .rows import Compute, binary, unary


def _test(name: str, compute: Compute, says: str) -> Callable[[Kind, object], Kind]:
    return binary(name, compute, None, None, says, dtype=bool_, reads="")


def _truth(x: Array) -> Any:
    return x if dtype_of(x) is bool_ else x != 0


eq = _test("eq", lambda xp, a, b: a == b, "Where a equals b.")
ne = _test("ne", lambda xp, a, b: a != b, "Where a differs from b.")
lt = _test("lt", lambda xp, a, b: a < b, "Where a is less than b.")
le = _test("le", lambda xp, a, b: a <= b, "Where a is at most b.")
gt = _test("gt", lambda xp, a, b: a > b, "Where a is greater than b.")
ge = _test("ge", lambda xp, a, b: a >= b, "Where a is at least b.")
logical_and = _test("logical_and", lambda xp, a, b: _truth(a) & _truth(b), "Both.")
logical_or = _test("logical_or", lambda xp, a, b: _truth(a) | _truth(b), "Either.")
logical_xor = _test("logical_xor", lambda xp, a, b: _truth(a) ^ _truth(b), "One alone.")


def _flag(name: str, compute: Compute, says: str) -> Callable[[Kind], Kind]:
    return unary(name, compute, None, says, dtype=bool_, reads="")


logical_not = _flag("logical_not", lambda xp, x: ~_truth(x), "Where x is 0 or False.")
isnan = _flag("isnan", lambda xp, x: x != x, "Where x is not a number.")
isinf = _flag("isinf", lambda xp, x: xp.isinf(x), "Where x is infinite.")
isfinite = _flag("isfinite", lambda xp, x: xp.isfinite(x), "Where x is a finite number.")


def _bits(
    name: str, compute: Compute, says: str, kinds: str = "biu"
) -> Callable[[Kind, object], Kind]:
    return binary(name, compute, None, None, says, reads="", kinds=kinds)


bitwise_and = _bits("bitwise_and", lambda xp, a, b: a & b, "Bits of both; for bools, and.")
bitwise_or = _bits("bitwise_or", lambda xp, a, b: a | b, "Bits of either; for bools, or.")
bitwise_xor = _bits("bitwise_xor", lambda xp, a, b: a ^ b, "Bits of one alone; for bools, xor.")
bitwise_left_shift = _bits("bitwise_left_shift", lambda xp, a, b: a << b, "a · 2ᵇ.", "iu")
bitwise_right_shift = _bits("bitwise_right_shift", lambda xp, a, b: a >> b, "⌊a / 2ᵇ⌋.", "iu")
bitwise_not = unary(
    "bitwise_not", lambda xp, x: ~x, None, "All bits turned.", reads="", kinds="biu"
)
