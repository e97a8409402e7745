"""Where data draws its randomness: a seed, a generator, or the library's global generator."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from minitorch.arrays import int64
from minitorch.generator import Generator, default_generator

GeneratorLike: TypeAlias = int | np.random.Generator | Generator | None


def as_generator(generator: GeneratorLike) -> np.random.Generator:
    """Return a NumPy generator: the given one, one of the given seed, or a child of the global.

    With None the result depends on `minitorch.manual_seed` and moves the global generator on,
    so two passes over a shuffled loader differ and a seeded run repeats.
    """
    if isinstance(generator, np.random.Generator):
        return generator
    if isinstance(generator, int):
        return np.random.default_rng(generator)
    parent = default_generator() if generator is None else generator
    return np.random.default_rng(int(parent.integers(0, 2**62, (1,), int64)[0]))
