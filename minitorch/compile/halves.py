"""float16 to float32 and back, by the processor: rounded to nearest, ties to even.

May import: code_cache, engine, kernels, pool, text; allocator.
"""

import functools
from typing import Any

import numpy as np

from ..arrays import allocator
from . import code_cache, engine, kernels, pool
from .text import KERNEL, Text

_Array = np.ndarray[Any, Any]


@functools.cache
def available() -> bool:
    """Tell whether this processor converts; others would call a library that may not be there."""
    return engine.available() and "f16c" in code_cache.processor_fields().get("flags", "").split()


@functools.cache
def _function(widens: bool) -> engine.Function:
    a, b, how = ("half", "float", "fpext") if widens else ("float", "half", "fptrunc")
    t = Text("float32")
    source, into = t.arrays(2)

    def convert_vector(i: str, inside: str | None) -> None:
        numbers = t.load(t.at(source, i, a), inside, element=a, align=2)
        converted = t.emit(f"{how} {t.of(a)} {numbers} to {t.of(b)}")
        t.store(converted, t.at(into, i, b), inside, element=b, how="align 2")

    t.each(convert_vector, "%hi", "%lo")
    return engine.Function(t.module(KERNEL))


def convert(array: _Array) -> _Array:
    """Return a contiguous array of float16 as float32, or the other way round."""
    widens = array.dtype == np.float16
    out = allocator.empty(array.shape, np.dtype(np.float32 if widens else np.float16))
    kernels.run(_function(widens), (array, out), (), array.size, pool.GRAIN)
    return out
