"""CUDA devices: whether there are any, and the memory of the library behind them."""

import importlib
from typing import Any

from .arrays import cuda_device_count
from .arrays import device as _device


def is_available() -> bool:
    """Tell whether there is a CUDA device that the array library for CUDA can use."""
    return device_count() > 0


def device_count() -> int:
    """Return how many CUDA devices there are."""
    return cuda_device_count()


def synchronize(device: Any = "cuda") -> None:
    """Wait until everything that was started on a device has ended."""
    importlib.import_module("torch").cuda.synchronize(str(_device(device)))


def memory_stats(device: Any = "cuda") -> dict[str, int]:
    """Return torch's counters of its allocator on a device, with our names for the first four."""
    theirs = dict(importlib.import_module("torch").cuda.memory_stats(str(_device(device))))
    return {
        "reserved": theirs["reserved_bytes.all.current"],
        "allocated": theirs["allocated_bytes.all.current"],
        "peak_allocated": theirs["allocated_bytes.all.peak"],
        "misses": theirs["segment.all.allocated"],
        **theirs,
    }
