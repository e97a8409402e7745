"""Generated code: fused elementwise and reduction kernels, products and convolutions by schedules.

All goes through LLVM where it is installed. `schedule` says what a schedule is, `tuning` how the
best one is searched for.

The package is also torch's function of that name: `minitorch.compile(function)`.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from minitorch.arrays.threads import get_num_threads as get_num_threads
from minitorch.arrays.threads import set_num_threads as set_num_threads

if TYPE_CHECKING:
    from minitorch.compile.cost_model import CostModel
    from minitorch.compile.engine import Function, available, processor, vector_registers
    from minitorch.compile.gpu.explain import Explanation, explain
    from minitorch.compile.kernels import Kernel, kernel
    from minitorch.compile.products import ProductKernel, conv2d, matmul
    from minitorch.compile.rows import DTYPES, POWERS, ROWS, Program, Step, gives, takes
    from minitorch.compile.schedule import DeviceSchedule, Schedule
    from minitorch.compile.spaces import Space, Table, recorded, recorded_tasks, space
    from minitorch.compile.tuned import get_cache_directory, keep, kernel_for, set_cache_directory
    from minitorch.compile.tuning import Tuned, tune

_HOLDERS = {
    "cost_model": "CostModel",
    "engine": "Function available processor vector_registers",
    "gpu.explain": "Explanation explain",
    "kernels": "Kernel kernel",
    "products": "ProductKernel conv2d matmul",
    "rows": "DTYPES POWERS ROWS Program Step gives takes",
    "schedule": "DeviceSchedule Schedule",
    "spaces": "Space Table recorded recorded_tasks space",
    "tuned": "get_cache_directory keep kernel_for set_cache_directory",
    "tuning": "Tuned tune",
}
"""Which module has which names; each is imported when one of them is asked for: a step of training
that runs two kernels does without the search."""


def __getattr__(name: str) -> Any:
    for module, names in _HOLDERS.items():
        if name in names.split():
            value = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Callable(ModuleType):
    """A package that can be called; what it calls stands above it, so is only named here."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return import_module("minitorch.tracing.jitted").compile_model(*args, **options)


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
    "recorded_tasks",
    "set_cache_directory",
    "set_num_threads",
    "space",
    "takes",
    "tune",
    "vector_registers",
]
