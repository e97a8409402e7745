"""The next token from a row of logits: the largest, or a draw that only the seed decides.

Draw number n of a request comes from a hash of its seed and n, and from nothing else: no state is
carried, so a request that starts anew in the middle goes on with the same draws, whatever shares
its batch.

May import: NumPy.
"""

import math
from hashlib import blake2b
from typing import NamedTuple

import numpy as np


class Sampling(NamedTuple):
    """How a request chooses its tokens."""

    temperature: float  # 0 takes the largest, the first of equals
    top_k: int | None  # only so many of the largest can be drawn
    seed: int


def sample(logits_V: np.ndarray, sampling: Sampling, draw: int) -> int:
    """Return a token.

    Args:
        logits_V: shape (V,), real; -inf is a token that cannot be.
        draw: the number of the new token in its reply.
    Raises:
        ValueError: a logit is NaN or +inf, or none is finite.
    """
    peak = float(logits_V.max())
    if not math.isfinite(peak):  # the largest of a row with NaN is NaN
        raise ValueError(f"the largest logit is {peak}, expected a finite number")
    if sampling.temperature == 0:
        return int(logits_V.argmax())
    tokens = largest(logits_V, sampling.top_k)
    with np.errstate(over="ignore"):  # a temperature near 0 leaves the largest alone
        weights = np.exp((logits_V[tokens].astype(np.float64) - peak) / sampling.temperature)
    sums = np.cumsum(weights)
    at = int(np.searchsorted(sums, uniform(sampling.seed, draw) * sums[-1], side="right"))
    return int(tokens[min(at, len(tokens) - 1)])


def largest(logits_V: np.ndarray, count: int | None) -> np.ndarray:
    """Return the places of the largest logits in order of place; of equals the first."""
    if count is None or count >= len(logits_V):
        return np.arange(len(logits_V))
    least = np.partition(logits_V, -count)[-count]
    above = np.flatnonzero(logits_V > least)
    equal = np.flatnonzero(logits_V == least)[: count - len(above)]
    return np.sort(np.concatenate([above, equal]))


def uniform(seed: int, draw: int) -> float:
    """Return a number from 0 to below 1 that these two decide."""
    digest = blake2b(f"{seed}:{draw}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53
