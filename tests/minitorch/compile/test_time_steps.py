"""Kernels of recurrent steps beside the steps one by one: of every size of panel and block."""

from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import minitorch
from minitorch.compile import engine, panels, time_steps
from minitorch.ops.networks import recurrence
from minitorch.ops.networks.time_loops import GATES

SIZES = [(1, 16, "float32"), (29, 200, "float32"), (7, 33, "float64")]  # batch, hidden
LENGTH = 6


def run(kind: str, batch: int, hidden: int, dtype: str) -> list[Any]:
    """Return what a layer gives, there and back; an odd batch backwards."""
    rng = np.random.default_rng(batch * hidden)
    wide = GATES[kind] * hidden

    def drawn(*shape: int) -> Any:
        numbers = (rng.standard_normal(shape) / np.sqrt(hidden)).astype(dtype)
        return minitorch.tensor(numbers, requires_grad=True)

    x, weights = (
        drawn(LENGTH, batch, 5),
        (drawn(wide, 5), drawn(wide, hidden), drawn(wide), drawn(wide)),
    )
    first = tuple(drawn(batch, hidden) for _ in range(2 if kind == "lstm" else 1))
    results = recurrence.recurrence(kind, batch % 2 == 1, x, weights, first)
    results.backward(drawn(*results.shape).detach())
    return [value.detach().numpy() for value in (results, *(v.grad for v in (x, *weights, *first)))]


def by_steps(monkeypatch: pytest.MonkeyPatch, *which: Any) -> list[Any]:
    """Return what the library's operators give."""
    with monkeypatch.context() as patch:
        patch.setattr(recurrence, "compiles", lambda _: False)
        return run(*which)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize(("batch", "hidden", "dtype"), SIZES)
def test_a_kernel_computes_what_operators_do(
    kind: str, batch: int, hidden: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    which = (kind, batch, hidden, dtype)
    exact = 1e-5 if dtype == "float32" else 1e-12
    for own, other in zip(run(*which), by_steps(monkeypatch, *which), strict=True):
        np.testing.assert_allclose(own, other, rtol=exact, atol=exact)


@pytest.mark.parametrize("kind", GATES)
def test_threads_change_no_bit(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels, "GRAIN", 1)  # a panel is worth a thread
    alone = run(kind, 9, 70, "float32")
    before = minitorch.get_num_threads()
    minitorch.set_num_threads(3)
    try:
        with threadpool_limits(1, "blas"):  # its own products may take another order
            shared = run(kind, 9, 70, "float32")
    finally:
        minitorch.set_num_threads(before)
    for own, other in zip(shared, alone, strict=True):
        np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("kind", GATES)
def test_a_nan_stays_in_its_row(kind: str) -> None:
    numbers = np.zeros((LENGTH, 3, 4), np.float32)
    numbers[0, 1] = np.nan
    w = minitorch.tensor(np.eye(GATES[kind] * 4, 4, dtype=np.float32))
    first = (minitorch.zeros(3, 4),) * (2 if kind == "lstm" else 1)
    results = recurrence.recurrence(kind, False, minitorch.tensor(numbers), (w, w), first)
    y = results[:LENGTH].numpy()
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
    by_steps(monkeypatch, "gru", 2, 3, "float64")
    assert len(taken) == 2


@pytest.mark.parametrize("kind", GATES)
def test_a_batch_of_nothing_has_no_steps(kind: str) -> None:
    results, x, *weights = run(kind, 0, 3, "float32")
    assert results.shape[1:] == (0, 3) and x.shape == (LENGTH, 0, 5)
    assert not any(gradient.any() for gradient in weights)
