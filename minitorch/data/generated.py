"""Data drawn from formulas: nothing is downloaded, the same seed gives the same bits.

Each function returns a `TensorDataset`; `x, y = spirals().tensors` gives the arrays whole.
"""

from __future__ import annotations

import numpy as np

from minitorch.data.dataset import TensorDataset
from minitorch.data.seed import GeneratorLike, as_generator
from minitorch.tensor import tensor


def spirals(
    n: int = 300, classes: int = 3, noise: float = 0.2, seed: GeneratorLike = 0
) -> TensorDataset:
    """Return `n` points in the plane on `classes` interleaved spiral arms.

    Radius grows from 0 to 1 along an arm while its angle turns by 4 radians, plus Gaussian
    `noise` (radians). x: (n, 2) float32; y: (n,) int64, the arm.
    """
    draw = as_generator(seed)
    y = np.arange(n) % classes
    radius = draw.uniform(0.0, 1.0, n)
    angle = 2 * np.pi * y / classes + 4.0 * radius + noise * draw.normal(size=n)
    x = np.stack([radius * np.sin(angle), radius * np.cos(angle)], axis=1)
    return _dataset(x, y)


def moons(n: int = 200, noise: float = 0.1, seed: GeneratorLike = 0) -> TensorDataset:
    """Return `n` points on two interleaved half circles, with Gaussian `noise` on both axes.

    x: (n, 2) float32; y: (n,) int64, 0 for the upper half circle and 1 for the lower.
    """
    draw = as_generator(seed)
    y = np.arange(n) % 2
    angle = draw.uniform(0.0, np.pi, n)
    upper = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    lower = np.stack([1.0 - np.cos(angle), 0.5 - np.sin(angle)], axis=1)
    x = np.where(y[:, None] == 0, upper, lower) + noise * draw.normal(size=(n, 2))
    return _dataset(x, y)


def images(
    n: int = 512, size: int = 16, noise: float = 0.1, seed: GeneratorLike = 0
) -> TensorDataset:
    """Return `n` grey pictures of four shapes: bar, column, disc and cross.

    Position and extent vary; pixels lie in [0, 1] before Gaussian `noise`.
    x: (n, 1, size, size) float32; y: (n,) int64, the shape.
    """
    draw = as_generator(seed)
    y = np.arange(n) % 4
    center = draw.uniform(0.3, 0.7, (n, 2, 1, 1)) * size
    extent = draw.uniform(0.15, 0.3, (n, 1, 1)) * size
    rows, columns = np.mgrid[:size, :size] + 0.5
    down, across = np.abs(rows - center[:, 0]), np.abs(columns - center[:, 1])
    thin = max(1.0, size / 16)
    bar = (down <= thin) & (across <= extent)
    column = (across <= thin) & (down <= extent)
    disc = down**2 + across**2 <= extent**2
    picture = np.choose(y[:, None, None], [bar, column, disc, bar | column])
    x = picture + noise * draw.normal(size=(n, size, size))
    return _dataset(x[:, None], y)


def _dataset(x: np.ndarray, y: np.ndarray) -> TensorDataset:
    return TensorDataset(tensor(x.astype(np.float32)), tensor(y.astype(np.int64)))
