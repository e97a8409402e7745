"""Kernels of recurrent steps beside NumPy's steps: of every size of panel and block."""

from typing import Any

import numpy as np
import pytest

import minitorch
from minitorch.compile import engine, panels, time_steps
from minitorch.ops.networks import time_loops
from minitorch.ops.networks.recurrence import KINDS, LOOPS

SIZES = [(1, 16, "float32"), (29, 200, "float32"), (7, 33, "float64")]  # batch, hidden
LENGTH = 6


def run(name: str, batch: int, hidden: int, dtype: str, backwards: bool = False) -> list[Any]:
    """Return what a loop gives, there and back."""
    rng = np.random.default_rng(batch * hidden)
    loop = LOOPS[name, backwards]
    wide, shape = loop.gates * hidden, (LENGTH, batch, hidden)

    def drawn(*shape: int) -> Any:
        return (rng.standard_normal(shape) / np.sqrt(hidden)).astype(dtype)

    weights = drawn(wide, 5), drawn(wide, hidden), drawn(wide), drawn(wide)
    first = [drawn(batch, hidden) for _ in range(loop.states)]
    trail = loop.forward(drawn(LENGTH, batch, 5), *weights, *first)
    results = loop.outputs(trail, shape)
    gradients = loop.backward(drawn(*results.shape), trail, weights[1], LENGTH)
    return [results, *time_loops.cut(gradients, loop.gradients(*shape))]


def by_numpy(monkeypatch: pytest.MonkeyPatch, *which: Any) -> list[Any]:
    """Return what NumPy's calls give."""
    with monkeypatch.context() as patch:
        patch.setattr(time_loops, "run_steps", lambda *_: False)
        return run(*which)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("batch", "hidden", "dtype"), SIZES)
def test_a_kernel_computes_what_numpy_does(
    name: str, batch: int, hidden: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    which = (name, batch, hidden, dtype, batch % 2 == 1)
    exact = 1e-5 if dtype == "float32" else 1e-12
    for own, other in zip(run(*which), by_numpy(monkeypatch, *which), strict=True):
        np.testing.assert_allclose(own, other, rtol=exact, atol=exact)


@pytest.mark.parametrize("name", KINDS)
def test_threads_change_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels, "GRAIN", 1)  # a panel is worth a thread
    alone = run(name, 9, 70, "float32")
    before = minitorch.get_num_threads()
    minitorch.set_num_threads(3)
    try:
        shared = run(name, 9, 70, "float32")
    finally:
        minitorch.set_num_threads(before)
    for own, other in zip(shared, alone, strict=True):
        np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("name", KINDS)
def test_a_nan_stays_in_its_row(name: str) -> None:
    loop = LOOPS[name, False]
    x = np.zeros((LENGTH, 3, 4), np.float32)
    x[0, 1] = np.nan
    w = np.eye(loop.gates * 4, 4, dtype=np.float32)
    first = [np.zeros((3, 4), np.float32)] * loop.states
    y = loop.outputs(loop.forward(x, w, w, *first), (LENGTH, 3, 4))[:LENGTH]
    assert np.isnan(y[:, 1]).all() and np.isfinite(y[:, [0, 2]]).all()


def test_it_runs_where_it_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    real = time_steps.run

    def run_seen(name: str, *rest: Any) -> None:
        taken.append(name)
        real(name, *rest)

    monkeypatch.setattr(time_steps, "run", run_seen)
    run("gru", 2, 3, "float64")
    assert taken == ["gru", "gru back"] and engine.available()
    monkeypatch.setattr(time_loops, "FEW_STEPS", LENGTH)
    run("gru", 2, 3, "float64")
    assert len(taken) == 2


@pytest.mark.parametrize("name", KINDS)
def test_a_batch_of_nothing_has_no_steps(name: str) -> None:
    results, *gradients = run(name, 0, 3, "float32")
    assert results.shape == LOOPS[name, False].results(LENGTH, 0, 3)
    assert not any(gradient.size for gradient in gradients)
