"""A small network for handwritten digits, of operators that take tensors and nodes alike."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import minitorch as mt
from minitorch.tensor.tensor import Tensor

Floats = NDArray[np.float32]
BATCHES = 24  # of an epoch


def network(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Any:
    """Return the logits of a network 64-width-10."""
    return mt.tanh(x @ w1 + b1) @ w2 + b2


def cross_entropy(logits: Tensor, one_hot: Tensor) -> Any:
    """Return the mean of -log softmax at the label."""
    shifted = logits - logits.amax(dim=1, keepdim=True)
    log_total = mt.log(mt.exp(shifted).sum(dim=1, keepdim=True))
    return ((log_total - shifted) * one_hot).sum(dim=1).mean()


def initial(width: int = 32) -> list[Floats]:
    """Return the same starting point each time: w1, b1, w2, b2."""
    rng = np.random.default_rng(2)
    shapes = [(64, width), (width,), (width, 10), (10,)]
    return [(rng.normal(size=s) / 8 * (len(s) == 2)).astype(np.float32) for s in shapes]


def growing_parts(width: int, device: str) -> Callable[..., float]:
    """Return a function that computes, for 256 images, what grows with the width, and waits."""
    sizes = (256, 64), (256, width), (64, width), (width, 10), (256, 10)
    x, h, w1, w2, logits_grad = (mt.ones(*size, device=device) / 2 for size in sizes)

    def run(*_: object) -> float:
        with mt.no_grad():
            h_grad = (logits_grad @ w2.T) * (1 - h * h)
            bias_grad = h_grad.sum(0)
            _ = mt.tanh(x @ w1 + h), h @ w2, h.T @ logits_grad, x.T @ h_grad
            return float(bias_grad.sum().item())

    return run


def batches(rows: int, epochs: int) -> Iterator[NDArray[np.int64]]:
    """Yield the rows of each batch, the same at every call."""
    order = np.random.default_rng(3)
    for _ in range(epochs):
        yield from np.array_split(order.permutation(rows), BATCHES)
