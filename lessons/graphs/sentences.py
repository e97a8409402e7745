"""Sentences of +1 and -1, of many lengths, and tables of them filled up to one length."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def some_sentence(symbols: int, rng: np.random.Generator) -> Floats:
    """Return an array (symbols, 1, 1) of +1 and -1, 70 % of them of one kind."""
    more = 0.7 if rng.random() < 0.5 else 0.3
    return np.where(rng.random((symbols, 1, 1)) < more, 1.0, -1.0).astype(np.float32)


def fill_up(group: Sequence[Floats], steps: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the table of some sentences, (steps, B, 1), padding at random, and their lengths."""
    table = rng.normal(size=(steps, len(group), 1)).astype(np.float32)
    for b, sentence in enumerate(group):
        table[: len(sentence), b] = sentence[:, 0]
    return table, np.array([[len(sentence)] for sentence in group], np.float32)
