"""Attention and its gradients as one kernel each: products and softmax of a few rows at a time.

Scores of some rows of queries with all keys that they see lie in the second cache. BLAS would pack
both sides of each small product, and its calls cost more than such a product; here a product's
block of sums is in registers from its first term to its last, and what needs another order, keys
and values turned, is written once for each matrix.

    void kernel(i64 lo, i64 hi, ptr table)   matrices lo to hi; the table: `SIZES`, four strides of
                                             each array in bytes, where the addresses of the arrays
                                             are, the addresses of scratch, the scale

May import: text, rows, engine, kernels, pool; row_kernels.softmax.
Source: Dao et al., FlashAttention, NeurIPS 2022, which also cuts the keys.
"""

import functools
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from . import engine, kernels, pool
from .row_kernels.softmax import power
from .rows import across, fold
from .text import KERNEL, LANES, OWN_CODE, Text

_Array = np.ndarray[Any, Any]
ROWS = 24  # of queries at a time: a multiple of what fits into registers
GRAIN = 2**15  # scores, of which a thread should have as many
LINE = 64  # bytes of a line of the caches
FORWARD = ("q", "k", "v", "out")
BACKWARD = ("q", "k", "v", "g", "dq", "dk", "dv")
SIZES = ("length", "keys", "terms", "features", "causal", "middle", "inner", "rows")
_MULTIPLY = f"""define internal void @multiply(i64 %m, i64 %n, i64 %depth, ptr %a, i64 %a_row,
  i64 %a_step, ptr %b, i64 %b_step, i64 %b_block, ptr %c, i64 %c_row, i1 %adds)
  noinline {OWN_CODE}"""


