"""L-BFGS and Adadelta, step by step beside PyTorch in float64."""

import io
from typing import Any

import numpy as np
import pytest
import torch

import minitorch
from minitorch.errors import ArgumentError
from minitorch.optim.lbfgs import C1, C2, strong_wolfe

START = np.random.default_rng(0).normal(size=(4, 2))
MATRIX = np.random.default_rng(1).normal(size=(6, 4))
TARGET = np.random.default_rng(2).normal(size=(6, 2))


def rosenbrock(lib: Any, w: Any, b: Any) -> Any:
    x, y = w[:, 0], w[:, 1]
    return (100 * (y - x * x) ** 2 + (1 - x) ** 2).sum() + ((b - 3) ** 2).sum()


def regression(lib: Any, w: Any, b: Any) -> Any:
    rows, target = lib.tensor(MATRIX), lib.tensor(TARGET)
    return ((rows @ w + b - target) ** 2).mean() + (w**4).sum()


def run(lib: Any, loss: Any, name: str, steps: int = 20, **options: Any) -> list[np.ndarray]:
    """The loss and the parameters at each of some steps."""
    w = lib.tensor(START.copy(), requires_grad=True)
    b = lib.zeros(2, dtype=lib.float64, requires_grad=True)
    unused = lib.ones(3, dtype=lib.float64, requires_grad=True)
    optimizer = getattr(lib.optim, name)([w, b, unused], **options)

    def closure() -> Any:
        optimizer.zero_grad()
        value = loss(lib, w, b)
        value.backward()
        return value

    seen = []
    for _ in range(steps):
        value = optimizer.step(closure)
        seen.append(np.array([value.item(), *w.detach().numpy().ravel(), *b.detach().numpy()]))
    if name == "LBFGS":
        state = optimizer.state[w]
        seen.append(np.array([state["n_iter"], state["func_evals"]], dtype=float))
    return seen


OPTIONS: list[dict[str, Any]] = [
    {"lr": 0.1, "max_iter": 3},
    {"lr": 0.5, "max_iter": 1, "history_size": 3},
    {"lr": 0.1, "max_iter": 30, "max_eval": 4},
    {"lr": 0.1, "tolerance_grad": 1e-2, "tolerance_change": 1e-3},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("loss", [rosenbrock, regression])
def test_lbfgs_goes_where_torchs_goes(loss: Any, options: dict[str, Any]) -> None:
    if loss is rosenbrock:
        options = {**options, "lr": 0.01}
    steps = 10 if loss is rosenbrock else 20  # further on, its valley magnifies rounding
    ours, theirs = (run(lib, loss, "LBFGS", steps, **options) for lib in (minitorch, torch))
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8, err_msg=f"step {i}")


@pytest.mark.parametrize(
    "options",
    [{}, {"lr": 0.5, "rho": 0.95, "eps": 1e-5}, {"weight_decay": 0.1}],
)
def test_adadelta_goes_where_torchs_goes(options: dict[str, Any]) -> None:
    ours, theirs = (run(lib, regression, "Adadelta", **options) for lib in (minitorch, torch))
    np.testing.assert_allclose(ours, theirs, rtol=1e-10)


@pytest.mark.parametrize("options", [{}, {"history_size": 2}, {"lr": 8.0}, {"lr": 0.001}])
def test_a_line_search_leads_to_the_minimum(options: dict[str, Any]) -> None:
    options = {"line_search_fn": "strong_wolfe", "max_iter": 100, **options}
    for lib in (minitorch, torch):
        seen = run(lib, rosenbrock, "LBFGS", **options)
        assert seen[-2][0] < 1e-6
        np.testing.assert_allclose(seen[-2][1:9], np.ones(8), atol=2e-3)


@pytest.mark.parametrize("lr", [0.001, 0.1, 0.8, 1.0, 8.0])
@pytest.mark.parametrize("start", [(-1.2, 1.0), (2.0, -3.0), (0.5, 4.0)])
def test_a_line_search_tries_the_points_that_torchs_tries(
    start: tuple[float, float], lr: float
) -> None:
    tried = {}
    for lib in (minitorch, torch):
        w = lib.tensor(np.array(start), requires_grad=True)
        optimizer = lib.optim.LBFGS(
            [w], lr=lr, max_iter=8, max_eval=99, line_search_fn="strong_wolfe"
        )
        points = tried[lib] = []

        def closure() -> Any:
            optimizer.zero_grad()  # noqa: B023
            points.append(w.detach().numpy().copy())  # noqa: B023
            loss = 100 * (w[1] - w[0] ** 2) ** 2 + (1 - w[0]) ** 2  # noqa: B023
            loss.backward()
            return loss

        optimizer.step(closure)
    assert len(tried[minitorch]) == len(tried[torch])
    np.testing.assert_allclose(tried[minitorch], tried[torch], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("first", [1e-4, 0.3, 1.0, 50.0])
@pytest.mark.parametrize("power", [1, 3])
def test_the_strong_wolfe_conditions_hold_where_a_search_ends(first: float, power: int) -> None:
    def at(t: float) -> Any:
        return t, (t - 2.0) ** (2 * power), np.ones(1), 2 * power * (t - 2.0) ** (2 * power - 1)

    start = at(0.0)
    (t, loss, _, slope), calls = strong_wolfe(at, first, start, np.ones(1), 25)
    assert 1 <= calls <= 25
    assert loss <= start[1] + C1 * t * start[3]
    assert abs(slope) <= -C2 * start[3]


def test_a_search_that_finds_no_minimum_ends() -> None:
    point, calls = strong_wolfe(
        lambda t: (t, -t, np.ones(1), -1.0), 1.0, (0, 0, 0, -1), np.ones(1), 9
    )
    assert calls == 10
    assert point[1] < 0


def test_a_saved_lbfgs_goes_on_as_if_it_had_not_stopped() -> None:
    def trained(stop: bool) -> list[float]:
        w = minitorch.tensor(START.copy(), requires_grad=True)

        def closure() -> Any:
            w.grad = None
            value = rosenbrock(minitorch, w, w)
            value.backward()
            return value

        optimizer = minitorch.optim.LBFGS([w], max_iter=3, line_search_fn="strong_wolfe")
        optimizer.step(closure)
        if stop:
            stream = io.BytesIO()
            minitorch.save(optimizer.state_dict(), stream)
            stream.seek(0)
            optimizer = minitorch.optim.LBFGS([w])
            optimizer.load_state_dict(minitorch.load(stream))
        optimizer.step(closure)
        return w.flatten().tolist()

    assert trained(stop=True) == trained(stop=False)


def test_what_these_optimizers_cannot_take_is_refused() -> None:
    w = minitorch.zeros(2, requires_grad=True)
    lbfgs = minitorch.optim.LBFGS
    with pytest.raises(ArgumentError, match="needs a closure"):
        lbfgs([w]).step()
    with pytest.raises(ArgumentError, match="strong_wolfe"):
        lbfgs([w], line_search_fn="golden section")
    with pytest.raises(ArgumentError, match="one: all move together"):
        lbfgs([{"params": [w]}, {"params": [minitorch.zeros(1, requires_grad=True)]}])
    with pytest.raises(ArgumentError, match="rho"):
        minitorch.optim.Adadelta([w], rho=1.5)
