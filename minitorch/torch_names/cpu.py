"""The memory behind tensors on the CPU, under the name that torch has for a GPU's.

    minitorch.cpu.memory_stats()
    {'reserved': 2097152, 'allocated': 400384, 'peak_allocated': ..., 'hits': ..., 'misses': ...}

Counted are large results of operators, which lie in the caching allocator; what is smaller comes
from the C library.
"""

from minitorch.arrays.allocator import cpu

memory_stats = cpu.stats
