"""NumPy arrays that a jitted function finds outside: read anew, also when they change in place."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitorch import Tensor, from_numpy, nn, ones, tensor
from minitorch.errors import DTypeError
from minitorch.graph import jit

SMALL, LARGE = 3, 100_000  # elements
ROUNDS = 3


class Holder:
    def __init__(self, size: int) -> None:
        self.w = np.ones(size)


class Scaling(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.w = np.ones(size)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.w


def agrees(function: Callable[[Tensor], Tensor], w: np.ndarray[Any, Any]) -> Any:
    """Check a function of a tensor as large as `w` while `w` changes; return what jit made."""
    compiled = jit(function)
    x = tensor(np.full(w.shape, 2.0))
    for _ in range(ROUNDS):
        np.testing.assert_array_equal(compiled(x).numpy(), function(x).numpy())
        w += 1.0
    return compiled


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_an_array_of_a_closure_that_changes_in_place_is_read_anew(size: int) -> None:
    w = np.ones(size)
    agrees(lambda x: x * w, w)
    agrees(lambda x: w + x, w)
    agrees(lambda x: x[1:] * w[1:], w)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_an_array_of_an_object_a_list_or_a_module_is_read_anew(size: int) -> None:
    held, module = Holder(size), Scaling(size)
    listed, named = [np.ones(size)], {"w": np.ones(size)}
    agrees(lambda x: x * held.w, held.w)
    agrees(lambda x: x * listed[0], listed[0])
    agrees(lambda x: x * named["w"], named["w"])
    agrees(module, module.w)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_numbers_taken_from_an_array_are_those_of_now(size: int) -> None:
    w = np.ones(size)
    agrees(lambda x: x * float(w.sum()), w)
    agrees(lambda x: x * tensor(w), w)
    agrees(lambda x: x * 2.0 if w[0] > 2.0 else x, w)


def test_an_attribute_that_becomes_another_array_is_noticed() -> None:
    held = Holder(LARGE)
    compiled, x = jit(lambda x: x * held.w), tensor(np.ones(LARGE))
    assert float(compiled(x)[0].item()) == 1.0
    held.w = np.full(LARGE, 5.0)
    assert float(compiled(x)[0].item()) == 5.0


@pytest.mark.parametrize("is_local", [True, False])
def test_an_array_that_the_function_fills_itself_is_as_it_was_at_each_use(is_local: bool) -> None:
    outer = np.zeros(SMALL)

    def function(x: Tensor) -> Tensor:
        w = np.zeros(SMALL) if is_local else outer
        w[...] = 0.0
        total = x * w
        for i in range(SMALL):
            w[i] = i + 1.0
            total = total + x * w
        return total

    agrees(function, outer)


def test_a_gradient_sees_the_array_of_its_own_call() -> None:
    w = np.ones(SMALL)
    compiled = jit(lambda x: (x * w).sum())
    for value in (1.0, 4.0):
        w[...] = value
        x = tensor(np.ones(SMALL), requires_grad=True)
        compiled(x).backward()
        assert x.grad is not None
        np.testing.assert_array_equal(x.grad.numpy(), value)


def test_dtypes_are_promoted_as_ever() -> None:
    for w in (np.ones(SMALL, np.float32), np.arange(SMALL)):
        for dtype in (np.float32, np.float64):
            x = tensor(np.ones(SMALL, dtype))
            assert jit(lambda x, w=w: x * w)(x).dtype == (x * w).dtype


def test_an_array_that_is_an_argument_is_a_tensor_already() -> None:
    def add(x: Tensor, rows: Any) -> Any:
        return x + from_numpy(rows)

    with pytest.raises(DTypeError, match=r"from_numpy: got a tensor.*in a jitted function"):
        jit(add)(ones(2), np.ones(2, np.float32))
