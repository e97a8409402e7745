# ruff: noqa
"""The line is fitted by what fits the constants of the package's own closed forms."""

import numpy as np


def fit_line(times):
    from ddp_lab.costs.fit import _fit_linear

    quickest = np.array([min(seconds) for seconds in times.values()])
    a, b, _ = _fit_linear(np.array([[1.0, size, 0.0] for size in times]), quickest)
    return float(a), float(b)
