"""The memory behind tensors on the CPU, under the names that torch has for a GPU's.

    minitorch.cpu.memory_stats()
    {'reserved': 2097152, 'allocated': 400384, 'peak_allocated': ..., 'hits': ..., 'splits': ...}

Counted are large results of operators, which lie in the caching allocator; what is smaller comes
from the C library.
"""

from .allocator import cpu as _allocator


def memory_stats() -> dict[str, int]:
    """Return the counters of the allocator.

    reserved: bytes held from the system; allocated, peak_allocated: bytes handed out, now and at
    most; hits, misses: requests served from cached memory, or by a new segment; splits, merges: of
    blocks.
    """
    return _allocator.stats()


def memory_reserved() -> int:
    """Return the bytes held from the system."""
    return memory_stats()["reserved"]


def memory_allocated() -> int:
    """Return the bytes handed out."""
    return memory_stats()["allocated"]


def max_memory_allocated() -> int:
    """Return the most bytes that were handed out at a time."""
    return memory_stats()["peak_allocated"]


def reset_peak_memory_stats() -> None:
    """Count the most bytes handed out anew from now on."""
    _allocator.reset_peak()


def empty_cache() -> None:
    """Give memory that nothing uses back to the system."""
    _allocator.empty_cache()
