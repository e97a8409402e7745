"""Distributions against PyTorch's; draws against what they are drawn from."""

from typing import Any

import numpy as np
import pytest
import torch

import minitorch
from minitorch import distributions
from minitorch.errors import ArgumentError, DTypeError

RNG = np.random.default_rng(0)
LOC, SCALE = RNG.normal(size=(3, 1)), RNG.uniform(0.5, 2.0, size=4)
PROBS, LOGITS = RNG.uniform(0.1, 1.0, size=(2, 3, 5)), RNG.normal(size=(2, 3, 5))
SURE = np.array([[0.0, 0.25, 0.75], [1.0, 0.0, 0.0]])

MAKES: dict[str, tuple[str, dict[str, Any]]] = {
    "normal": ("Normal", {"loc": LOC, "scale": SCALE}),
    "probs": ("Categorical", {"probs": PROBS}),
    "logits": ("Categorical", {"logits": LOGITS}),
    "sure": ("Categorical", {"probs": SURE}),
    "coins": ("Bernoulli", {"probs": PROBS[0]}),
    "odds": ("Bernoulli", {"logits": LOGITS[0]}),
    "certain": ("Bernoulli", {"probs": np.array([0.0, 0.3, 1.0])}),
}


def both(name: str) -> list[tuple[Any, Any, list[Any]]]:
    """(library, distribution, parameters) for ours and PyTorch's."""
    kind, arrays = MAKES[name]
    made = []
    for lib in (minitorch, torch):
        params = [lib.tensor(a, requires_grad=True) for a in arrays.values()]
        made.append(
            (
                lib,
                getattr(lib.distributions, kind)(**dict(zip(arrays, params, strict=True))),
                params,
            )
        )
    return made


def agree(name: str, function: Any) -> None:
    """What `function` of library and distribution gives, and its gradients."""
    outs, grads = [], []
    for lib, made, params in both(name):
        out = function(lib, made)
        out.sum().backward()
        outs.append(out.detach().numpy())
        grads.append([p.grad.numpy() for p in params if p.grad is not None])
    np.testing.assert_allclose(*outs, rtol=1e-12, atol=1e-13)
    for a, b in zip(*grads, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", MAKES)
def test_entropy_is_torchs(name: str) -> None:
    agree(name, lambda lib, made: made.entropy())


@pytest.mark.parametrize("shape", [(), (3, 4), (7, 3, 4)])
def test_the_density_of_a_normal_is_torchs(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).normal(size=shape)
    agree("normal", lambda lib, made: made.log_prob(lib.tensor(x)))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (6, 2, 3), (2, 1)])
def test_the_probability_of_a_class_is_torchs(shape: tuple[int, ...]) -> None:
    classes = np.random.default_rng(1).integers(0, 5, size=shape)
    for name in ("probs", "logits"):
        agree(name, lambda lib, made: made.log_prob(lib.tensor(classes)))


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ("normal", "normal"),
        ("probs", "logits"),
        ("logits", "probs"),
        ("sure", "sure"),
        ("coins", "odds"),
        ("certain", "certain"),
    ],
)
def test_divergences_are_torchs(p: str, q: str) -> None:
    values = []
    for (lib, first, _), (_, second, _) in zip(both(p), both(q), strict=True):
        if p == "normal":
            second = lib.distributions.Normal(first.loc * 2, first.scale + 1)
        values.append(lib.distributions.kl_divergence(first, second).detach().numpy())
    np.testing.assert_allclose(*values, rtol=1e-12, atol=1e-15)


def test_a_divergence_from_what_cannot_happen_is_infinite_and_one_unknown_is_refused() -> None:
    values = [
        lib.distributions.kl_divergence(
            lib.distributions.Categorical(lib.tensor([0.5, 0.5, 0.0])),
            lib.distributions.Categorical(lib.tensor([1.0, 0.0, 0.0])),
        ).item()
        for lib in (minitorch, torch)
    ]
    assert values == [float("inf")] * 2
    with pytest.raises(DTypeError, match="no formula for Normal and Categorical"):
        distributions.kl_divergence(
            distributions.Normal(0.0, 1.0), distributions.Categorical(minitorch.ones(2))
        )


def test_draws_of_a_normal_have_its_moments_and_its_gradient() -> None:
    minitorch.manual_seed(0)
    loc, scale = (minitorch.tensor(v, requires_grad=True) for v in ([1.0, -3.0], [0.5, 2.0]))
    made = distributions.Normal(loc, scale)
    drawn = made.rsample((20_000,))
    assert drawn.shape == (20_000, 2)
    error = np.array([0.5, 2.0]) / 20_000**0.5
    assert (abs(drawn.detach().mean(0).numpy() - [1.0, -3.0]) < 5 * error).all()
    assert (abs(drawn.detach().std(0).numpy() - [0.5, 2.0]) < 5 * error).all()
    drawn.sum(0).sum().backward()
    assert loc.grad is not None
    assert loc.grad.tolist() == [20_000.0] * 2
    noise = (drawn.detach() - loc.detach()) / scale.detach()
    np.testing.assert_allclose(scale.grad.numpy(), noise.sum(0).numpy(), rtol=1e-3, atol=0.05)
    assert not made.sample().requires_grad
    assert distributions.Normal(0.0, 1.0).sample((3,)).shape == (3,)
    assert (made.mean, made.stddev, made.mode) == (made.loc, made.scale, made.loc)