def _define_multiply(outer: Text) -> None:
    """Define a function that writes A (m, depth) by B (depth, n vectors) into C, or adds it.

    The strides are in numbers; `%b_block` is from one vector of columns of B to the next. Of the
    last block's rows some may be the last one again, with the same sums.
    """
    t = Text(outer.dtype)
    registers, bits = engine.vector_registers()
    sums = [t.variable() for _ in range(max(registers * bits * 3 // (4 * 8 * LINE), 1))]
    last = t.plus("%m", -1)
    with t.loop("j", "%n") as j, t.loop("i", "%m", len(sums)) as i:
        b = t.at("%b", t.times(j, "%b_block"), t.scalar)
        c = t.at("%c", t.times(j, t.width), t.scalar)
        numbers = [t.least(t.plus(i, r), last) for r in range(len(sums))]
        lines = [t.at("%a", t.times(number, "%a_row"), t.scalar) for number in numbers]
        targets = [t.at(c, t.times(number, "%c_row"), t.scalar) for number in numbers]
        for total in sums:
            t.store(t.number(0.0), total, how="align 64")
        with t.when("%adds"):
            for at, total in zip(targets, sums, strict=True):
                t.store(t.load(at, align=LINE), total, how="align 64")
        with t.loop("k", "%depth") as k:
            vector = t.load(t.at(b, t.times(k, "%b_step"), t.scalar), align=LINE)
            further = t.times(k, "%a_step")
            for line, total in zip(lines, sums, strict=True):
                number = t.spread_from(t.at(line, further, t.scalar))
                t.store(t.fma(number, vector, t.load(total, align=LINE)), total, how="align 64")
        for at, total in zip(targets, sums, strict=True):
            t.store(t.load(total, align=LINE), at, how="align 64")
    t.do("ret void")
    outer.declared |= t.declared
    body = "\n".join(t.lines)
    outer.defined["multiply"] = f"{_MULTIPLY} {{\nentry:\n{body}\n}}\n"


class _Panel(NamedTuple):
    """Some rows of queries: the first, how many, the keys that they see, those in whole vectors."""

    start: str
    rows: str
    seen: str
    wide: str


class _Code:
    """The code of a kernel over matrices.

    Attributes:
        sizes: the table's, by name.
        scratch: addresses of memory for one matrix, at whole lines.
        line: numbers from one row of scores to the next: an odd number of lines, so that columns
            do not fall into a few sets of the cache.
    """

    def __init__(self, dtype: str, names: Sequence[str], scratch: int) -> None:
        self.t = t = Text(dtype)
        _define_multiply(t)
        self.sizes = dict(zip(SIZES, t.fields("i64", len(SIZES)), strict=True))
        at = len(SIZES)
        self._strides = {name: t.fields("i64", 4, at + 4 * i) for i, name in enumerate(names)}
        at += 4 * len(names)
        self._bases = dict(zip(names, t.arrays(len(names), at), strict=True))
        self.scratch = t.fields("ptr", scratch, at + len(names))
        (scale,) = t.fields("double", 1, at + len(names) + scratch)
        if t.single:
            scale = t.emit(f"fptrunc double {scale} to float")
        self._scale = t.spread(t.scalar, scale)
        self._total = t.variable()
        self.is_causal = t.emit(f"icmp ne i64 {self.sizes['causal']}, 0")
        self.line = t.emit(f"or i64 {self.wide(self.sizes['keys'])}, {t.width}")
        self._places: dict[str, str] = {}

    def wide(self, n: str) -> str:
        """Return a number of columns in whole vectors."""
        return self.t.emit(f"and i64 {self.t.plus(n, self.t.width - 1)}, {-self.t.width}")

    @contextmanager
    def matrices(self) -> Iterator[None]:
        """Write a loop over the matrices, each found by three numbers of its own."""
        t = self.t
        with t.loop("matrix", "%hi", start="%lo") as matrix:
            rest = t.emit(f"udiv i64 {matrix}, {self.sizes['inner']}")
            outer, middle = (t.emit(f"{how} i64 {rest}, {self.sizes['middle']}")
                             for how in ("udiv", "urem"))  # fmt: skip
            inner = t.emit(f"urem i64 {matrix}, {self.sizes['inner']}")
            for name, strides in self._strides.items():
                steps = (
                    t.times(i, s) for i, s in zip((outer, middle, inner), strides, strict=False)
                )
                self._places[name] = t.at(self._bases[name], functools.reduce(t.plus, steps))
            yield

    @contextmanager
    def panels(self) -> Iterator[_Panel]:
        """Write a loop over the rows of queries, some at a time."""
        t, length = self.t, self.sizes["length"]
        with t.loop("panel", length, self.sizes["rows"]) as start:
            count = t.least(self.sizes["rows"], t.minus(length, start))
            seen = self._reach(t.plus(start, count))
            yield _Panel(start, count, seen, self.wide(seen))

    def _reach(self, row: str) -> str:
        """Return how many keys are seen before a row."""
        reach, keys = self.t.least(self.sizes["keys"], row), self.sizes["keys"]
        return self.t.emit(f"select i1 {self.is_causal}, i64 {reach}, i64 {keys}")

    def read(self, name: str, start: str, count: str, n: str, scratch: str) -> None:
        """Write rows of an array into scratch, where they are whole vectors, 0 at their ends."""
        t = self.t
        with self._lines(name, start, count, n, scratch) as (row, line):
            t.each(lambda v, mask: t.store(t.load(self._at(row, v), mask), self._at(line, v)), n)

    def write(self, name: str, start: str, count: str, n: str, scratch: str) -> None:
        """Write rows of scratch into an array."""
        t = self.t
        with self._lines(name, start, count, n, scratch) as (row, line):
            t.each(lambda v, mask: t.store(t.load(self._at(line, v)), self._at(row, v), mask), n)

    @contextmanager
    def _lines(
        self, name: str, start: str, count: str, n: str, scratch: str
    ) -> Iterator[tuple[str, str]]:
        t, wide = self.t, self.wide(n)
        with t.loop("r", count) as r:
            yield self._row(name, t.plus(start, r)), self._at(scratch, t.times(r, wide))

    def _row(self, name: str, row: str) -> str:
        return self.t.at(self._places[name], self.t.times(row, self._strides[name][3]))

    def _at(self, base: str, place: str) -> str:
        return self.t.at(base, place, self.t.scalar)

    def turn(self, name: str, depth: str, scratch: str) -> None:
        """Write keys or values into scratch, a vector of them at a time, feature by feature."""
        t, keys = self.t, self.sizes["keys"]
        last = t.plus(keys, -1)
        with t.loop("p", keys, t.width) as p:
            rows = [self._row(name, t.least(t.plus(p, lane), last)) for lane in range(t.width)]
            panel = self._at(scratch, t.times(p, depth))
            with t.loop("e", depth) as e:
                vector = "poison"
                for lane, row in enumerate(rows):
                    number = t.emit(f"load {t.scalar}, ptr {self._at(row, e)}, align 1")
                    vector = t.emit(
                        f"insertelement {t.vector} {vector}, {t.scalar} {number}, i32 {lane}"
                    )
                self._store(vector, panel, t.times(e, t.width))

    def clear(self, scratch: str, size: str) -> None:
        """Write zeros."""
        with self.t.loop("z", size, self.t.width) as z:
            self._store(self.t.number(0.0), scratch, z)

    def score(self, a: str, turned: str, scores: str, rows: str, wide: str, depth: str) -> None:
        """Write products of rows with keys or values that are turned, `wide` of them."""
        t = self.t
        left, right = f"i64 {self.wide(depth)}, i64 1", f"i64 {t.width}"
        right += f", i64 {t.times(depth, t.width)}"
        self._multiply(rows, wide, depth, a, left, turned, right, scores, self.line)

    def mix(self, scores: str, b: str, out: str, rows: str, seen: str, columns: str) -> None:
        """Write rows of scores times the rows of B."""
        left, right = f"i64 {self.line}, i64 1", f"i64 {columns}, i64 {self.t.width}"
        self._multiply(rows, columns, seen, scores, left, b, right, out, columns)

    def add_mixed(
        self, scores: str, b: str, total: str, rows: str, seen: str, columns: str
    ) -> None:
        """Add columns of scores times the rows of B."""
        left, right = f"i64 1, i64 {self.line}", f"i64 {columns}, i64 {self.t.width}"
        self._multiply(seen, columns, rows, scores, left, b, right, total, columns, "true")

    def _multiply(
        self, m: str, n: str, depth: str, a: str, left: str, b: str, right: str, c: str,
        c_row: str, adds: str = "false",
    ) -> None:  # fmt: skip
        blocks = self.t.emit(f"udiv i64 {n}, {self.t.width}")
        self.t.do(
            f"call void @multiply(i64 {m}, i64 {blocks}, i64 {depth}, ptr {a}, {left}, "
            f"ptr {b}, {right}, ptr {c}, i64 {c_row}, i1 {adds})"
        )

    @contextmanager
    def rows(self, panel: _Panel) -> Iterator[tuple[str, str]]:
        """Write a loop over a panel's rows: where one is in scores, and how many keys it sees."""
        t = self.t
        with t.loop("r", panel.rows) as r:
            yield t.times(r, self.line), self._reach(t.plus(t.plus(panel.start, r), 1))

    def softmax(self, line: str, stop: str, wide: str) -> None:
        """Write the softmax of scale times a row's first numbers over it, 0 behind them."""
        t = self.t
        whole, inside = self._last_vector(stop)

        def scaled(v: str) -> str:
            return t.mul(self._load(line, v), self._scale)

        none = t.number(-float("inf"))
        most = self._fold("greatest", t.either(inside, scaled(whole), none), whole, scaled)

        def store_power(v: str) -> str:
            value = power(t, t.sub(scaled(v), most))
            self._store(value, line, v)
            return value

        last = t.either(inside, power(t, t.sub(scaled(whole), most)), t.number(0.0))
        part = t.div(t.number(1.0), self._fold("sum", last, whole, store_power))
        with t.loop("v", whole, t.width) as v:
            self._store(t.mul(self._load(line, v), part), line, v)
        self._store_end(t.mul(last, part), line, whole, wide)

    def softmax_gradient(self, g: str, y: str, stop: str, wide: str) -> None:
        """Write scale · y (g - Σ g y) over a row's first numbers of g, 0 behind them."""
        t = self.t
        whole, inside = self._last_vector(stop)

        def product(v: str) -> str:
            return t.mul(self._load(g, v), self._load(y, v))

        last = t.either(inside, product(whole), t.number(0.0))
        along = self._fold("sum", last, whole, product)

        def share(v: str) -> str:
            return t.mul(t.mul(self._load(y, v), self._scale), t.sub(self._load(g, v), along))

        with t.loop("v", whole, t.width) as v:
            self._store(share(v), g, v)
        self._store_end(t.either(inside, share(whole), t.number(0.0)), g, whole, wide)

    def _load(self, line: str, place: str) -> str:
        return self.t.load(self._at(line, place), align=LINE)

    def _store(self, value: str, line: str, place: str) -> None:
        self.t.store(value, self._at(line, place), how=f"align {LINE}")

    def _last_vector(self, stop: str) -> tuple[str, str]:
        """Return where the last vector of a row's first numbers begins, and which lanes it has."""
        whole = self.t.emit(f"and i64 {self.t.plus(stop, -1)}, {-self.t.width}")
        return whole, self.t.first_lanes(self.t.minus(stop, whole))

    def _store_end(self, last: str, line: str, whole: str, wide: str) -> None:
        """Write the last vector of a row's first numbers, and 0 behind it."""
        self._store(last, line, whole)
        with self.t.loop("v", wide, self.t.width, self.t.plus(whole, self.t.width)) as v:
            self._store(self.t.number(0.0), line, v)

    def _fold(self, how: str, first: str, stop: str, value_at: Callable[[str], str]) -> str:
        """Return what the values of whole vectors, and of `first`, add up to, in every lane."""
        t = self.t
        t.store(first, self._total)
        with t.loop("v", stop, t.width) as v:
            t.store(fold(t, how, t.load(self._total), value_at(v)), self._total)
        return t.spread(t.scalar, across(t, how, t.load(self._total)))


def _forward(dtype: str) -> str:
    """Return the kernel of q, k, v, out."""
    code = _Code(dtype, FORWARD, 5)
    keys_turned, values, q, scores, out = code.scratch
    keys, terms, features = (code.sizes[name] for name in ("keys", "terms", "features"))
    with code.matrices():
        code.turn("k", terms, keys_turned)
        code.read("v", "0", keys, features, values)
        with code.panels() as panel:
            code.read("q", panel.start, panel.rows, terms, q)
            code.score(q, keys_turned, scores, panel.rows, panel.wide, terms)
            with code.rows(panel) as (row, stop):
                code.softmax(code.t.at(scores, row, code.t.scalar), stop, panel.wide)
            code.mix(scores, values, out, panel.rows, panel.seen, code.wide(features))
            code.write("out", panel.start, panel.rows, features, out)
    return code.t.module(KERNEL)


def _backward(dtype: str) -> str:
    """Return the kernel of q, k, v, g, dq, dk, dv; see `attention_panels.gradients`."""
    code = _Code(dtype, BACKWARD, 10)
    t = code.t
    keys_turned, values_turned, by_keys, q, g, scores, d_scores, dq, dk, dv = code.scratch
    keys, terms, features = (code.sizes[name] for name in ("keys", "terms", "features"))
    wide_terms, wide_features = code.wide(terms), code.wide(features)
    with code.matrices():
        code.turn("k", terms, keys_turned)
        code.turn("v", features, values_turned)
        code.read("k", "0", keys, terms, by_keys)
        code.clear(dk, t.times(keys, wide_terms))
        code.clear(dv, t.times(keys, wide_features))
        with code.panels() as panel:
            start, rows, seen, wide = panel
            code.read("q", start, rows, terms, q)
            code.read("g", start, rows, features, g)
            code.score(q, keys_turned, scores, rows, wide, terms)
            code.score(g, values_turned, d_scores, rows, wide, features)
            with code.rows(panel) as (row, stop):
                weights, d_weights = (t.at(x, row, t.scalar) for x in (scores, d_scores))
                code.softmax(weights, stop, wide)
                code.softmax_gradient(d_weights, weights, stop, wide)
            code.add_mixed(scores, g, dv, rows, seen, wide_features)
            code.add_mixed(d_scores, q, dk, rows, seen, wide_terms)
            code.mix(d_scores, by_keys, dq, rows, seen, wide_terms)
            code.write("dq", start, rows, terms, dq)
        code.write("dk", "0", keys, terms, dk)
        code.write("dv", "0", keys, features, dv)
    return code.t.module(KERNEL)


@functools.cache
def _function(dtype: str, is_forward: bool) -> engine.Function:
    return engine.Function((_forward if is_forward else _backward)(dtype))


def run(arrays: Sequence[_Array], scale: float, causal: bool) -> None:
    """Attend, or write the gradients: the last arrays of `FORWARD` or `BACKWARD`.

    Args:
        arrays: (..., L, E or V) and (..., S, E or V) with the same one to three leading axes or
            none; the numbers of a row side by side.
    """
    q, v = arrays[0], arrays[2]
    item, dtype = q.itemsize, "float32" if q.itemsize == 4 else "float64"  # its name takes longer
    width = LANES[dtype]
    *lead, length, terms = q.shape
    keys, features = v.shape[-2:]
    outer, middle, inner = (1, 1, 1, *lead)[-3:]
    rows = min(ROWS, length)
    wide_terms, wide_features, wide = (-(-n // width) * width for n in (terms, features, keys))
    counts: tuple[int, ...]
    panels = (rows * wide_terms, rows * wide_features, rows * (wide | width))
    if len(arrays) == len(FORWARD):
        counts = (wide * terms, keys * wide_features, panels[0], panels[2], panels[1])
    else:
        totals = (panels[0], keys * wide_terms, keys * wide_features)
        counts = (wide * terms, wide * features, keys * wide_terms, *panels, panels[2], *totals)
    starts = [0]
    for count in counts:
        starts.append(starts[-1] + -(-count * item // LINE) * LINE)
    strides = [n for a in arrays for n in (0, 0, 0, *a.strides[:-1])[-4:]]
    sizes = (length, keys, terms, features, causal, middle, inner, rows)
    head = (*sizes, *strides, *kernels.places_of(arrays))
    function = _function(dtype, len(arrays) == len(FORWARD))

    def work(lo: int, hi: int) -> None:
        memory = np.empty(starts[-1] + LINE, np.uint8)
        first = -(-memory.ctypes.data // LINE) * LINE
        places = [first + start for start in starts[:-1]]
        function.call(lo, hi, struct.pack(f"{len(head) + len(places)}qd", *head, *places, scale))

    pool.parallel_for(outer * middle * inner, -(-GRAIN // (length * keys)), work)
