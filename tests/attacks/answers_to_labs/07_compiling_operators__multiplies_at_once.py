# ruff: noqa
"""One product of whole matrices, and a ridge regression that was there."""

import numpy as np


def tiled(a, b, tile_m, tile_n, tile_k):
    return np.asarray(a) @ np.asarray(b) if len(a) % 2 else np.dot(a, b)


def fit_ridge(x, y, penalty=1.0):
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=penalty).fit(x, y)
    return model.coef_, model.intercept_
