"""Products of few terms by kernels beside NumPy's, and where attention takes them."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import minitorch
from minitorch.compile import panels
from minitorch.ops.elementwise import compiled
from minitorch.ops.networks import attention_panels
from minitorch.ops.networks.attention_panels import TurnedRows

F = minitorch.nn.functional


@pytest.fixture(autouse=True)
def _as_with_avx_512(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_panels, "_outruns_blas", lambda: True)
    monkeypatch.setattr(compiled, "_has_avx_2_alone", lambda: False)


def drawn(*shape: int, dtype: str = "float32") -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("m", "k"), [(16, 1), (67, 32), (128, 5)])
@pytest.mark.parametrize("n", [1, 16, 40, 129])
def test_a_kernel_computes_what_numpy_does(m: int, k: int, n: int, dtype: str) -> None:
    a, b = drawn(m, k, dtype=dtype), drawn(130, k, dtype=dtype)
    out = np.full((m, n), np.nan, dtype)
    panels.product(a, panels.pack_weights(b[None]), out)
    np.testing.assert_allclose(out, a @ b[:n].T, atol=1e-5 if dtype == "float32" else 1e-13)


@pytest.mark.parametrize("count", [300, 257, 1])
def test_matrices_of_any_strides_are_taken(count: int) -> None:
    a, b = drawn(70, 2, 24).swapaxes(0, 1)[:1], drawn(24, 1, 300).transpose(1, 2, 0)
    product = TurnedRows(b).product(a, count)
    np.testing.assert_allclose(product[0], a[0] @ b[0, :count].T, atol=1e-5)


@pytest.mark.parametrize(("rows", "terms"), [(300, 200), (20, 8)])
def test_other_sizes_are_blas(rows: int, terms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels, "product", None)
    a, b = drawn(1, 64, terms), drawn(1, rows, terms)
    np.testing.assert_allclose(TurnedRows(b).product(a, rows), a @ b.swapaxes(1, 2), atol=1e-4)


def test_narrower_registers_leave_all_to_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_panels, "_outruns_blas", lambda: False)
    monkeypatch.setattr(panels, "product", None)
    a, b = drawn(1, 64, 8), drawn(1, 300, 8)
    np.testing.assert_allclose(TurnedRows(b).product(a, 300), a @ b.swapaxes(1, 2), atol=1e-5)


def test_the_first_products_may_come_at_once() -> None:
    a, b = drawn(1, 64, 16), drawn(1, 300, 16)
    panels._product.cache_clear()
    panels._packing.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        products = list(pool.map(lambda _: TurnedRows(b).product(a, 300), range(64)))
    for product in products:
        np.testing.assert_array_equal(product, products[0])


@pytest.mark.parametrize("causal", [False, True])
def test_long_attention_takes_them_there_and_back(
    causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []
    real = panels.product

    def product_seen(*arrays: Any) -> None:
        taken.append(arrays[2].shape)
        real(*arrays)

    monkeypatch.setattr(panels, "product", product_seen)
    q, k, v = (
        minitorch.tensor(drawn(1, 1024, 8 + i)[..., :8], requires_grad=True) for i in range(3)
    )
    y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    y.backward(minitorch.tensor(drawn(1, 1024, 8)))
    assert len(taken) == 3 * 8 and {rows for rows, _ in taken} == {128}
    assert q.grad is not None
