"""Train a small network in each of the four ways, and note how often it is right.

python labs/demos/distribution_options/recorded.py      writes recorded.json beside this file

240 digits to learn from, 1,557 never seen; 20 epochs of batches of 8. Copies: one learning rate
each, the best counts. Averaging gradients over parts of a batch, and cutting the model, are the
same arithmetic as one worker: a test says so.
"""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

Array = NDArray[np.float64]
KEPT = Path(__file__).with_name("recorded.json")
WORKERS = (1, 2, 4, 8)
RATES = (0.2, 0.5, 0.05, 0.3, 0.1, 1.0, 0.02, 2.0)  # one a copy
LR = 0.2


def data() -> tuple[Array, Array, Array, Array]:
    """Return the pictures and labels to learn from, and those never seen."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = x[order] / 16, y[order]
    return x[:240], y[:240], x[240:], y[240:]


def gradients(params: list[Array], x: Array, labels: Array) -> list[Array]:
    """Return the gradients of the mean cross entropy of a network 64-32-10."""
    w1, b1, w2, b2 = params
    hidden = (x @ w1 + b1).clip(0)
    z = hidden @ w2 + b2
    out = np.exp(z - z.max(axis=1, keepdims=True))
    out /= out.sum(axis=1, keepdims=True)
    out[np.arange(len(labels)), labels] -= 1
    out /= len(labels)
    inner = (out @ w2.T) * (hidden > 0)
    return [x.T @ inner, inner.sum(axis=0), hidden.T @ out, out.sum(axis=0)]


def trained(x: Array, labels: Array, lr: float, workers: int = 1) -> list[Array]:
    """Return the parameters after 20 epochs; workers share out each batch, and average."""
    rng = np.random.default_rng(0)
    params = [rng.normal(size=(64, 32)) / 8, np.zeros(32), rng.normal(size=(32, 10)) / 6]
    params.append(np.zeros(10))
    order = np.random.default_rng(1)
    for _ in range(20):
        for batch in np.array_split(order.permutation(len(x)), max(1, len(x) // 8)):
            shares = [rows for rows in np.array_split(batch, workers) if len(rows)]
            found = [gradients(params, x[rows], labels[rows]) for rows in shares]
            for at, param in enumerate(params):
                weighed = (len(rows) * grads[at] for rows, grads in zip(shares, found, strict=True))
                param -= lr * sum(weighed) / len(batch)
    return params


def mean(models: Iterable[list[Array]]) -> list[Array]:
    """Return the mean of each parameter."""
    return [np.mean(same, axis=0) for same in zip(*models, strict=True)]


def right(params: list[Array], x: Array, labels: Array) -> float:
    """Return the share of pictures that a network names right."""
    w1, b1, w2, b2 = params
    return float(np.mean(((x @ w1 + b1).clip(0) @ w2 + b2).argmax(axis=1) == labels))


def main() -> None:
    x, y, new_x, new_y = data()
    one = right(trained(x, y, LR), new_x, new_y)
    found: dict[str, dict[str, float]] = {"copies": {}, "end": {}, "each": {}, "model": {}}
    for n in WORKERS:
        best = max(right(trained(x, y, lr), new_x, new_y) for lr in RATES[:n])
        parts = [trained(x[k::n], y[k::n], LR) for k in range(n)]
        found["copies"][str(n)] = best
        found["end"][str(n)] = right(mean(parts), new_x, new_y)
        found["each"][str(n)] = right(trained(x, y, LR, workers=n), new_x, new_y)
        found["model"][str(n)] = one
    kept = {way: {n: round(s, 4) for n, s in of.items()} for way, of in found.items()}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(kept)


if __name__ == "__main__":
    main()
