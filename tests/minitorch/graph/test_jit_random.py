"""Random numbers, tensors made to be written into, and `grad`, inside a function for `jit`.

The oracle is the function as it is: from the same seed it draws the same numbers in the same order.
"""

from collections.abc import Callable

import numpy as np
import pytest

import minitorch as mt
from minitorch import Tensor, distributions, nn
from minitorch.errors import GraphError
from minitorch.nn import functional as F
from minitorch.tracing import jit

X = mt.tensor(np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32))
WEIGHTS = F.softmax(X, -1)
drop = nn.Dropout(0.5)


def assigned(x: Tensor) -> Tensor:
    out = mt.zeros(6, 2)
    out[:, 0], out[:, 1] = x.sum(1), x.prod(1)
    return out


def counted(x: Tensor) -> Tensor:
    total, last = mt.zeros(()), x.new_zeros(3)
    for i in range(3):
        total += x[i].sum()
        last[i] = total
    return last


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "randn": lambda x: x + mt.randn(6, 4),
    "rand": lambda x: x + mt.rand(6, 4) * mt.rand_like(x),
    "randint": lambda x: x[mt.randint(0, 6, (3,))],
    "randperm": lambda x: x[mt.randperm(6)],
    "bernoulli": lambda x: mt.bernoulli(mt.sigmoid(x)),
    "normal": lambda x: mt.normal(x, mt.exp(x)),
    "normal_": lambda x: mt.empty_like(x).normal_(1.0, 2.0) + x,
    "uniform_": lambda x: (x * 1).uniform_(-1, 1),
    "multinomial": lambda x: x[mt.multinomial(WEIGHTS, 2)[:, 0]],
    "of several kinds": lambda x: drop(x) * mt.rand(4) + drop(mt.randn(6, 4)),
    "of nothing else": lambda x: mt.randn(3),
    "of a distribution": lambda x: distributions.Normal(x, mt.exp(x)).rsample(),
    "zeros assigned to": assigned,
    "zeros added to": counted,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_compiled_function_draws_and_fills_as_it_does_uncompiled(name: str) -> None:
    function = FUNCTIONS[name]
    mt.manual_seed(1)
    expected = [function(X).numpy() for _ in range(3)]
    compiled = jit(function)
    mt.manual_seed(1)
    for numbers in expected:
        np.testing.assert_allclose(compiled(X).numpy(), numbers, rtol=1e-6)


def test_numbers_come_from_the_generator_that_is_given() -> None:
    source = mt.Generator().manual_seed(3)
    expected = [mt.randn(3, generator=source).tolist() for _ in range(2)]
    compiled = jit(lambda: mt.randn(3, generator=source))
    source.manual_seed(3)
    assert [compiled().tolist() for _ in range(2)] == expected


def test_a_variational_autoencoder_trains_as_it_does_uncompiled() -> None:
    def trained(wrap: Callable[[Callable[[Tensor], Tensor]], Callable[[Tensor], Tensor]]) -> object:
        mt.manual_seed(0)
        encoder, decoder = nn.Linear(4, 4), nn.Linear(2, 4)
        adam = mt.optim.Adam([*encoder.parameters(), *decoder.parameters()], 1e-2)

        def step(x: Tensor) -> Tensor:
            mean, log_variance = encoder(x).chunk(2, 1)
            code = mean + mt.randn_like(mean) * mt.exp(0.5 * log_variance)
            divergence = (mean**2 + mt.exp(log_variance) - 1 - log_variance).mean()
            loss = ((decoder(code) - x) ** 2).mean() + 0.5 * divergence
            adam.zero_grad()
            loss.backward()
            adam.step()
            return loss

        compiled = wrap(step)
        return [compiled(X).item() for _ in range(6)]

    np.testing.assert_allclose(trained(jit), trained(lambda step: step), rtol=1e-5)


@pytest.mark.parametrize("create_graph", [False, True])
def test_grad_inside_gives_what_it_gives_outside(create_graph: bool) -> None:
    point = X.clone().requires_grad_()

    def slope(x: Tensor) -> Tensor:
        return mt.grad((x**3).sum(), x, create_graph=create_graph)[0]

    compiled = jit(slope)(point)
    np.testing.assert_allclose(compiled.detach().numpy(), 3 * X.numpy() ** 2, rtol=1e-5)
    assert compiled.requires_grad is create_graph


def test_a_leaf_made_inside_gets_its_gradient() -> None:
    def slope(x: Tensor) -> Tensor:
        point = mt.zeros(4, requires_grad=True)
        ((x @ point - 1) ** 2).sum().backward()
        return point.grad  # type: ignore[return-value]

    np.testing.assert_allclose(jit(slope)(X).numpy(), -2 * X.numpy().sum(0), rtol=1e-5)


def test_numbers_of_the_library_that_no_operator_draws_are_refused() -> None:
    def shuffled(x: Tensor) -> Tensor:
        return x[mt.tensor(mt.default_generator().permutation(6))]

    with pytest.raises(GraphError, match="random numbers were drawn"):
        jit(shuffled)(X)
