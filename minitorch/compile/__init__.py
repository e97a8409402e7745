"""Generated code: fused elementwise and reduction kernels, through LLVM where it is installed."""

from minitorch.compile.engine import Function, assembly, available
from minitorch.compile.kernels import Kernel, get_num_threads, kernel, set_num_threads
from minitorch.compile.program import DTYPES, Program, Step
from minitorch.compile.rows import POWERS, ROWS, gives, takes

__all__ = [
    "DTYPES",
    "POWERS",
    "ROWS",
    "Function",
    "Kernel",
    "Program",
    "Step",
    "assembly",
    "available",
    "get_num_threads",
    "gives",
    "kernel",
    "set_num_threads",
    "takes",
]
