"""Generated code: fused elementwise and reduction kernels, products and convolutions by schedules.

All goes through LLVM where it is installed. `schedule` says what a schedule is, `tuning` how the
best one is searched for.

The package is also torch's function of that name: `minitorch.compile(function)`.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from minitorch.arrays.threads import get_num_threads, set_num_threads
from minitorch.compile.cost_model import CostModel
from minitorch.compile.engine import (
    Function,
    available,
    processor,
    vector_registers,
)
from minitorch.compile.gpu.explain import Explanation, explain
from minitorch.compile.kernels import Kernel, kernel
from minitorch.compile.products import ProductKernel, conv2d, matmul
from minitorch.compile.rows import DTYPES, POWERS, ROWS, Program, Step, gives, takes
from minitorch.compile.schedule import DeviceSchedule, Schedule
from minitorch.compile.spaces import Space, Table, recorded, space
from minitorch.compile.tuned import (
    get_cache_directory,
    keep,
    kernel_for,
    set_cache_directory,
)
from minitorch.compile.tuning import Tuned, tune


class _Callable(ModuleType):
    """A package that can be called; what it calls stands above it, so is only named here."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return import_module("minitorch.tracing.jitted").compiled(*args, **options)


sys.modules[__name__].__class__ = _Callable

__all__ = [
    "DTYPES",
    "POWERS",
    "ROWS",
    "CostModel",
    "DeviceSchedule",
    "Explanation",
    "Function",
    "Kernel",
    "ProductKernel",
    "Program",
    "Schedule",
    "Space",
    "Step",
    "Table",
    "Tuned",
    "available",
    "conv2d",
    "explain",
    "get_cache_directory",
    "get_num_threads",
    "gives",
    "keep",
    "kernel",
    "kernel_for",
    "matmul",
    "processor",
    "recorded",
    "set_cache_directory",
    "set_num_threads",
    "space",
    "takes",
    "tune",
    "vector_registers",
]
