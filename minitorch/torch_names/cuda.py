"""CUDA devices: whether there are any, and the memory of the library behind them.

Questions about memory and seeds are answered without a device too, as torch answers them.
"""

import importlib
import sys
from typing import Any

from minitorch.arrays.generator import default_generator
from minitorch.arrays.library import (
    Device,
    DeviceLike,
    cuda_device_count,
    native_device,
    native_module,
)
from minitorch.arrays.library import device as _device

device_count = cuda_device_count


def is_available() -> bool:
    """Tell whether there is a CUDA device that the array library for CUDA can use."""
    return device_count() > 0


def synchronize(device: DeviceLike = "cuda") -> None:
    """Wait until everything that was started on a device has ended."""
    native_module().synchronize(native_device(_device(device)))


def manual_seed_all(seed: int) -> None:
    """Start the random numbers of every CUDA device anew at `seed`."""
    for index in range(device_count()):
        default_generator(Device("cuda", index)).manual_seed(seed)


manual_seed = manual_seed_all


def is_bf16_supported() -> bool:
    """Tell whether a device computes with bfloat16."""
    return is_available() and bool(native_module().is_bf16_supported())


def memory_allocated(device: DeviceLike = "cuda") -> int:
    """Return the bytes of tensors on a device; 0 without one."""
    return _memory("memory_allocated", device)


def max_memory_allocated(device: DeviceLike = "cuda") -> int:
    """Return the most bytes that tensors on a device had at a time; 0 without one."""
    return _memory("max_memory_allocated", device)


def memory_reserved(device: DeviceLike = "cuda") -> int:
    """Return the bytes held from a device; 0 without one."""
    return _memory("memory_reserved", device)


def reset_peak_memory_stats(device: DeviceLike = "cuda") -> None:
    """Count the most bytes anew from now on."""
    _memory("reset_peak_memory_stats", device)


def empty_cache() -> None:
    """Give memory that nothing uses back to the devices."""
    if is_available():
        native_module().empty_cache()


def _memory(name: str, device: DeviceLike) -> int:
    """Return what torch's function of that name gives; 0 where there is no device at all."""
    if not is_available():
        return 0
    return int(getattr(native_module(), name)(native_device(_device(device))) or 0)


def memory_stats(device: DeviceLike = "cuda") -> dict[str, int]:
    """Return the counters of torch's allocator on a device, named as those of `cpu`."""
    theirs = native_module().memory_stats(native_device(_device(device)))
    return {
        "reserved": theirs["reserved_bytes.all.current"],
        "allocated": theirs["allocated_bytes.all.current"],
        "peak_allocated": theirs["allocated_bytes.all.peak"],
        "misses": theirs["segment.all.allocated"],
    }


GRAPHS = {"CUDAGraph", "graph", "graph_pool_handle", "make_graphed_callables"}


def __getattr__(name: str) -> Any:
    """Raise an AttributeError that says what to do without CUDA graphs."""
    if name in GRAPHS:
        raise AttributeError(
            f"minitorch.cuda.{name}: CUDA graphs are not taken: a step is launched kernel by "
            "kernel. Use minitorch.compile(step), which fuses its operators."
        )
    raise AttributeError(f"module 'minitorch.cuda' has no attribute {name!r}")


# Torch has `amp` here too: `from torch.cuda.amp import autocast`.
amp = sys.modules[f"{__name__}.amp"] = importlib.import_module("minitorch.amp")
