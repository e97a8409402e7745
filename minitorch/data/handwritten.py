"""Handwritten digits, 8 by 8 pixels, as scikit-learn ships them: nothing is downloaded."""

from __future__ import annotations

import numpy as np

from minitorch.data.dataset import TensorDataset
from minitorch.errors import ArgumentError
from minitorch.extras import missing
from minitorch.tensor import tensor


def digits(
    train: bool = True, *, flat: bool = False, test_fraction: float = 0.2, seed: int = 0
) -> TensorDataset:
    """Return one side of a seeded split of the 1,797 digits.

    x: (n, 1, 8, 8) float32 in [0, 1], or (n, 64) with `flat`; y: (n,) int64, the digit.
    The two sides, `train=True` and `train=False`, share no picture.

    Raises:
        ImportError: scikit-learn is not installed.
    Source: E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998.
    """
    if not 0.0 < test_fraction < 1.0:
        raise ArgumentError(
            f"digits: got test_fraction {test_fraction}, expected one inside (0, 1)."
        )
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError(missing("digits", "lab", error)) from error
    bunch = load_digits()
    x = (bunch.images / 16.0).astype(np.float32)[:, None]  # pixels are 0 to 16
    y = bunch.target.astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(y))
    test_size = round(test_fraction * len(y))
    keep = order[test_size:] if train else order[:test_size]
    x = x[keep].reshape(len(keep), 64) if flat else x[keep]
    return TensorDataset(tensor(x), tensor(y[keep]))
