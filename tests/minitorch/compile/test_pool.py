"""The pool of threads: the same numbers for any count, after a fork, nested, with errors."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitorch as mt
import minitorch.nn.functional as f
from minitorch.compile import pool

RNG = np.random.default_rng(0)
LARGE = RNG.standard_normal((301, 1003)).astype(np.float32)
G = RNG.standard_normal(LARGE.shape).astype(np.float32)
Q, K, V, WAY = (RNG.standard_normal((2, 6, 96, 16)).astype(np.float32) for _ in range(4))


@pytest.fixture(autouse=True)
def count_restored() -> Iterator[None]:
    before = mt.get_num_threads()
    mt.set_num_threads(2)
    yield
    mt.set_num_threads(before)


LONG = [RNG.standard_normal((1, 4, 260, 8)).astype(np.float32) for _ in range(4)]


def attention(q: Any, k: Any, v: Any) -> Any:
    return f.scaled_dot_product_attention(q, k, v, is_causal=True)


def with_gradients(function: Callable[..., Any], *arrays: np.ndarray, g: np.ndarray) -> list[Any]:
    tensors = [mt.tensor(a, requires_grad=True) for a in arrays]
    y = function(*tensors)
    y.backward(mt.tensor(g))
    return [y.detach().numpy(), *(t.grad.numpy() for t in tensors)]


def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    return f.layer_norm(x, (x.shape[-1],), weight, bias)


def steps_of(kind: str, **how: float) -> list[Any]:
    w = mt.tensor(LARGE, requires_grad=True)
    optimizer = getattr(mt.optim, kind)([w], lr=0.1, **how)
    for _ in range(3):
        w.grad = mt.tensor(G)
        optimizer.step()
    return [w.detach().numpy()]


JOBS: dict[str, Callable[[], list[Any]]] = {
    "add": lambda: [(mt.tensor(LARGE) + mt.tensor(G)).numpy()],
    "exp": lambda: [mt.exp(mt.tensor(LARGE)).numpy()],
    "gelu": lambda: with_gradients(f.gelu, LARGE, g=G),
    "relu": lambda: with_gradients(f.relu, LARGE, g=G),
    "softmax": lambda: with_gradients(lambda x: f.softmax(x, -1), LARGE, g=G),
    "layer norm": lambda: with_gradients(layer_norm, LARGE, LARGE[0], LARGE[1], g=G),
    "attention": lambda: with_gradients(f.scaled_dot_product_attention, Q, K, V, g=WAY),
    "long attention": lambda: with_gradients(attention, *LONG[:3], g=LONG[3]),
    "AdamW": lambda: steps_of("AdamW"),
    "SGD": lambda: steps_of("SGD"),
    "SGD with momentum": lambda: steps_of("SGD", momentum=0.9),
}


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_the_number_of_threads_changes_no_bit(job: Callable[[], list[Any]]) -> None:
    results = []
    for threads in (1, 2, 3):
        mt.set_num_threads(threads)
        results.append(job())
    for shared in results[1:]:
        for a, b in zip(results[0], shared, strict=True):
            np.testing.assert_array_equal(a, b)


def test_products_are_close_for_any_number_of_threads() -> None:
    expected = LARGE.astype(np.float64) @ G.T.astype(np.float64)
    for threads in (1, 2, 3):
        mt.set_num_threads(threads)
        twice = [(mt.tensor(LARGE) @ mt.tensor(G).T).numpy() for _ in range(2)]
        np.testing.assert_allclose(twice[0], expected, rtol=1e-4, atol=1e-3)
        np.testing.assert_array_equal(*twice)


@pytest.mark.parametrize(("total", "grain"), [(1, 1), (7, 1), (1000, 3), (1000, 999), (64, 64)])
def test_parts_cover_a_range_once_in_whole_grains(total: int, grain: int) -> None:
    parts: list[tuple[int, int]] = []
    pool.parallel_for(total, grain, lambda lo, hi: parts.append((lo, hi)))
    parts.sort()
    assert [n for lo, hi in parts for n in range(lo, hi)] == list(range(total))
    assert all((hi - lo) % grain == 0 for lo, hi in parts[:-1])


def test_two_threads_work_at_the_same_time() -> None:
    both = threading.Barrier(2)
    pool.parallel_for(2, 1, lambda lo, hi: both.wait(60) and None)
    assert not both.broken


def test_one_thread_is_the_caller_s() -> None:
    mt.set_num_threads(1)
    names: set[int] = set()
    pool.parallel_for(8, 1, lambda lo, hi: names.add(threading.get_ident()))
    assert names == {threading.get_ident()}


def test_an_exception_in_a_part_reaches_the_caller_and_leaves_the_pool_usable() -> None:
    def fail(lo: int, hi: int) -> None:
        raise KeyError(f"from {lo}")

    with pytest.raises(KeyError, match="from"):
        pool.parallel_for(8, 1, fail)
    test_two_threads_work_at_the_same_time()
    test_products_are_close_for_any_number_of_threads()


def test_parts_have_the_caller_s_context() -> None:
    both = threading.Barrier(2)

    def divide(lo: int, hi: int) -> None:
        both.wait(60)
        np.ones(4, np.float32) / np.zeros(4, np.float32)

    with np.errstate(divide="ignore"):  # a warning would be an error here
        pool.parallel_for(2, 1, divide)


def test_a_job_inside_a_part_and_jobs_of_several_threads_are_done() -> None:
    expected = np.exp(LARGE.astype(np.float64))

    def outer(lo: int, hi: int) -> None:
        for _ in range(lo, hi):
            pool.parallel_for(4, 1, lambda lo, hi: results.append(mt.exp(mt.tensor(LARGE)).numpy()))
            results.append(mt.exp(mt.tensor(LARGE)).numpy())
            products.append(LARGE @ G.T)

    results: list[np.ndarray] = []
    products: list[np.ndarray] = []
    callers = [threading.Thread(target=pool.parallel_for, args=(3, 1, outer)) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(products) == 9
    assert len(results) >= 18
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=1e-6)
    for product in products[1:]:
        np.testing.assert_allclose(product, products[0], rtol=1e-4, atol=1e-3)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own() -> None:
    expected = [mt.exp(mt.tensor(LARGE)).numpy(), LARGE @ G.T]
    read, write = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            first = LARGE @ G.T  # before the child has a pool
            test_two_threads_work_at_the_same_time()
            results = [mt.exp(mt.tensor(LARGE)).numpy(), LARGE @ G.T]
            same = all(map(np.array_equal, [*results, first], [*expected, expected[1]]))
            os.write(write, b"same" if same else b"other")
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as reader:
        assert reader.read() == b"same"
    assert os.waitpid(child, 0)[1] == 0


def test_a_thread_without_work_sleeps() -> None:
    names: set[int] = set()
    both = threading.Barrier(2)

    def part(lo: int, hi: int) -> None:
        names.add(threading.get_native_id())
        both.wait(60)

    pool.parallel_for(2, 1, part)
    (helper,) = names - {threading.get_native_id()}
    stat = Path(f"/proc/self/task/{helper}/stat")
    deadline = time.monotonic() + 60
    while (state := stat.read_text().rpartition(") ")[2][0]) != "S":
        assert time.monotonic() < deadline, f"state {state}"
