"""Kernels of recurrent steps beside NumPy's steps: of every size of panel and block."""

from typing import Any

import numpy as np
import pytest

import minitorch
from minitorch.compile import engine, panels, time_steps
from minitorch.nn import time_loops
from minitorch.nn.time_loops import GRULoop, Loop, LSTMLoop, PlainLoop

LOOPS = {
    "tanh": lambda backwards: PlainLoop(backwards, "tanh"),
    "relu": lambda backwards: PlainLoop(backwards, "relu"),
    "lstm": LSTMLoop,
    "gru": GRULoop,
}
GATES = {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3}
SIZES = [(1, 16, "float32"), (29, 200, "float32"), (7, 33, "float64")]  # batch, hidden
LENGTH = 6


def run(name: str, batch: int, hidden: int, dtype: str, backwards: bool = False) -> list[Any]:
    """Return what a loop gives, there and back."""
    rng = np.random.default_rng(batch * hidden)
    gates, states = GATES[name], 2 if name == "lstm" else 1

    def drawn(*shape: int) -> Any:
        return (rng.standard_normal(shape) / np.sqrt(hidden)).astype(dtype)

    loop: Loop = LOOPS[name](backwards)
    x, w, b = (
        drawn(LENGTH, batch, gates * hidden),
        drawn(gates * hidden, hidden),
        drawn(gates * hidden),
    )
    results = loop.forward(x, w, b, *(drawn(batch, hidden) for _ in range(states)))
    ends = [drawn(batch, hidden) for _ in range(states)]
    return [
        *results,
        *loop.backward(drawn(LENGTH, batch, hidden), *ends),
        *loop.backward(None, *ends),
    ]


def by_numpy(monkeypatch: pytest.MonkeyPatch, *which: Any) -> list[Any]:
    """Return what NumPy's calls give."""
    with monkeypatch.context() as patch:
        patch.setattr(time_loops, "run_steps", lambda *_: False)
        return run(*which)


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize(("batch", "hidden", "dtype"), SIZES)
def test_a_kernel_computes_what_numpy_does(
    name: str, batch: int, hidden: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    which = (name, batch, hidden, dtype, batch % 2 == 1)
    exact = 1e-5 if dtype == "float32" else 1e-12
    for own, other in zip(run(*which), by_numpy(monkeypatch, *which), strict=True):
        np.testing.assert_allclose(own, other, rtol=exact, atol=exact)


@pytest.mark.parametrize("name", LOOPS)
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


@pytest.mark.parametrize("name", LOOPS)
def test_a_nan_stays_in_its_row(name: str) -> None:
    loop = LOOPS[name](False)
    x = np.zeros((LENGTH, 3, GATES[name] * 4), np.float32)
    x[0, 1] = np.nan
    w = np.eye(GATES[name] * 4, 4, dtype=np.float32)
    first = [np.zeros((3, 4), np.float32)] * (2 if name == "lstm" else 1)
    y = loop.forward(x, w, None, *first)[0]
    assert np.isnan(y[:, 1]).all() and np.isfinite(y[:, [0, 2]]).all()


def test_it_runs_where_it_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    real = time_steps.run

    def run_seen(name: str, *rest: Any) -> None:
        taken.append(name)
        real(name, *rest)

    monkeypatch.setattr(time_steps, "run", run_seen)
    run("gru", 2, 3, "float64")
    assert taken == ["gru", "gru back", "gru back"] and engine.available()
    monkeypatch.setattr(time_loops, "FEW_STEPS", LENGTH)
    run("gru", 2, 3, "float64")
    assert len(taken) == 3


@pytest.mark.parametrize("name", LOOPS)
def test_a_batch_of_nothing_has_no_steps(name: str) -> None:
    results = run(name, 0, 3, "float32")
    assert results[0].shape == (LENGTH, 0, 3)
    weights = results[3 if name == "lstm" else 2 :][1]
    assert not weights.any() and weights.shape == (GATES[name] * 3, 3)
