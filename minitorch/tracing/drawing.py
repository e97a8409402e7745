"""Random numbers that no operator draws, which would be the same in every run of a trace.

May import: NumPy, arrays, errors.
"""

import pickle
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from minitorch.arrays.generator import default_generator
from minitorch.errors import GraphError


@contextmanager
def forbid_drawing(operation: str, streams: Sequence[Any]) -> Iterator[None]:
    """Raise if random numbers are drawn inside: they would be the same in every run."""
    generator = default_generator()
    states: list[tuple[Any, ...]] = [
        (generator.get_state, generator.set_state),
        (random.getstate, random.setstate),
        (np.random.get_state, np.random.set_state),
        *map(_state, streams),
    ]
    before = [get() for get, _ in states]
    generator.uniform((1,), np.dtype(np.float32))  # so that setting the seed again is seen too
    as_bytes = [_bytes(get()) for get, _ in states]
    try:
        yield
        unchanged = [_bytes(get()) for get, _ in states] == as_bytes
    finally:
        for (_, put), state in zip(states, before, strict=True):
            put(state)
    if not unchanged:
        raise GraphError(
            f"{operation}: random numbers were drawn, or a seed was set, while tracing, which no "
            "run would do again. Draw by randn and its kin, set seeds outside, or pass an input."
        )


def _state(stream: Any) -> tuple[Any, ...]:
    """Return how to get and to set the state of a generator of Python's or NumPy's."""
    if isinstance(stream, np.random.Generator):
        bits = stream.bit_generator
        return partial(getattr, bits, "state"), partial(setattr, bits, "state")
    if isinstance(stream, np.random.RandomState):
        return stream.get_state, stream.set_state
    return stream.getstate, stream.setstate


def _bytes(state: Any) -> bytes:
    """Return what a generator's state holds, be it numbers in a dict or torch's bytes."""
    return pickle.dumps(state.tolist() if hasattr(state, "tolist") else state)
