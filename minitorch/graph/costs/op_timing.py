"""Trials: an operator that no formula describes is timed on numbers of its inputs' sizes.

A convolution, a pooling, an optimizer's step: what they cost is in their code. The numbers are all
alike, since times hardly depend on them; an operator that does not take such numbers has no trial.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...arrays import DType
from ...op import Op
from ..core.variables import StateOp
from ..passes.cse import signature
from ..train.optimizer import Update

Spec = tuple[tuple[int, ...], DType]
LARGEST = 2**28  # bytes of the inputs of a trial
ALIKE = 0.7  # neither 0 nor 1 nor a denormal after some squares


def trial(op: Op, specs: Sequence[Spec]) -> tuple[Any, Callable[[], Any]] | None:
    """Return a key under which the time of such work is known, and the work; None for neither.

    Args:
        specs: the shape and dtype of each input.
    """
    if isinstance(op, Update):
        specs = [*specs, *((tuple(map(_size, v.shape)), v.dtype) for v in op.writes)]
    elif isinstance(op, StateOp) or not op.pure:
        return None
    if sum(_bytes(spec) for spec in specs) > LARGEST:
        return None
    arrays = [_numbers(*spec) for spec in specs]
    work = _update(op, arrays) if isinstance(op, Update) else lambda: op.compute(np, *arrays)
    try:
        with np.errstate(all="ignore"):
            work()
    except Exception:
        return None
    return (signature(op), *((shape, dtype.name) for shape, dtype in specs)), work


def _update(op: Update, arrays: Sequence[Any]) -> Callable[[], Any]:
    count = len(arrays) - len(op.writes)
    (grad, *hyper), values = arrays[:count], list(arrays[count:])
    return lambda: op.rule(grad, values, *hyper)


def _numbers(shape: tuple[int, ...], dtype: DType) -> Any:
    return np.full(shape, ALIKE if dtype.kind == "f" else 0, dtype)


def _size(size: int | None) -> int:
    return size or 1


def _bytes(spec: Spec) -> int:
    shape, dtype = spec
    return int(np.prod(shape, dtype=np.int64)) * int(dtype.itemsize)