def test_the_probability_of_a_coin_is_torchs() -> None:
    sides = RNG.integers(0, 2, (7, 3, 5)).astype("float64")
    for name in ("coins", "odds"):
        agree(name, lambda lib, made: made.log_prob(lib.tensor(sides)))
    agree("certain", lambda lib, made: made.log_prob(lib.tensor([0.0, 1.0, 1.0]).double()))
    agree("coins", lambda lib, made: made.mean + made.variance)


def test_draws_of_a_bernoulli_come_by_its_probability() -> None:
    minitorch.manual_seed(0)
    drawn = distributions.Bernoulli(minitorch.tensor([0.2, 0.0, 1.0])).sample((4000,))
    assert set(drawn.reshape(-1).tolist()) == {0.0, 1.0}
    np.testing.assert_allclose(drawn.mean(0).numpy(), [0.2, 0.0, 1.0], atol=5 * 0.4 / 4000**0.5)
    soft = distributions.Bernoulli(minitorch.tensor(0.2), validate_args=False)
    theirs = torch.distributions.Bernoulli(torch.tensor(0.2), validate_args=False)
    value = theirs.log_prob(torch.tensor(0.7)).item()
    assert soft.log_prob(minitorch.tensor(0.7)).item() == pytest.approx(value)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_independent_distributions_as_one_are_torchs(count: int) -> None:
    def values(lib: Any, made: Any) -> Any:
        one = lib.distributions.Independent(made, count)
        assert tuple(one.batch_shape) == (3, 4)[: 2 - count]
        assert tuple(one.event_shape) == (3, 4)[2 - count :]
        assert tuple(one.rsample((2,)).shape) == tuple(one.sample((2,)).shape) == (2, 3, 4)
        other = lib.distributions.Independent(lib.distributions.Normal(made.mean * 0, 2.0), count)
        apart = lib.distributions.kl.kl_divergence(one, other)
        return one.log_prob(lib.ones(3, 4).double()) + one.entropy() + apart

    agree("normal", values)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: d.Categorical(minitorch.ones(2)).log_prob(2), "expected classes, 0 to 1"),
        (lambda d: d.Categorical(minitorch.ones(2)).log_prob(0.5), "expected classes, 0 to 1"),
        (lambda d: d.Bernoulli(0.5).log_prob(0.5), "expected 0 or 1"),
        (lambda d: d.Normal(0.0, 1.0).log_prob(float("nan")), "expected numbers"),
        (lambda d: d.Normal(0.0, 1.0).sample(3), r"Write \(3,\)"),
        (lambda d: d.Categorical(minitorch.ones(2)).sample(3), r"Write \(3,\)"),
        (
            lambda d: d.Categorical(minitorch.ones(4, 2)).log_prob(minitorch.ones(3)),
            "Categorical.log_prob: shapes do not broadcast",
        ),
    ],
)
def test_values_that_cannot_be_drawn_are_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(distributions)


def test_draws_of_a_categorical_come_by_its_probabilities() -> None:
    minitorch.manual_seed(0)
    made = distributions.Categorical(minitorch.tensor(SURE))
    drawn = made.sample((4000, 2))
    assert drawn.shape == (4000, 2, 2)
    assert drawn.dtype == minitorch.int64
    shares = [(drawn == k).double().mean(0).mean(0).tolist() for k in range(3)]
    np.testing.assert_allclose(np.transpose(shares), SURE, atol=5 * (0.25 / 8000) ** 0.5)
    assert made.sample().shape == (2,)
    assert distributions.Categorical(logits=minitorch.zeros(3)).sample().shape == ()
    with pytest.raises(NotImplementedError, match="has no rsample"):
        made.rsample()


def test_the_rest_of_a_categorical_is_torchs() -> None:
    (_, ours, _), (_, theirs, _) = both("logits")
    assert ours.batch_shape == tuple(theirs.batch_shape)
    assert ours.mode.tolist() == theirs.mode.tolist()
    np.testing.assert_allclose(ours.probs.detach().numpy(), theirs.probs.detach().numpy())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Normal", {"loc": 0.0, "scale": -1.0}),
        ("Normal", {"loc": float("nan"), "scale": 1.0}),
        ("Categorical", {"probs": [-0.1, 1.0]}),
        ("Categorical", {"logits": [float("nan"), 1.0]}),
        ("Categorical", {"probs": [0.0, 0.0]}),
        ("Categorical", {"probs": 1.0}),
        ("Categorical", {}),
        ("Bernoulli", {}),
        ("Bernoulli", {"probs": 1.5}),
        (
            "Independent",
            {"base_distribution": distributions.Normal(0.0, 1.0), "reinterpreted_batch_ndims": 1},
        ),
        ("Categorical", {"probs": [1.0], "logits": [1.0]}),
    ],
)
def test_parameters_that_cannot_be_are_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=f"^{name}: "):
        getattr(distributions, name)(**options)
