"""From imperative code to a dataflow graph: `trace` records one run, `jit` runs the record.

Stands above `tensor`, `nn` and `graph`, which hands these names on.
"""

from minitorch.tracing.control import cond, while_loop
from minitorch.tracing.jitted import Jitted, jit
from minitorch.tracing.traced import Traced, trace

__all__ = [
    "Jitted",
    "Traced",
    "cond",
    "jit",
    "trace",
    "while_loop",
]
