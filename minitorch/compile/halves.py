"""float16 to float32 and back, by the processor: rounded to nearest, ties to even.

May import: code_cache, engine, kernels, pool; allocator.
"""

import functools
import struct
from typing import Any

import numpy as np

from ..arrays import allocator
from . import code_cache, engine, kernels, pool

_Array = np.ndarray[Any, Any]
_TEXT = """
define void @kernel(i64 %lo, i64 %hi, ptr %table) {{
  %1 = getelementptr ptr, ptr %table, i64 1
  %2 = load ptr, ptr %table
  %3 = load ptr, ptr %1
  %source = load ptr, ptr %2
  %into = load ptr, ptr %3
  %last = sub i64 %hi, 16
  br label %vectors
vectors:
  %i = phi i64 [ %lo, %0 ], [ %next, %vector ]
  %whole = icmp sle i64 %i, %last
  br i1 %whole, label %vector, label %singles
vector:
  %4 = getelementptr {a}, ptr %source, i64 %i
  %5 = load <16 x {a}>, ptr %4, align 2
  %6 = {convert} <16 x {a}> %5 to <16 x {b}>
  %7 = getelementptr {b}, ptr %into, i64 %i
  store <16 x {b}> %6, ptr %7, align 2
  %next = add i64 %i, 16
  br label %vectors
singles:
  %j = phi i64 [ %i, %vectors ], [ %after, %single ]
  %some = icmp slt i64 %j, %hi
  br i1 %some, label %single, label %end
single:
  %8 = getelementptr {a}, ptr %source, i64 %j
  %9 = load {a}, ptr %8, align 2
  %10 = {convert} {a} %9 to {b}
  %11 = getelementptr {b}, ptr %into, i64 %j
  store {b} %10, ptr %11, align 2
  %after = add i64 %j, 1
  br label %singles
end:
  ret void
}}
"""


@functools.cache
def available() -> bool:
    """Tell whether this processor converts; others would call a library that may not be there."""
    return engine.available() and "f16c" in code_cache.processor_fields().get("flags", "").split()


@functools.cache
def _function(widens: bool) -> engine.Function:
    a, b, convert = ("half", "float", "fpext") if widens else ("float", "half", "fptrunc")
    return engine.Function(_TEXT.format(a=a, b=b, convert=convert))


def convert(array: _Array) -> _Array:
    """Return a contiguous array of float16 as float32, or the other way round."""
    widens = array.dtype == np.float16
    out = allocator.empty(array.shape, np.dtype(np.float32 if widens else np.float16))
    table = struct.pack("2q", *kernels.places_of((array, out)))
    pool.share(_function(widens).call, array.size, pool.GRAIN, table)
    return out
