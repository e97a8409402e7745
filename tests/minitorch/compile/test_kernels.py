"""Kernels against NumPy: every row, every layout, reductions, threads, and what they refuse."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import minitorch
from minitorch import compile as code
from minitorch.compile import Program, Step, kernel, kernels, loops
from minitorch.compile.kernels import Nest, in_rows, merge_axes
from minitorch.compile.loops import Layout
from minitorch.compile.rows import arity
from minitorch.errors import ArgumentError, CompileError, DTypeError, ShapeError
from minitorch.ops.elementwise.rows import ROWS

AWKWARD = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.5, np.inf, -np.inf, np.nan, 1e-40, 3e38, 17.0]


def program(row: str, dtype: str = "float32") -> Program:
    places = range(arity(row))
    return Program(dtype, tuple(code.takes(row, i) for i in places), (Step(row, tuple(places)),))


COMPARED = sorted(set(code.ROWS) & set(ROWS))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("row", COMPARED)
def test_a_row_agrees_with_numpy_on_awkward_numbers(row: str, dtype: str) -> None:
    task = program(row, dtype)
    a, b = (np.array(g.reshape(-1)) for g in np.meshgrid(AWKWARD, AWKWARD))
    pool = [a.astype(dtype), b.astype(dtype)]
    if row == "where":
        inputs = [a > 0, *pool]
    else:
        inputs = [
            x > 0 if kind == "bool" else x for x, kind in zip(pool, task.inputs, strict=False)
        ]
    with np.errstate(all="ignore"):
        want = ROWS[row].compute(np, *inputs)
        got = kernel(task)(*inputs)
    assert got.dtype == want.dtype
    rtol = 1e-6 if dtype == "float32" else 1e-14
    if row in {"gelu", "gelu_grad"}:  # on the left 1 + erf(x) cancels
        np.testing.assert_allclose(got, want, rtol=10 * rtol, atol=rtol)
    else:
        np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-38)


def fused(dtype: str = "float64") -> Program:
    """relu(x·w + b)·s + tanh(y)"""
    steps = (
        Step("mul", (0, 1)), Step("add", (-1, 2)), Step("relu", (-2,)), Step("mul", (-3, 3)),
        Step("tanh", (4,)), Step("add", (-4, -5)),
    )  # fmt: skip
    return Program(dtype, ("float",) * 5, steps)


def expected(x: Any, w: Any, b: Any, s: Any, y: Any) -> Any:
    return np.maximum(x * w + b, 0) * s + np.tanh(y)


SHAPES = [
    [(7, 33)] * 5,
    [(7, 33), (33,), (33,), (), (7, 1)],
    [(7, 33), (7, 1), (1, 33), (1,), (7, 33)],
    [(2, 3, 4, 5), (3, 1, 5), (4, 1), (2, 1, 1, 1), ()],
    [()] * 5,
    [(1,)] * 5,
    [(0, 4), (4,), (), (1, 1), (0, 1)],
    [(15,)] * 5,
    [(16,)] * 5,
    [(17,)] * 5,
    [(3, 1)] * 5,
]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_operands_broadcast_as_in_numpy(shapes: Any) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=shape) for shape in shapes]
    got = kernel(fused())(*inputs)
    want = expected(*inputs)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-13)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.T,
        lambda a: a[::-1, ::2],
        lambda a: a[:, 3:20:5],
        lambda a: np.broadcast_to(a[:1], a.shape),
        lambda a: np.asfortranarray(a),
        lambda a: np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(a.shape),
    ],
)
def test_operands_may_lie_in_any_way(view: Any) -> None:
    rng = np.random.default_rng(1)
    x = view(rng.normal(size=(20, 20)))
    others = [rng.normal(size=x.shape) for _ in range(3)]
    inputs = [x, *others, x]
    np.testing.assert_allclose(kernel(fused())(*inputs), expected(*inputs), rtol=1e-13)


def test_a_result_may_take_the_place_of_an_input() -> None:
    rng = np.random.default_rng(2)
    inputs = [rng.normal(size=(9, 37)) for _ in range(5)]
    want = expected(*inputs)
    got = kernel(fused())(*inputs, out=inputs[0])
    assert got is inputs[0]
    np.testing.assert_allclose(got, want, rtol=1e-13)


@pytest.fixture
def two_threads() -> Iterator[None]:
    code.set_num_threads(2)
    yield
    code.set_num_threads(1)


@pytest.mark.parametrize("shape", [(300_001,), (701, 499)])
def test_threads_share_the_work_and_change_no_bit(two_threads: None, shape: Any) -> None:
    rng = np.random.default_rng(3)
    inputs = [rng.normal(size=s) for s in (shape, shape[-1:], (), shape, shape)]
    shared = kernel(fused())(*inputs)
    code.set_num_threads(1)
    np.testing.assert_array_equal(shared, kernel(fused())(*inputs))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "past"),
    [((600_011,), True), ((1024, 640), True), ((1100, 557), False), ((30, 20), False)],
)
def test_a_large_new_result_is_the_one_in_given_memory(shape: Any, past: bool, dtype: str) -> None:
    rng = np.random.default_rng(6)
    shapes = (shape, shape[-1:], (), shape, (*shape[:-1], 1))
    inputs = [rng.normal(size=s).astype(dtype) for s in shapes]
    task = kernels.Kernel(fused(dtype))
    new, given = task(*inputs), task(*inputs, out=np.empty(shape, dtype))
    np.testing.assert_array_equal(new, given)
    assert [layout.past_caches for layout in task.layouts()] == ([True, False] if past else [False])


def test_results_past_the_caches_are_seen_by_all_threads(two_threads: None) -> None:
    x = np.arange(2_000_003, dtype=np.float32)
    task = Program("float32", ("float",), (Step("neg", (0,)), Step("positive", (-1,))))
    for _ in range(5):
        np.testing.assert_array_equal(kernel(task)(x), -x)


REDUCE = {"sum": np.sum, "amax": np.max, "amin": np.min}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reduction", REDUCE)
@pytest.mark.parametrize(
    ("shape", "axes"), [((5, 37), 1), ((5, 37), 2), ((3, 4, 40), 2), ((6, 16), 1), ((2, 3, 1), 1)]
)
def test_a_reduction_folds_the_last_axes(reduction: str, dtype: str, shape: Any, axes: int) -> None:
    x = np.random.default_rng(4).normal(size=shape).astype(dtype)
    y = np.random.default_rng(5).normal(size=shape[-1:]).astype(dtype)
    task = Program(dtype, ("float", "float"), (Step("mul", (0, 1)),), reduction)
    over = tuple(range(len(shape) - axes, len(shape)))
    if axes == 1:
        got, want = kernel(task)(x, y, axes=axes), REDUCE[reduction](x * y, axis=over)
    else:
        got, want = kernel(task)(x, x, axes=axes), REDUCE[reduction](x * x, axis=over)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-6 if dtype == "float32" else 1e-13, atol=1e-6)


@pytest.mark.parametrize("reduction", ["sum", "amax", "amin"])
def test_a_reduction_lets_nan_win(reduction: str) -> None:
    x = np.zeros((3, 40), np.float32)
    x[1, 39], x[2, 0] = np.nan, np.inf
    task = Program("float32", ("float",), (Step("neg", (0,)),), reduction)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(kernel(task)(x, axes=1), REDUCE[reduction](-x, axis=1))


def test_a_long_sum_of_singles_is_as_exact_as_a_double_allows() -> None:
    x = np.full(1_000_003, 0.1, np.float32)
    task = Program("float32", ("float",), (Step("positive", (0,)),), "sum")
    assert kernel(task)(x) == np.float32(x.astype(np.float64).sum())


def test_equal_programs_share_a_kernel_and_sizes_share_its_code() -> None:
    assert kernel(fused()) is kernel(fused())
    task = Program("float64", ("float",), (Step("neg", (0,)), Step("neg", (-1,))))
    for size in (5, 17, 1000):
        kernel(task)(np.ones(size))
    assert kernel(task).layouts() == [Layout("cc", 0)]
    kernel(task)(np.ones((4, 40))[:, ::2])
    assert len(kernel(task).layouts()) == 2


def test_what_does_not_fit_is_refused_by_name() -> None:
    task = kernel(program("add"))
    x = np.ones(3, np.float32)
    with pytest.raises(DTypeError, match="input 1 has another dtype: got float64"):
        task(x, np.ones(3))
    with pytest.raises(ShapeError, match="got 1 arrays, expected 2"):
        task(x)
    with pytest.raises(ShapeError, match=r"\(3,\).*\(4,\)"):
        task(x, np.ones(4, np.float32))
    with pytest.raises(ShapeError, match="out does not fit"):
        task(x, x, out=np.ones((2, 3), np.float32)[0, ::1][None])
    with pytest.raises(ArgumentError, match=r"step 0 \(add\) has operands \(0, 3\)"):
        Program("float32", ("float",), (Step("add", (0, 3)),))
    with pytest.raises(ArgumentError, match="float16"):
        Program("float16", ("float",), (Step("neg", (0,)),))
    for step, complaint in (
        (Step("magic", (0,)), "step 0 is 'magic', expected one of abs, add"),
        (Step("add", (0,)), r"kind \['float'\], expected \['float', 'float'\]"),
        (Step("logical_and", (0, 0)), r"expected \['bool', 'bool'\]"),
    ):
        with pytest.raises(ArgumentError, match=complaint):
            kernel(Program("float32", ("float",), (step,)))
    with pytest.raises(ArgumentError, match="set_num_threads: got 0"):
        code.set_num_threads(0)
    with pytest.raises(CompileError, match="not LLVM IR"):
        code.Function("define void @kernel( {")


def test_an_array_s_address_is_read_right() -> None:
    x = np.arange(20.0).reshape(4, 5)
    task = kernel(program("neg", "float64"))
    for view in (x, x[1:, ::2], x.T, x[::-1], np.float64(3.0), np.zeros((0, 2)), 2.0):
        np.testing.assert_array_equal(task(view), -np.asarray(view))


def test_arrays_that_change_place_dtype_or_shape_between_calls_are_not_mixed_up() -> None:
    task = kernel(program("add", "float64"))
    for shape in ((3,), (4,), (3,), (2, 3)):
        a = np.arange(float(np.prod(shape))).reshape(shape)
        np.testing.assert_array_equal(task(a, a[..., ::-1]), a + a[..., ::-1])
        with pytest.raises(DTypeError, match="input 1 has another dtype: got int64"):
            task(a, a.astype(np.int64))
    total = kernel(Program("float64", ("float",), (Step("neg", (0,)),), "sum"))
    x = np.ones((4, 40))
    for axes, shape in ((1, (4,)), (2, ()), (1, (4,)), (None, ())):
        assert total(x, axes=axes).shape == shape


def test_neighbouring_axes_become_one_where_all_operands_agree() -> None:
    shape = (4, 5, 6)
    whole, row = in_rows(shape, 8), (0, 0, 8)
    assert merge_axes(Nest(shape, (whole, whole))) == Nest((120,), ((8,), (8,)))
    assert merge_axes(Nest(shape, (whole, row))) == Nest((20, 6), ((48, 8), (0, 8)))
    assert merge_axes(Nest((1, 1), ((8, 8),))) == Nest((1,), ((0,),))


def test_behind_the_end_of_a_row_is_zero_and_not_what_lies_there() -> None:
    """With denormals there a processor computes a hundred times slower."""
    steps = (Step("where", (0, 1, 2)),)
    text = loops.kernel(Program("float32", ("bool", "float", "float"), steps), Layout("cccc", 1))
    loads = re.findall(r"call <16 x (\w+)> @llvm\.masked\.load.*zeroinitializer\)", text)
    assert loads == ["i8", "float", "float"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 3, 8, 15, 16, 17, 31, 33])
def test_the_end_of_a_row_touches_nothing_behind_it(n: int, dtype: str) -> None:
    """Neither the next row nor what lies behind the last one, read or written."""
    task = Program(dtype, ("float", "float"), (Step("add", (0, 1)),))
    wide = np.full((5, n + 40), np.nan, dtype)
    x, y = wide[:, :n], np.arange(n).astype(dtype)
    x[:] = np.arange(5 * n).reshape(5, n)
    out = np.full((7, n), -1.0, dtype)
    kernel(task)(x, y, out=out[1:6])
    np.testing.assert_array_equal(out[1:6], x + y)
    np.testing.assert_array_equal(out[[0, 6]], -1.0)


def test_the_loop_is_made_of_vectors() -> None:
    from minitorch.compile.loops import kernel as text

    ir = text(fused("float32"), Layout("cccccc", 0))
    assert "<16 x float>" in ir
    assert "fmuladd" not in ir  # sums and products of the program are never contracted


def random_program(rng: np.random.Generator, dtype: str) -> Program:
    """A program of a dozen steps over three numbers and a mask, its last result a number."""
    large = {"sin", "cos"}  # of large numbers they tell the last bit of what came before
    zeros = {"zeros_like", "ones_like", "relu_grad"}  # the last gives zeros of either sign
    rows = sorted(set(COMPARED) - large - zeros)
    inputs = ("float", "float", "float", "bool")
    kinds, steps = list(inputs), []
    for _ in range(12):
        row = rows[int(rng.integers(len(rows)))]
        count = len(program(row).inputs)
        operands = []
        for place in range(count):
            fits = [i for i, kind in enumerate(kinds) if kind == code.takes(row, place)]
            pick = int(rng.choice(fits))
            operands.append(pick if pick < 4 else 3 - pick)
        steps.append(Step(row, tuple(operands)))
        kinds.append(code.gives(row))
    last = next(i for i in reversed(range(12)) if code.gives(steps[i].row) == "float")
    return Program(dtype, inputs, (*steps, Step("positive", (-1 - last,))))


def by_numpy(task: Program, inputs: list[Any]) -> Any:
    found: list[Any] = []
    for step in task.steps:
        operands = [inputs[i] if i >= 0 else found[-1 - i] for i in step.operands]
        found.append(ROWS[step.row].compute(np, *operands))
    return found[-1]


@pytest.mark.parametrize("seed", range(30))
def test_a_random_program_over_random_layouts_is_numpys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    task = random_program(rng, "float64")
    full = tuple(int(n) for n in [*rng.integers(1, 9, size=3), rng.integers(1, 70)])
    full = full[int(rng.integers(0, 4)) :]
    inputs: list[Any] = []
    for kind in task.inputs:
        keep = int(rng.integers(0, len(full) + 1))
        shape = tuple(n if rng.random() < 0.7 else 1 for n in full[len(full) - keep :])
        array = (
            rng.normal(size=(*shape, 2))[..., 0] if rng.random() < 0.5 else rng.normal(size=shape)
        )
        inputs.append(array > 0 if kind == "bool" else array)
    with np.errstate(all="ignore"):
        got, want = kernel(task)(*inputs), by_numpy(task, inputs)
    want = np.broadcast_to(want, got.shape)  # a result that ignores an input is smaller
    np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [7, 2**14 + 5])  # by NumPy, and by a kernel
def test_gelu_and_its_derivatives_are_those_of_torch(dtype: str, count: int) -> None:
    x = np.random.default_rng(0).normal(size=count).astype(dtype) * 4
    found = []
    for lib in (minitorch, torch):
        a = lib.tensor(x, requires_grad=True)
        y = lib.nn.functional.gelu(a)
        (first,) = lib.autograd.grad((y * y).sum(), [a], create_graph=True)
        (second,) = lib.autograd.grad((first * first).sum(), [a])
        found.append([np.asarray(v.detach()) for v in (y, first, second)])
    tolerance = 3e-6 if dtype == "float32" else 1e-12
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, tolerance, tolerance)
