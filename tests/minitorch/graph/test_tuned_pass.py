"""Products and convolutions with what follows them, by the kernels that the user has tuned."""

import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitorch as mt
import minitorch.graph as tf
from minitorch import compile as code
from minitorch.compile import engine
from minitorch.graph.core.order import needed
from minitorch.graph.costs.machine import Fixed, use
from minitorch.graph.passes.optimize import optimize, run_pass
from minitorch.graph.passes.tuned import TunedProduct
from minitorch.tracing import jit

_spec = importlib.util.spec_from_file_location(
    "random_graphs_for_tuned", Path(__file__).parent / "random_graphs.py"
)
assert _spec is not None
assert _spec.loader is not None
graphs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(graphs)

ALL = {"a": [1.0, 2.0], "b": [1.0, 2.0], "ab": [1.0, 2.0]}
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _a_machine_that_is_the_same_everywhere() -> Iterator[None]:
    with use(Fixed(kernels=False)):
        yield


@pytest.fixture(autouse=True)
def keep(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Give a function that adds tasks to the table of this processor."""
    before = code.get_cache_directory()
    code.set_cache_directory(tmp_path)

    def kept(*tasks: Any, times: tuple[float, float] = (1.0, 2.0), turned: Any = ALL) -> None:
        point = {"rows": 2, "lanes": 4}
        for task in tasks:
            line = {"task": task, "point": point, "turned": turned}
            line |= {"seconds": times[0], "library_seconds": times[1]}
            with (tmp_path / f"{engine.processor()}.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
        code.set_cache_directory(tmp_path)

    yield kept
    code.set_cache_directory(before)


def found(*fetches: Any) -> list[str]:
    """Return the names of the tuned operators below what the pass gives."""
    nodes = needed(run_pass("tuned", list(fetches), ()), ())
    return sorted(n.op.name for n in nodes if isinstance(n.op, TunedProduct))


def values(dtype: str, *shape: int) -> Any:
    return tf.constant(RNG.normal(size=shape).astype(dtype))


def both(fetches: Any) -> tuple[Any, Any]:
    """Return what the interpreter and what the compiled graph make of the fetches."""
    with tf.Session(executor="interpreter") as session:
        want = session.run(fetches)
    with tf.Session(optimize=False) as session:
        return session.run(run_pass("tuned", list(fetches), ())), want


def agree(fetches: list[Any], dtype: str) -> None:
    got, want = both(fetches)
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    for ours, theirs in zip(got, want, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, tolerance, tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_product_takes_its_bias_and_relu(keep: Callable[..., None], dtype: str) -> None:
    keep(("matmul", 5, 7, 3, dtype))
    x, w, b, row = (values(dtype, *s) for s in ((5, 3), (3, 7), (7,), (1, 7)))
    y = tf.matmul(x, w)
    cases = {
        "tuned_matmul": y,
        "tuned_add_matmul": b + tf.matmul(x, w),
        "tuned_relu_add_matmul": tf.nn.relu(tf.matmul(x, w) + row),
        "tuned_relu_matmul": tf.nn.relu(tf.matmul(x, w)),
    }
    for name, node in cases.items():
        assert found(node) == [name]
        agree([node], dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_convolution_takes_its_bias_and_relu(keep: Callable[..., None], dtype: str) -> None:
    keep(("conv2d", 2, 3, 6, 5, 4, 3, 3, 2, 1, dtype))
    f = mt.nn.functional
    arrays = [RNG.normal(size=s).astype(dtype) for s in ((2, 3, 6, 5), (4, 3, 3, 3), (4,))]

    def layer(x: Any, w: Any, b: Any) -> Any:
        return f.relu(f.conv2d(x, w, b, stride=2, padding=1))

    x, w, b = map(tf.constant, arrays)
    assert found(layer(x, w, b)) == ["tuned_relu_add_conv"]
    agree([layer(x, w, b), f.conv2d(x, w, b, stride=2, padding=1)], dtype)
    assert found(f.conv2d(x, w, b, stride=1, padding=1)) == []  # nobody tuned that one
    want = layer(*map(mt.tensor, arrays))
    np.testing.assert_allclose(jit(layer)(*map(mt.tensor, arrays)), want, 1e-5, 1e-5)


@pytest.mark.parametrize("lead", [(4,), (2, 2)])
def test_a_linear_layer_is_a_product_by_a_transpose(
    keep: Callable[..., None], lead: tuple[int, ...]
) -> None:
    x, w, b = (values("float32", *s) for s in ((*lead, 3), (7, 3), (7,)))
    layer = tf.nn.relu(mt.nn.functional.linear(x, w, b))
    keep(("matmul", 4, 7, 3), turned={"a": [1.0, 2.0], "b": [2.0, 1.0]})
    assert found(layer) == []  # faster, but not with such operands
    keep(("matmul", 4, 7, 3), times=(2.0, 1.0))
    assert found(layer) == ["tuned_relu_linear"]
    agree([layer], "float32")


def test_only_what_was_measured_to_be_faster_is_taken(keep: Callable[..., None]) -> None:
    y = tf.matmul(values("float32", 5, 3), values("float32", 3, 7))
    assert found(y) == []  # nothing unasked
    keep(("matmul", 5, 7, 3, "float64"), ("matmul", 5, 3, 7))
    assert found(y) == []
    keep(("matmul", 5, 7, 3), times=(2.0, 1.0))
    assert found(y) == []


def test_what_others_see_is_left_as_it_is(keep: Callable[..., None]) -> None:
    keep(("matmul", 5, 5, 5))
    x, b, square = (values("float32", *s) for s in ((5, 5), (5,), (5, 5)))
    product = tf.matmul(x, x)
    y = tf.nn.relu(product + b)
    assert found(y, product) == ["tuned_matmul"]
    agree([y, product], "float32")
    assert found(tf.matmul(x, x) + square) == ["tuned_matmul"]  # no bias
    assert found(tf.matmul(x, x) + tf.reshape(b, (5, 1))) == ["tuned_matmul"]
    twice = tf.matmul(x, x)
    agree([twice + twice, tf.nn.relu(tf.matmul(x, x) + tf.matmul(square, x))], "float32")
    batch = tf.matmul(values("float32", 2, 5, 5), x)
    assert found(batch) == []


def test_gradients_pass_through_what_the_pass_made(keep: Callable[..., None]) -> None:
    keep(("matmul", 5, 7, 3))
    x, w, b = (values("float64", *s) for s in ((5, 3), (3, 7), (7,)))
    keep(("matmul", 5, 7, 3, "float64"))
    y = tf.nn.relu(tf.matmul(x, w) + b)
    (after,) = run_pass("tuned", [y], ())
    want = tf.gradients(tf.reduce_sum(tf.square(y)), [x, w, b])
    got = tf.gradients(tf.reduce_sum(tf.square(after)), [x, w, b])
    with tf.Session() as session:
        for ours, theirs in zip(session.run(got), session.run(want), strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-12)


def test_a_training_step_by_jit_takes_kernels_forward_and_backward(
    keep: Callable[..., None],
) -> None:
    sizes = ((4, 7, 3), (4, 3, 7), (7, 3, 4), (4, 2, 7), (4, 7, 2), (2, 7, 4))
    keep(*(("matmul", *size) for size in sizes))
    f = mt.nn.functional
    arrays = [RNG.normal(size=s).astype(np.float32) for s in ((4, 3), (7, 3), (7,), (2, 7), (2,))]

    def loss(x: Any, w: Any, b: Any, v: Any, c: Any) -> Any:
        y = f.linear(f.relu(f.linear(x, w, b)), v, c)
        return (y * y).sum()

    grads = []
    for function in (loss, jit(loss)):
        inputs = [mt.tensor(a, requires_grad=True) for a in arrays]
        function(*inputs).backward()
        grads.append([np.asarray(t.grad) for t in inputs])
    for ours, theirs in zip(*grads, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-5, 1e-5)


@pytest.mark.parametrize("seed", range(500, 520))
def test_a_random_graph_agrees_when_all_its_products_are_tuned(
    keep: Callable[..., None], seed: int
) -> None:
    keep(("matmul", 4, 4, 4, "float64"))
    graph = graphs.RandomGraph(seed)
    a, b, row = graph.values[-1], graph.values[-2], values("float64", 4)
    fetches = [*graph.fetches, tf.nn.relu(tf.matmul(a, b) + row), tf.matmul(tf.transpose(b), a)]
    want = graph.run(fetches)
    leaves = run_pass("tuned", fetches, set(graph.feeds))
    assert any(isinstance(node.op, TunedProduct) for node in needed(leaves, ()))
    assert graphs.largest_difference(graph.run(leaves), want) <= 1e-9
    whole = optimize(fetches, set(graph.feeds))
    assert graphs.largest_difference(graph.run(whole), want) <= 1e-9
