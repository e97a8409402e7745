"""Products and convolutions by schedules, against NumPy and PyTorch."""

import os
import threading
from typing import Any

import numpy as np
import pytest
import torch

from minitorch import compile as code
from minitorch.compile import Schedule, conv2d, matmul, products, space

BLOCKED = {
    "rows": 4, "vectors": 2, "lanes": 8, "unroll": 2, "tile_m": 8, "tile_n": 32, "tile_k": 10,
    "order": "nkm", "pack_a": True, "pack_b": True,
}  # fmt: skip
SHAPES = ((1, 1, 1), (17, 37, 23), (13, 32, 20), (1, 19, 3), (31, 7, 1))
CLOSE = {"float32": 1e-5, "float64": 1e-13}


def fitted(task: tuple[Any, ...], point: dict[str, Any]) -> dict[str, Any]:
    """Return the point with what does not fit a small task made smaller."""
    m, n, k = Schedule(task).task.axes
    rows, unroll = min(point.get("rows", 1), m), min(point.get("unroll", 1), k)
    vectors = min(point.get("vectors", 1), -(-n // point.get("lanes", 1)))
    return point | {"rows": rows, "unroll": unroll, "vectors": vectors}


def variants(rng: np.random.Generator) -> list[dict[str, Any] | None]:
    """Return the naive schedule, some blocked ones, and some drawn from the whole space."""
    blocked = [
        BLOCKED | {"order": order, "pack_a": a, "pack_b": b}
        for order, a, b in (("nkm", True, True), ("mnk", False, True), ("kmn", True, False))
    ]
    return [None, *blocked, *rng.permutation(space(("matmul", 64, 64, 300)).points())[:2]]


@pytest.mark.parametrize(
    "shape, dtype",
    [
        pytest.param(shape, dtype, marks=pytest.mark.wide if dtype == "float64" and i != 1 else ())
        for i, shape in enumerate(SHAPES)
        for dtype in CLOSE
    ],
)
def test_a_product_is_numpys_under_any_schedule_and_writes_nothing_outside(
    shape: tuple[int, int, int], dtype: str
) -> None:
    rng = np.random.default_rng(sum(shape))
    m, n, k = shape
    epilogues = (None, "bias", "relu", "bias_relu", None, "bias")
    for point, epilogue in zip(variants(rng), epilogues, strict=True):
        chosen = None if point is None else fitted(("matmul", m, n, k), point)
        kernel = matmul(m, n, k, dtype, chosen, epilogue)
        a, bias = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=n).astype(dtype)
        b = rng.normal(size=(n, 2 * k)).astype(dtype)[::-1, ::2].T  # negative and wide strides
        around = np.full(m * n + 64, 7.0, dtype)
        out = around[32:-32].reshape(m, n)
        more = (bias,) if "bias" in (epilogue or "") else ()
        assert kernel(a, b, *more, out=out) is out
        right = a @ b + (bias if more else 0)
        right = np.maximum(right, 0) if "relu" in (epilogue or "") else right
        np.testing.assert_allclose(out, right, CLOSE[dtype], 30 * CLOSE[dtype], err_msg=str(kernel))
        assert (around[:32] == 7).all() and (around[-32:] == 7).all()


@pytest.mark.parametrize("stride, padding", [(1, 0), (1, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("direct", [True, False])
def test_a_convolution_is_torchs_direct_and_by_im2col(
    stride: int, padding: int, direct: bool
) -> None:
    rng = np.random.default_rng(stride)
    sizes = (
        (2, 3, 9, 11, 5, 3, 3),
        (1, 1, 4, 8, 3, 1, 2),
        (2, 2, 5, 5, 1, 4, 3),
        (9, 2, 6, 5, 3, 3, 2),
    )
    for size in sizes if os.environ.get("WIDE") else sizes[(stride + padding + direct) % 2 :: 2]:
        n, c, h, w, o, kh, kw = size
        x = rng.normal(size=(n, h, w, c)).astype("float32").transpose(0, 3, 1, 2)
        weight, bias = rng.normal(size=(o, c, kh, kw)), rng.normal(size=o)
        weight, bias = weight.astype("float32"), bias.astype("float32")
        right = torch.nn.functional.conv2d(
            torch.tensor(x), torch.tensor(weight), torch.tensor(bias), stride, padding
        )
        task = ("conv2d", *size, stride, padding)
        point = fitted(task, BLOCKED | {"rows": 2, "lanes": 4, "pack_b": not direct})
        for chosen in (None, point, point | {"lanes": 16, "vectors": 1, "tile_k": None}):
            kernel = conv2d(*size, stride, padding, schedule=chosen, epilogue="bias_relu")
            around = np.full(right.numel() + 64, 7.0, "float32")
            out = around[32:-32].reshape(right.shape)
            kernel(x, weight, bias, out=out)
            np.testing.assert_allclose(out, right.relu(), 1e-4, 1e-5, err_msg=str(kernel))
            assert (around[:32] == 7).all() and (around[-32:] == 7).all()
            np.testing.assert_array_equal(kernel(x, weight, bias), out)
            last = np.ascontiguousarray(np.moveaxis(x, 0, -1))
            np.testing.assert_array_equal(kernel(np.moveaxis(last, -1, 0), weight, bias), out)


def test_batches_threads_and_results_that_are_inputs() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(5, 1, 40, 40)), rng.normal(size=(3, 40, 40))
    kernel = matmul(40, 40, 40, "float64", BLOCKED | {"parallel": 2})
    np.testing.assert_allclose(kernel(a, b), a @ b, 1e-12, 1e-13)
    square = a[0, 0].copy()
    np.testing.assert_allclose(kernel(square, square, out=square), a[0, 0] @ a[0, 0], 1e-12, 1e-13)
    found: list[Any] = [None] * 4

    def work(i: int) -> None:
        for _ in range(20):
            found[i] = kernel(a[i, 0], b[0])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [thread.start() for thread in threads]  # type: ignore[func-returns-value]
    [thread.join() for thread in threads]  # type: ignore[func-returns-value]
    np.testing.assert_allclose(np.stack(found), a[:4, 0] @ b[0], 1e-12, 1e-13)


def test_nan_and_infinity_go_through_the_epilogue_as_numpys_do() -> None:
    a = np.array([[np.nan, 1], [np.inf, 1], [-np.inf, 1]], np.float32)
    got = matmul(3, 2, 2, schedule={"lanes": 4}, epilogue="relu")(a, np.ones((2, 2), np.float32))
    np.testing.assert_array_equal(got, np.maximum(a.sum(1, keepdims=True).repeat(2, 1), 0))


def test_without_llvmlite_numpy_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    x, w = rng.normal(size=(2, 3, 6, 7)), rng.normal(size=(4, 3, 3, 2))
    bias = rng.normal(size=4)
    compiled = conv2d(2, 3, 6, 7, 4, 3, 2, 2, 1, "float64", epilogue="bias_relu")(x, w, bias)
    monkeypatch.setattr(products.engine, "available", lambda: False)
    plain = conv2d(2, 3, 6, 7, 4, 3, 2, 2, 1, "float64", epilogue="bias_relu")(x, w, bias)
    np.testing.assert_allclose(compiled, plain, 1e-11, 1e-12)
    many = rng.normal(size=(9, 3, 6, 7))
    last = conv2d(9, 3, 6, 7, 4, 3, 2, 2, 1, "float64")(many, w)
    monkeypatch.undo()
    np.testing.assert_allclose(conv2d(9, 3, 6, 7, 4, 3, 2, 2, 1, "float64")(many, w), last, 1e-11)
    monkeypatch.setattr(products.engine, "available", lambda: False)
    a, b = rng.normal(size=(3, 4)), rng.normal(size=(4, 5))
    np.testing.assert_allclose(matmul(3, 5, 4, "float64", {"lanes": 4})(a, b), a @ b)


@pytest.mark.parametrize(
    "point, words",
    [
        ({"rows": 0}, "rows is 0"),
        ({"colour": 1}, "no knob 'colour'"),
        ({"order": "nmn"}, "order is 'nmn'"),
        ({"lanes": 3}, "lanes is 3"),
        ({"rows": 9}, "rows is 9, but the result has only 8 rows"),
        ({"vectors": 3, "lanes": 4}, "vectors is 3: the last has nothing to do in 8 columns"),
        ({"tile_m": 2, "rows": 4}, "tile_m is 2, less than the register block"),
        ({"tile_k": 2, "unroll": 4}, "unroll is 4, but the innermost loop has only 2 rounds"),
        ({"pack_a": 1}, "pack_a is 1"),
        ({"order": "kmn", "parallel": 2}, "order has k outermost"),
    ],
)
def test_an_illegal_schedule_says_which_knob_and_why(point: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        matmul(8, 8, 8, schedule=point)
    assert not space(("matmul", 8, 8, 8)).legal(point)


def test_points_are_mappings_and_their_numbers_may_be_numpys() -> None:
    legal = space(("matmul", 8, 8, 8)).legal
    point = {"rows": np.int64(4), "pack_a": np.True_, "lanes": np.int32(8)}
    assert legal(point) and legal({}) and Schedule(("matmul", 8, 8, 8), point)["rows"] == 4
    for bad in (None, 3, [1], {"lanes": np.array([1, 2])}, {"rows": 1.0}, {"order": ["n"]}):
        assert not legal(bad)  # type: ignore[arg-type]


def test_arrays_that_do_not_fit_are_refused() -> None:
    kernel = matmul(2, 3, 4, epilogue="bias")
    a, b, bias = (np.zeros(s, np.float32) for s in ((2, 4), (4, 3), (3,)))
    for bad in ((b, a, bias), (a, b, a), (a[None], np.zeros((2, 4, 3), np.float32)[:0], bias[:2])):
        with pytest.raises(ValueError, match="matmul: "):
            kernel(*bad)
    with pytest.raises(ValueError, match="the bias"):
        kernel(a, b)
    with pytest.raises(TypeError, match="got float64"):
        kernel(a.astype(float), b, bias)
    with pytest.raises(ValueError, match="out does not fit"):
        kernel(a, b, bias, out=np.zeros((3, 2), np.float32).T)
    for wrong in ((0, 1, 1), (1, 1, 2.5), (1, 1, True)):
        with pytest.raises(ValueError, match="matmul"):
            matmul(*wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="larger than the padded image"):
        conv2d(1, 1, 2, 2, 1, 3, 3)
    with pytest.raises(ValueError, match="epilogue is 'tanh'"):
        matmul(1, 1, 1, epilogue="tanh")


def test_a_schedule_prints_as_its_loop_nest() -> None:
    s = Schedule(("matmul", 512, 512, 512), BLOCKED | {"rows": 16, "vectors": 4, "tile_m": 64})
    lines = str(s).splitlines()
    assert [line.strip() for line in lines[:3]] == [
        "# matmul 512 512 512",
        "for n0 in range(0, 512, 32):",
        "for k0 in range(0, 512, 10):",
    ]
    assert "pack B: 1,280 bytes" in lines[3] and lines[4].lstrip().startswith("for m0")
    assert any("for k in range(0, 10, 2):" in line for line in lines)
    assert dict(s) == dict(Schedule(s.task, s)) and s == dict(s)
    assert any("live vectors" in note for note in s.notes())  # legal, and told
    naive = str(Schedule(("matmul", 3, 4, 5)))
    assert naive.count("for ") == 3 and "pack" not in naive


def test_names_of_tasks() -> None:
    assert Schedule(("conv2d", 1, 2, 8, 8, 4, 3, 3)).task.key == (
        *("conv2d", 1, 2, 8, 8, 4, 3, 3), 1, 0,
    )  # fmt: skip
    assert code.matmul(2, 3, 4, np.float64).task.key == ("matmul", 2, 3, 4, "float64")
    for bad in ((), ("add", 1), "matmul", None, ("matmul", 1, 2), ("matmul", 1, 2, 3, "int8")):
        with pytest.raises(ValueError, match="task"):
            space(bad)  # type: ignore[arg-type]
