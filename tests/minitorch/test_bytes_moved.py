"""What `bench/minitorch_bytes.py` counts of a step, beside the same counted by hand."""

import importlib
import mmap
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitorch
import minitorch.nn.functional as F

X, W, Y = 4 * 6 * 3, 4 * 5 * 3, 4 * 6 * 5  # bytes: data (6, 3), weights (5, 3), results (6, 5)
Count = Callable[[Callable[[], object]], Any]


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    folder = str(Path(__file__).parents[2] / "bench")
    sys.path.insert(0, folder)
    yield importlib.import_module("minitorch_bytes")
    sys.path.remove(folder)


@pytest.fixture
def count(bench: Any) -> Count:
    counter: Count = bench.Count
    return counter


def step_of(loss_of: Callable[[Any], Any]) -> Callable[[], None]:
    """Return a step of a linear layer without bias, relu, and what follows; SGD updates."""
    rng = np.random.default_rng(0)
    x = minitorch.tensor(rng.standard_normal((6, 3)).astype(np.float32))
    w = minitorch.tensor(rng.standard_normal((5, 3)).astype(np.float32), requires_grad=True)
    optimizer = minitorch.optim.SGD([w], lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        loss_of(F.relu(F.linear(x, w))).backward()
        optimizer.step()

    return step


def test_a_step_counts_as_by_hand(count: Count) -> None:
    counted = count(step_of(lambda y: y.sum()))
    assert counted.moved == {
        "linear": X + W + Y,
        "relu": 2 * Y,
        "Sum": Y,
        "relu_grad": 2 * Y + 4,  # what arrives is one number, repeated
        "InsertAxes": 4,
        "matmul": Y + X + W,
        "SGD": 3 * W,
    }
    data, param = 2 * X, 4 * W + 2 * W - W  # no gradient flows into x: w is not read back
    assert counted.least == data + param + 5 * Y  # relu's result is kept
    assert counted.allocated == 3 * Y + W + 4  # linear, relu; the gradients of both


def test_what_is_copied_for_nothing_is_excess_of_its_operator(count: Count) -> None:
    plain, copied = (
        count(step_of(lambda y, f=f: f(y).sum())) for f in (lambda y: y, lambda y: y.clone())
    )
    assert copied.least == plain.least
    assert copied.moved["Clone"] - plain.moved["Clone"] == 2 * Y
    assert copied.excess["Clone"] > plain.excess["Clone"]
    assert copied.allocated > plain.allocated


def test_gradients_of_a_value_used_twice_are_added_up(count: Count) -> None:
    counted = count(step_of(lambda y: (y * 2 + y * 3).sum()))
    assert counted.moved["sum of gradients"] == 3 * Y


def test_views_move_nothing_and_large_results_are_counted_once(count: Count) -> None:
    x = minitorch.zeros(64, 1024)  # above what the allocator hands out
    assert not count(lambda: x.reshape(1024, 64)[3:].transpose(0, 1)).moved
    counted = count(lambda: x.exp())
    assert counted.allocated == x.array.nbytes
    assert counted.moved == {"exp": 2 * x.array.nbytes}


def test_clipping_reads_gradients_twice_and_writes_them(count: Count) -> None:
    w = minitorch.zeros(5, 3, requires_grad=True)
    (w * 2).sum().backward()
    counted = count(lambda: minitorch.nn.utils.clip_grad_norm_([w], 1.0))
    assert counted.moved == {"clipping": 3 * W}
    assert counted.excess == {"clipping": 2 * W}


def test_fresh_pages_are_counted_by_the_step(bench: Any) -> None:
    size = 64 * mmap.PAGESIZE

    def step() -> None:
        with mmap.mmap(-1, size) as memory:
            memory.write(b"1" * size)

    assert bench.pages(step) >= 1  # one, where the system has large ones


def test_a_recurrent_language_model_counts_twice_the_same(bench: Any, count: Count) -> None:
    step = bench.speed.recurrent(minitorch, "LSTM", width=16, words=20, count=3, length=6)
    step()
    first, second = count(step), count(step)
    assert (first.least, first.moved, first.excess) == (second.least, second.moved, second.excess)
    assert first.allocated == second.allocated
    assert 1 < first.moved.total() / first.least < 1.5


def test_a_rule_that_builds_on_another_is_counted_once(count: Count) -> None:
    conv = minitorch.nn.Conv2d(2, 3, 3)  # of its three gradients two are another rule's
    x = minitorch.tensor(np.ones((1, 2, 5, 5), np.float32), requires_grad=True)
    moved = count(lambda: (conv(x) + conv(x)).sum().backward()).moved
    arrays = [x.array, *(param.array for param in conv.parameters())]
    assert moved["sum of gradients"] == 3 * sum(array.nbytes for array in arrays)
