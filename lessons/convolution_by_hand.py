"""Two convolutions and a linear layer in NumPy, every gradient derived on paper; Adam on arrays.

A convolution is a matrix product once the picture has been cut into overlapping windows; its
gradient puts the windows back, adding where they overlap.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def conv_forward(x: Array, w: Array, b: Array, stride: int) -> tuple[Array, Array]:
    """Return (windows (N, H', W', 9 C), result (N, K, H', W'))."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    cut = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    cut = cut[:, :, ::stride, ::stride].transpose(0, 2, 3, 1, 4, 5)
    windows = cut.reshape(*cut.shape[:3], -1)
    return windows, (windows @ w.reshape(len(w), -1).T + b).transpose(0, 3, 1, 2)


def conv_backward(
    x: Array, w: Array, stride: int, windows: Array, out_grad: Array
) -> tuple[Array, Array, Array]:
    """Return the gradients of x, w and b."""
    g = out_grad.transpose(0, 2, 3, 1)
    flat = g.reshape(-1, len(w))
    dw = (flat.T @ windows.reshape(len(flat), -1)).reshape(w.shape)
    pieces = (g @ w.reshape(len(w), -1)).reshape(*g.shape[:3], *w.shape[1:])
    n, c, rows, columns = x.shape
    dx = np.zeros((n, c, rows + 2, columns + 2), x.dtype)
    for i in range(3):
        for j in range(3):
            part = pieces[..., i, j].transpose(0, 3, 1, 2)
            dx[:, :, i : i + rows : stride, j : j + columns : stride] += part
    return dx[:, :, 1:-1, 1:-1], dw, flat.sum(axis=0)


def gradients_by_hand(weights: Sequence[Array], x: Array, y: Array) -> tuple[float, list[Array]]:
    """Return (loss, gradients) of the network, by every line that was derived on paper."""
    w1, b1, w2, b2, w3, b3 = weights
    windows1, z1 = conv_forward(x, w1, b1, 1)
    h1 = np.maximum(z1, 0)
    windows2, z2 = conv_forward(h1, w2, b2, 2)
    h2 = np.maximum(z2, 0)
    flat = h2.reshape(len(x), -1)
    logits = flat @ w3.T + b3
    shifted = logits - logits.max(axis=1, keepdims=True)
    p = np.exp(shifted)
    p /= p.sum(axis=1, keepdims=True)
    loss = -np.log(p[np.arange(len(y)), y]).mean()
    p[np.arange(len(y)), y] -= 1
    g = p / len(y)
    dh2 = (g @ w3).reshape(h2.shape) * (h2 > 0)
    dh1, dw2, db2 = conv_backward(h1, w2, 2, windows2, dh2)
    _, dw1, db1 = conv_backward(x, w1, 1, windows1, dh1 * (h1 > 0))
    return float(loss), [dw1, db1, dw2, db2, g.T @ flat, g.sum(axis=0)]


class StepByHand:
    """Training of the network by Adam on arrays; called with a batch, returns its loss."""

    def __init__(self, weights: Sequence[Array], lr: float = 0.003) -> None:
        self.weights, self.lr, self.t = weights, lr, 0
        self.means, self.squares = ([np.zeros_like(w) for w in weights] for _ in range(2))

    def __call__(self, x: Array, y: Array) -> float:
        """Take one step; return the loss before it."""
        loss, grads = gradients_by_hand(self.weights, x, y)
        self.t += 1
        for w, m, s, g in zip(self.weights, self.means, self.squares, grads, strict=True):
            m += 0.1 * (g - m)
            s += 0.001 * (g * g - s)
            root = np.sqrt(s / (1 - 0.999**self.t)) + 1e-8
            w -= self.lr / (1 - 0.9**self.t) * m / root
        return loss


WRITTEN = (conv_forward, conv_backward, gradients_by_hand, StepByHand)  # all that it takes
