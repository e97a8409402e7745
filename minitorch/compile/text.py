"""Text: LLVM IR with explicit vectors, written instruction by instruction.

A value is the name of a virtual register; all vectors have `width` lanes. Comparisons give vectors
of i1. The text fits LLVM 15 and newer: pointers are opaque, and nothing is used that was renamed.

May import: the standard library. Source: the LLVM Language Reference.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

LANES = {"float32": 16, "float64": 8}  # 64 bytes: one register with AVX-512, split elsewhere


class Text:
    """The body of one function in the making.

    Attributes:
        dtype: "float32" or "float64", the type of the numbers.
        width: lanes of a vector.
        lines: the instructions so far.
        declared: the intrinsic functions that they call.
        defined: the text of the functions of our own that they call, by name.
    """

    def __init__(self, dtype: str, width: int | None = None, prefix: str = "t") -> None:
        self.dtype, self.prefix = dtype, prefix
        self.width = LANES[dtype] if width is None else width
        self.single = dtype == "float32"
        self.scalar = "float" if self.single else "double"
        self.integer = "i32" if self.single else "i64"
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self.defined: dict[str, str] = {}
        self._count = 0

    # Types

    @property
    def vector(self) -> str:
        """The type of a vector of numbers."""
        return self.of(self.scalar)

    @property
    def bits(self) -> str:
        """The type of a vector of integers as wide as the numbers."""
        return self.of(self.integer)

    @property
    def mask(self) -> str:
        """The type of what a comparison gives."""
        return self.of("i1")

    def of(self, element: str) -> str:
        """Return the type of a vector of `element`; of one lane, the element itself."""
        return f"<{self.width} x {element}>" if self.width > 1 else element

    # Instructions

    def emit(self, text: str) -> str:
        """Add an instruction that has a result; return the result's name."""
        self._count += 1
        name = f"%{self.prefix}{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Add an instruction without a result."""
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        """Begin a block."""
        self.lines.append(f"{name}:")

    def number(self, value: float) -> str:
        """Return a constant with this number in every lane."""
        return self.repeat(self.scalar, literal(value, self.single))

    def whole(self, value: int) -> str:
        """Return an integer constant with this number in every lane."""
        return self.repeat(self.integer, str(value))

    def repeat(self, element: str, value: str) -> str:
        """Return a constant vector of one literal."""
        if self.width == 1:
            return value
        return "<" + ", ".join([f"{element} {value}"] * self.width) + ">"

    def op(self, name: str, a: str, b: str) -> str:
        """Return an arithmetic instruction on numbers: fadd, fsub, fmul, fdiv."""
        return self.emit(f"{name} {self.vector} {a}, {b}")

    def add(self, a: str, b: str) -> str:
        """Return a + b."""
        return self.op("fadd", a, b)

    def sub(self, a: str, b: str) -> str:
        """Return a - b."""
        return self.op("fsub", a, b)

    def mul(self, a: str, b: str) -> str:
        """Return a · b."""
        return self.op("fmul", a, b)

    def div(self, a: str, b: str) -> str:
        """Return a / b."""
        return self.op("fdiv", a, b)

    def neg(self, a: str) -> str:
        """Return -a."""
        return self.emit(f"fneg {self.vector} {a}")

    def int_op(self, name: str, a: str, b: str) -> str:
        """Return an instruction on integers: add, sub, and, or, shl, ashr, lshr."""
        return self.emit(f"{name} {self.bits} {a}, {b}")

    def fma(self, a: str, b: str, c: str) -> str:
        """Return a · b + c, rounded once."""
        return self.intrinsic("fma", a, b, c)

    def intrinsic(self, name: str, *arguments: str) -> str:
        """Return an intrinsic of numbers: fma, sqrt, fabs, floor, copysign, ..."""
        suffix = ("f32" if self.single else "f64") if self.width == 1 else self._suffix()
        function = f"llvm.{name}.{suffix}"
        types = ", ".join([self.vector] * len(arguments))
        self.declared.add(f"declare {self.vector} @{function}({types})")
        given = ", ".join(f"{self.vector} {a}" for a in arguments)
        return self.emit(f"call {self.vector} @{function}({given})")

    def load(self, at: str, mask: str, otherwise: str = "zeroinitializer") -> str:
        """Return the lanes of a vector in memory where the mask holds; else of `otherwise`."""
        name = f"llvm.masked.load.{self._suffix()}.p0"
        self.declared.add(f"declare {self.vector} @{name}(ptr, i32, {self.mask}, {self.vector})")
        given = f"ptr {at}, i32 1, {self.mask} {mask}, {self.vector} {otherwise}"
        return self.emit(f"call {self.vector} @{name}({given})")

    def store(self, value: str, at: str, mask: str) -> None:
        """Write the lanes of a vector where the mask holds."""
        name = f"llvm.masked.store.{self._suffix()}.p0"
        self.declared.add(f"declare void @{name}({self.vector}, ptr, i32, {self.mask})")
        self.do(f"call void @{name}({self.vector} {value}, ptr {at}, i32 1, {self.mask} {mask})")

    def spread(self, element: str, value: str) -> str:
        """Return one value, of this type, in every lane."""
        kind = self.of(element)
        one = self.emit(f"insertelement {kind} poison, {element} {value}, i32 0")
        zeros = f"<{self.width} x i32> zeroinitializer"
        return self.emit(f"shufflevector {kind} {one}, {kind} poison, {zeros}")

    def _suffix(self) -> str:
        return f"v{self.width}{'f32' if self.single else 'f64'}"

    def compare(self, how: str, a: str, b: str) -> str:
        """Return a mask: `how` is LLVM's, ordered (olt) or true with NaN too (ult)."""
        return self.emit(f"fcmp {how} {self.vector} {a}, {b}")

    def either(self, mask: str, a: str, b: str) -> str:
        """Return a where the mask holds, else b."""
        return self.emit(f"select {self.mask} {mask}, {self.vector} {a}, {self.vector} {b}")

    def logic(self, name: str, a: str, b: str) -> str:
        """Return and, or, xor of masks."""
        return self.emit(f"{name} {self.mask} {a}, {b}")

    def as_bits(self, a: str) -> str:
        """Return the bits of numbers as integers."""
        return self.emit(f"bitcast {self.vector} {a} to {self.bits}")

    def as_number(self, a: str) -> str:
        """Return integers taken for the bits of numbers."""
        return self.emit(f"bitcast {self.bits} {a} to {self.vector}")

    def lane(self, kind: str, a: str, i: int) -> str:
        """Return one element of a vector of this type."""
        return self.emit(f"extractelement {kind} {a}, i32 {i}") if self.width > 1 else a

    def with_lane(self, kind: str, a: str, one: str, i: int) -> str:
        """Return a vector of this type with another element in one lane."""
        if self.width == 1:
            return one
        element = kind.split(" x ")[1].rstrip(">")
        return self.emit(f"insertelement {kind} {a}, {element} {one}, i32 {i}")

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """Return the polynomial with these coefficients, the highest power first (Horner)."""
        total = self.number(coefficients[0])
        for c in coefficients[1:]:
            total = self.fma(total, x, self.number(c))
        return total


def literal(value: float, single: bool) -> str:
    """Return a number as LLVM writes it: the bits of a double, rounded to single if asked."""
    if single:
        value = struct.unpack("f", struct.pack("f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
