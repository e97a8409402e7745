"""Handwritten digits, 8 by 8 pixels, as scikit-learn ships them: nothing is downloaded."""

import numpy as np

from minitorch.data.dataset import TensorDataset
from minitorch.extras import describe_missing
from minitorch.tensor.tensor import tensor

TEST_SIZE = 359  # a fifth


def digits(train: bool = True, *, flat: bool = False) -> TensorDataset:
    """Return one side of a seeded split of the 1,797 digits.

    x: (n, 1, 8, 8) float32 in [0, 1], or (n, 64) with `flat`; y: (n,) int64, the digit.
    The two sides, `train=True` and `train=False`, share no picture.

    Raises:
        ImportError: scikit-learn is not installed.
    Source: E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError(describe_missing("digits", "lab", error)) from error
    bunch = load_digits()
    x = (bunch.images / 16.0).astype(np.float32)[:, None]  # pixels are 0 to 16
    y = bunch.target.astype(np.int64)
    order = np.random.default_rng(0).permutation(len(y))
    keep = order[TEST_SIZE:] if train else order[:TEST_SIZE]
    x = x[keep].reshape(len(keep), 64) if flat else x[keep]
    return TensorDataset(tensor(x), tensor(y[keep]))
