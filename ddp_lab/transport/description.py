"""Dtype and shape of an array as a few bytes, for those who receive it."""

import functools
from typing import Any

import numpy as np

from ddp_lab.reduction import BFLOAT16


@functools.lru_cache(maxsize=4096)
def describe(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return dtype and shape as bytes."""
    name = "bfloat16" if dtype == BFLOAT16 else dtype.str
    return " ".join([name, *map(str, shape)]).encode()


@functools.lru_cache(maxsize=4096)
def parse(description: bytes) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return what `describe` was given."""
    name, *shape = description.decode().split(" ")
    dtype = BFLOAT16 if name == "bfloat16" else np.dtype(name)
    return dtype, tuple(map(int, shape))
