"""A network of two layers for scikit-learn's digits, its parameters in one flat array."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

SHAPES = [(64, 32), (32,), (32, 10), (10,)]
SIZE = sum(int(np.prod(shape)) for shape in SHAPES)


def first_parameters(padded: int) -> Array:
    """Return random parameters, with zeros behind them up to `padded` elements."""
    params = np.zeros(padded, np.float32)
    params[:SIZE] = np.random.default_rng(0).normal(size=SIZE) / 8
    return params


def network(flat: Array, x: Array) -> tuple[Array, Array, Array]:
    """Return the hidden layer, the probabilities and the second weights of a 64-32-10 network."""
    cuts = np.cumsum([int(np.prod(shape)) for shape in SHAPES])
    parts = np.split(flat[:SIZE], cuts[:-1])
    w1, b1, w2, b2 = (p.reshape(s) for p, s in zip(parts, SHAPES, strict=True))
    hidden = np.tanh(x @ w1 + b1)
    logits = hidden @ w2 + b2
    exp = np.exp(logits - logits.max(axis=1, keepdims=True))
    return hidden, exp / exp.sum(axis=1, keepdims=True), w2


def loss_and_gradient(flat: Array, x: Array, y: Array) -> tuple[Any, Array]:
    """Return the mean cross entropy and its gradient, by hand."""
    hidden, prob, w2 = network(flat, x)
    loss = -np.log(prob[np.arange(len(y)), y]).mean()
    d_logits = (prob - np.eye(10, dtype=prob.dtype)[y]) / len(y)
    d_hidden = d_logits @ w2.T * (1 - hidden**2)
    grads = [x.T @ d_hidden, d_hidden.sum(axis=0), hidden.T @ d_logits, d_logits.sum(axis=0)]
    grad = np.zeros_like(flat)
    grad[:SIZE] = np.concatenate([g.reshape(-1) for g in grads])
    return loss, grad
