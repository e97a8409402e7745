"""What an operator costs on this machine: measured once in a process, then looked up.

A rewrite is applied when it pays, and whether it pays is not a matter of counting flops: a product
with a few columns runs at a tenth of the speed of a square one, and joining two matrices costs more
than their product saves. So passes ask a `Machine`. The one of this machine times small pieces of
work, each when somebody first asks; `use` puts another in its place, which is how tests get the
same answers everywhere.

Source: measured operator costs as in Jia et al., TASO, SOSP 2019, section 5.2.
"""

import math
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property, partial
from time import perf_counter

import numpy as np
import numpy.typing as npt

from ...arrays.library import DType
from ...compile import engine
from ...compile.kernels import Kernel
from ...compile.rows import Program, Step
from ...ops.elementwise.rows import ROWS, Binary, Unary

ELEMENTS = 2**16  # in a measurement: 256 KiB of float32, so that a level-2 cache holds it
REPEATS = 7  # of a measurement, of which the shortest counts: other work only adds to it
LARGEST_PRODUCT = 2e7  # flops of a product that is timed itself; larger ones run at one speed
RUNS = 10_000  # a training step is run so often that a compilation may be spread over them
WEIGHT = {"pow": 6.0, "sin": 2.0, "cos": 2.0}  # in a kernel, over an exponential
PLAIN = frozenset({"add", "sub", "mul", "neg", "square", "positive", "relu", "abs"})
COMMON = PLAIN | {"relu_grad"}  # quick, but in NumPy not as quick as a sum


class Machine:
    """Times in seconds for pieces of work, by measurement. Each is measured once.

    Attributes:
        smallest: the number of elements below which no kernel pays on any machine, so that nothing
            need be measured.
    """

    smallest = 1024

    @cached_property
    def call_s(self) -> float:
        """One operator of NumPy on next to nothing."""
        array = np.ones(1, np.float32)
        return _least_seconds(partial(np.add, array, array), inner=200)

    @cached_property
    def view_s(self) -> float:
        """A view: a slice, a transpose."""
        x = np.ones((4, 4), np.float32)
        return _least_seconds(partial(x.__getitem__, np.s_[:, 1:3]), inner=200)

    @cached_property
    def join_s(self) -> float:
        """Putting two arrays of next to nothing side by side."""
        x = np.ones((4, 4), np.float32)
        return _least_seconds(partial(np.concatenate, (x, x), axis=1), inner=200)

    @cached_property
    def byte_s(self) -> float:
        """Copying one byte."""
        x = np.ones(ELEMENTS, np.float32)
        return _least_seconds(x.copy, inner=10) / x.nbytes

    @cached_property
    def fresh_byte_s(self) -> float:
        """Writing one byte of a large new array, whose pages the system has to find first."""
        x = np.ones(2**20, np.float32)
        return _least_seconds(partial(np.add, x, x)) / x.nbytes

    def element_s(self, row: str) -> float:
        """One element of one row of `ops.rows`, in NumPy, float32, in blocks."""
        plain = row in PLAIN or row not in ROWS or row.startswith("bitwise")
        return self._elements("add" if plain else row)

    @property
    def kernel_call_s(self) -> float:
        """Calling a kernel on next to nothing."""
        return self._kernel("add")[1]

    def kernel_element_s(self, row: str) -> float:
        """One element of one row inside a kernel."""
        slow = row not in COMMON and self.element_s(row) > 3 * self.element_s("add")
        return self._kernel("exp" if slow else "add")[2] * WEIGHT.get(row, 1.0)

    def kernel_run_s(self, ragged: bool) -> float:
        """Beginning a row in a kernel; `ragged`: a row that does not end with a whole vector."""
        return _kernel_run_s(20 if ragged else 32)

    @cached_property
    def numpy_run_s(self) -> float:
        """Beginning a row in an operator of NumPy, where something else is there for all rows."""
        x, b = np.ones((2048, 20), np.float32), np.ones(20, np.float32)
        return _run_s(np.add, x, b)

    def matmul_s(self, m: int, k: int, n: int, dtype: DType) -> float:
        """The product of an m x k and a k x n matrix."""
        flops = 2.0 * m * k * n
        if flops <= LARGEST_PRODUCT:
            return _product_s(m, k, n, dtype.name)
        return flops * _product_s(192, 192, 192, dtype.name) / (2.0 * 192**3)

    def numpy_s(self, rows: list[str], elements: int) -> float:
        """The rows one after another, each a call."""
        return sum(self.call_s + elements * self.element_s(row) for row in rows)

    def fused_s(self, rows: list[str], elements: int) -> float:
        """The rows in one kernel."""
        return self.kernel_call_s + elements * sum(self.kernel_element_s(row) for row in rows)

    @property
    def spread_s(self) -> float:
        """The share of a kernel's compilation that counts for one run; infinite without one."""
        return self._kernel("add")[0] / RUNS

    # What `Fixed` says otherwise

    def _elements(self, row: str) -> float:
        return _row_s(row)

    def _kernel(self, row: str) -> tuple[float, float, float]:
        return _kernel_s(row)


