"""Text: LLVM IR with explicit vectors, written instruction by instruction.

A value is the name of a virtual register; all vectors have `width` lanes. Comparisons give vectors
of i1. What changes from round to round of a loop lies in a `variable`, which LLVM makes a register.
The text fits LLVM 15 and newer: pointers are opaque, and nothing is used that was renamed.

May import: nothing of ours. Source: the LLVM Language Reference.
"""

import functools
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partialmethod

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
        self.item = 4 if self.single else 8  # bytes of a number
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self.defined: dict[str, str] = {}
        self._count = 0
        self._labels = 0

    def beside(self, dtype: str, width: int, prefix: str) -> "Text":
        """Return a text of other numbers or lanes that writes into the same function."""
        text = Text(dtype, width, prefix)
        text.lines, text.declared, text.defined = self.lines, self.declared, self.defined
        return text

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

    add = partialmethod(op, "fadd")
    sub = partialmethod(op, "fsub")
    mul = partialmethod(op, "fmul")
    div = partialmethod(op, "fdiv")

    def neg(self, a: str) -> str:
        """Return -a."""
        return self.emit(f"fneg {self.vector} {a}")

    def int_op(self, name: str, a: str, b: str) -> str:
        """Return an instruction on integers: add, sub, and, or, shl, ashr, lshr."""
        return self.emit(f"{name} {self.bits} {a}, {b}")

    def intrinsic(self, name: str, *arguments: str) -> str:
        """Return an intrinsic of numbers: fma, sqrt, fabs, floor, copysign, ..."""
        suffix = ("f32" if self.single else "f64") if self.width == 1 else self._suffix("")
        function = f"llvm.{name}.{suffix}"
        types = ", ".join([self.vector] * len(arguments))
        self.declared.add(f"declare {self.vector} @{function}({types})")
        operands = ", ".join(f"{self.vector} {a}" for a in arguments)
        return self.emit(f"call {self.vector} @{function}({operands})")

    fma = partialmethod(intrinsic, "fma")  # a · b + c, rounded once

    def load(
        self,
        at: str,
        mask: str | None = None,
        otherwise: str = "zeroinitializer",
        element: str = "",
        align: int = 1,
    ) -> str:
        """Return a vector in memory; where a mask does not hold, `otherwise`.

        Args:
            element: its type, of this text's numbers unless given.
        """
        kind = self.of(element or self.scalar)
        if mask is None:
            return self.emit(f"load {kind}, ptr {at}, align {align}")
        name = f"llvm.masked.load.{self._suffix(element)}.p0"
        self.declared.add(f"declare {kind} @{name}(ptr, i32, {self.mask}, {kind})")
        operands = f"ptr {at}, i32 {align}, {self.mask} {mask}, {kind} {otherwise}"
        return self.emit(f"call {kind} @{name}({operands})")

    def store(
        self, value: str, at: str, mask: str | None = None, element: str = "", how: str = "align 1"
    ) -> None:
        """Write a vector, where the mask holds if there is one."""
        kind = self.of(element or self.scalar)
        if mask is None:
            self.do(f"store {kind} {value}, ptr {at}, {how}")
            return
        name = f"llvm.masked.store.{self._suffix(element)}.p0"
        self.declared.add(f"declare void @{name}({kind}, ptr, i32, {self.mask})")
        self.do(f"call void @{name}({kind} {value}, ptr {at}, i32 1, {self.mask} {mask})")

    def store_inside(self, value: str, at: str, mask: str) -> None:
        """Write a vector where a mask holds, which mostly is everywhere.

        AMD's processors without AVX-512 take 12 cycles and more for a store under a mask.
        """
        bits = self.emit(f"bitcast {self.mask} {mask} to i{self.width}")
        whole, name = self.emit(f"icmp eq i{self.width} {bits}, -1"), self.name("store")
        self.do(f"br i1 {whole}, label %{name}.whole, label %{name}.part")
        for part, inside in (("whole", None), ("part", mask)):
            self.label(f"{name}.{part}")
            self.store(value, at, inside)
            self.do(f"br label %{name}.end")
        self.label(f"{name}.end")

    def prefetch(self, at: str) -> None:
        """Ask for a line of memory before it is needed; behind an array's end that is harmless."""
        self.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.do(f"call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 3, i32 1)")

    def spread(self, element: str, value: str) -> str:
        """Return one value, of this type, in every lane."""
        if self.width == 1:
            return value
        kind = self.of(element)
        first_lane = self.emit(f"insertelement {kind} poison, {element} {value}, i32 0")
        zeros = f"<{self.width} x i32> zeroinitializer"
        return self.emit(f"shufflevector {kind} {first_lane}, {kind} poison, {zeros}")

    def spread_from(self, at: str, element: str = "") -> str:
        """Return the value at an address, of this text's numbers unless given, in every lane."""
        element = element or self.scalar
        return self.spread(element, self.emit(f"load {element}, ptr {at}, align 1"))

    def shuffle(self, a: str, b: str, lanes: Sequence[int], element: str = "") -> str:
        """Return the lanes that have these numbers in two vectors behind each other."""
        kind, order = self.of(element or self.scalar), ", ".join(f"i32 {lane}" for lane in lanes)
        return self.emit(f"shufflevector {kind} {a}, {kind} {b}, <{self.width} x i32> <{order}>")

    def first_lanes(self, count: str) -> str:
        """Return the mask of the first `count` lanes, a number of 64 bits."""
        numbers = ", ".join(f"i64 {i}" for i in range(self.width))
        return self.emit(f"icmp slt {self.of('i64')} <{numbers}>, {self.spread('i64', count)}")

    def _suffix(self, element: str) -> str:
        number = "f16" if element == "half" else element or ("f32" if self.single else "f64")
        return f"v{self.width}{number}"

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

    def from_whole(self, count: str) -> str:
        """Return an integer of 64 bits as a number in every lane."""
        return self.spread(self.scalar, self.emit(f"sitofp i64 {count} to {self.scalar}"))

    def lane(self, kind: str, a: str, i: int) -> str:
        """Return one element of a vector of this type."""
        return self.emit(f"extractelement {kind} {a}, i32 {i}") if self.width > 1 else a

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """Return the polynomial with these coefficients, the highest power first (Horner)."""
        total = self.number(coefficients[0])
        for c in coefficients[1:]:
            total = self.fma(total, x, self.number(c))
        return total

    # Addresses and loops

    def fields(self, kind: str, count: int, first: int = 0) -> list[str]:
        """Return values of 8 bytes from the kernel's table, from its entry `first` on."""
        places = [self.at("%table", 8 * (first + i)) for i in range(count)]
        return [self.emit(f"load {kind}, ptr {at}, align 8") for at in places]

    def arrays(self, count: int, first: int = 0) -> list[str]:
        """Return the addresses of arrays that lie where the table's entries say."""
        return [self.emit(f"load ptr, ptr {at}") for at in self.fields("ptr", count, first)]

    def at(self, base: str, offset: str | int, element: str = "i8") -> str:
        """Return an address so many bytes, or elements, further."""
        if offset == 0:
            return base
        return self.emit(f"getelementptr {element}, ptr {base}, i64 {offset}")

    def times(self, a: str, b: str | int) -> str:
        """Return a product of integers of 64 bits."""
        return a if b == 1 else self.emit(f"mul i64 {a}, {b}")

    def plus(self, a: str, b: str | int) -> str:
        """Return a sum of integers of 64 bits."""
        return a if b == 0 else self.emit(f"add i64 {a}, {b}")

    def minus(self, a: str | int, b: str) -> str:
        """Return a difference of integers of 64 bits."""
        return self.emit(f"sub i64 {a}, {b}")

    def least(self, a: str, b: str | int) -> str:
        """Return the smaller one of two integers of 64 bits."""
        return self.emit(f"select i1 {self.emit(f'icmp slt i64 {a}, {b}')}, i64 {a}, i64 {b}")

    def variable(self) -> str:
        """Return memory for a vector; in a function's first block LLVM makes it a register."""
        return self.emit(f"alloca {self.vector}, align 64")

    def name(self, what: str) -> str:
        """Return a name that nothing else has."""
        self._labels += 1
        return f"{what}.{self._labels}"

    @contextmanager
    def loop(
        self, axis: str, stop: str | int, step: str | int = 1, start: str = "0"
    ) -> Iterator[str]:
        """Write a loop around what the caller writes; give its counter."""
        name = self.name(axis)
        self.do(f"br label %{name}.enter")
        self.label(f"{name}.enter")
        self.do(f"br label %{name}.head")
        self.label(f"{name}.head")
        self.do(f"%{name} = phi i64 [ {start}, %{name}.enter ], [ %{name}.next, %{name}.latch ]")
        self.do(f"%{name}.in = icmp slt i64 %{name}, {stop}")
        self.do(f"br i1 %{name}.in, label %{name}.body, label %{name}.end")
        self.label(f"{name}.body")
        yield f"%{name}"
        self.do(f"br label %{name}.latch")
        self.label(f"{name}.latch")
        self.do(f"%{name}.next = add i64 %{name}, {step}")
        self.do(f"br label %{name}.head")
        self.label(f"{name}.end")

    def each(self, body: Callable[[str, str | None], object], stop: str, start: str = "0") -> None:
        """Write a loop over whole vectors, and what is left under a mask."""
        length = self.minus(stop, start) if start != "0" else stop
        whole = self.plus(start, self.emit(f"and i64 {length}, {-self.width}"))
        with self.loop("v", whole, self.width, start) as v:
            body(v, None)
        rest = self.minus(stop, whole)
        with self.when(self.emit(f"icmp sgt i64 {rest}, 0")):
            body(whole, self.first_lanes(rest))

    @contextmanager
    def when(self, *conditions: str) -> Iterator[None]:
        """Write what is done only where all conditions hold."""
        if not conditions:
            yield
            return
        both = functools.reduce(lambda a, b: self.emit(f"and i1 {a}, {b}"), conditions)
        name = self.name("when")
        self.do(f"br i1 {both}, label %{name}, label %{name}.end")
        self.label(name)
        yield
        self.do(f"br label %{name}.end")
        self.label(f"{name}.end")

    def module(self, head: str, more: str = "") -> str:
        """Return a module of this function, which ends here, what it calls, and `more`."""
        body = "\n".join([*self.lines, "  ret void"])
        above = "\n".join([*sorted(self.declared), *self.defined.values(), more])
        return f"{above}\n{head} {{\nentry:\n{body}\n}}\n"


# Loops stay loops: code that calls the C library's memset or memcpy cannot be kept on disk.
OWN_CODE = '"no-builtins"'
KERNEL = f"define void @kernel(i64 %lo, i64 %hi, ptr %table) {OWN_CODE}"


def literal(value: float, single: bool) -> str:
    """Return a number as LLVM writes it: the bits of a double, rounded to single if asked."""
    if single:
        value = struct.unpack("f", struct.pack("f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