# ── measurements, each made once ────────────────────────────────────────────────────────────────


@cache
def _product_s(m: int, k: int, n: int, dtype: str) -> float:
    a, b = np.ones((m, k), dtype), np.ones((k, n), dtype)
    return _least_seconds(partial(np.matmul, a, b), inner=1 + int(1e5 / max(m * k * n, 1)))


@cache
def _row_s(row: str) -> float:
    op = ROWS[row]
    count = 1 if isinstance(op, Unary) else 2 if isinstance(op, Binary) else 3
    x = np.linspace(0.5, 1.5, ELEMENTS, dtype=np.float32)
    inputs = [x > 1, x, x] if count == 3 else [x] * count
    with np.errstate(all="ignore"):
        return _least_seconds(partial(op.compute, np, *inputs), inner=2) / ELEMENTS


@cache
def _kernel_s(row: str) -> tuple[float, float, float]:
    """Return the seconds to compile, to call, and for an element."""
    if not engine.available():
        return math.inf, math.inf, math.inf
    Kernel(Program("float32", ("float",), (Step("neg", (0,)),)))(np.ones(1, "f"))
    first = Step(row, (0, 0) if row == "add" else (0,))
    steps = (first, Step(row, (-1, -1) if row == "add" else (-1,)))
    task = Kernel(Program("float32", ("float",), steps))
    single, x = np.ones(1, np.float32), np.full(ELEMENTS, 0.5, np.float32)
    begin = perf_counter()
    task(single)
    compiled = perf_counter() - begin
    call = _least_seconds(partial(task, single), inner=20)
    element = max(_least_seconds(partial(task, x)) - call, 0.0) / ELEMENTS / len(steps)
    return compiled, call, element


@cache
def _kernel_run_s(width: int) -> float:
    if not engine.available():
        return math.inf
    steps = (Step("add", (0, 1)),)
    task = Kernel(Program("float32", ("float", "float"), steps))
    return _run_s(task, np.ones((2048, width), np.float32), np.ones(width, np.float32))


Floats = npt.NDArray[np.float32]


def _run_s(task: Callable[[Floats, Floats], object], x: Floats, row: Floats) -> float:
    """Return what a row costs beyond its elements."""
    beyond = _least_seconds(partial(task, x, row)) - _least_seconds(partial(task, x, x))
    return max(beyond, 0.0) / len(x)


class Fixed(Machine):
    """A machine whose times are the same everywhere: for tests, and for reading a plan.

    Args:
        kernels: whether there is a compiler.
    """

    SLOW = frozenset(
        {"exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos", "pow"}
    )
    call_s, view_s, join_s, byte_s = 1e-6, 4e-7, 2e-6, 1e-10
    numpy_run_s, fresh_byte_s = 9e-9, 3e-10

    def __init__(self, kernels: bool = True) -> None:
        self.kernels = kernels

    def kernel_run_s(self, ragged: bool) -> float:
        """A row that ends within a vector takes longest."""
        return 3e-8 if ragged else 5e-9

    def _elements(self, row: str) -> float:
        return 4e-9 if row in self.SLOW else 3e-10

    def _kernel(self, row: str) -> tuple[float, float, float]:
        if not self.kernels:
            return math.inf, math.inf, math.inf
        return 2e-2, 8e-6, 5e-10 if row == "exp" else 5e-11

    def matmul_s(self, m: int, k: int, n: int, dtype: DType) -> float:
        """A product whose speed falls off with its narrowest side."""
        speed = 5e10 * math.sqrt(min(1.0, min(m, k, n) / 64))
        return 1e-6 + 2.0 * m * k * n / speed


def _least_seconds(work: Callable[[], object], inner: int = 1) -> float:
    """Return the least seconds of one run of `work`, run `inner` times at a stretch."""
    work()
    return min(timeit.repeat(work, number=inner, repeat=REPEATS)) / inner


_current: list[Machine] = [Machine()]


def machine() -> Machine:
    """Return the machine that passes ask: this one, unless `use` says otherwise."""
    return _current[-1]


@contextmanager
def use(other: Machine) -> Iterator[Machine]:
    """Let passes inside the `with` block ask another machine."""
    _current.append(other)
    try:
        yield other
    finally:
        _current.remove(other)
