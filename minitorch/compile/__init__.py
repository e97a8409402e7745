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
    from minitorch.compile.cost_model import CostModel as CostModel
    from minitorch.compile.engine import Function as Function
    from minitorch.compile.engine import available as available
    from minitorch.compile.engine import processor as processor
    from minitorch.compile.engine import vector_registers as vector_registers
    from minitorch.compile.gpu.explain import Explanation as Explanation
    from minitorch.compile.gpu.explain import explain as explain
    from minitorch.compile.kernels import Kernel as Kernel
    from minitorch.compile.kernels import kernel as kernel
    from minitorch.compile.products import ProductKernel as ProductKernel
    from minitorch.compile.products import conv2d as conv2d
    from minitorch.compile.products import matmul as matmul
    from minitorch.compile.rows import DTYPES as DTYPES
    from minitorch.compile.rows import POWERS as POWERS
    from minitorch.compile.rows import ROWS as ROWS
    from minitorch.compile.rows import Program as Program
    from minitorch.compile.rows import Step as Step
    from minitorch.compile.rows import gives as gives
    from minitorch.compile.rows import takes as takes
    from minitorch.compile.schedule import DeviceSchedule as DeviceSchedule
    from minitorch.compile.schedule import Schedule as Schedule
    from minitorch.compile.spaces import Space as Space
    from minitorch.compile.spaces import Table as Table
    from minitorch.compile.spaces import recorded as recorded
    from minitorch.compile.spaces import recorded_tasks as recorded_tasks
    from minitorch.compile.spaces import space as space
    from minitorch.compile.tuned import get_cache_directory as get_cache_directory
    from minitorch.compile.tuned import keep as keep
    from minitorch.compile.tuned import kernel_for as kernel_for
    from minitorch.compile.tuned import set_cache_directory as set_cache_directory
    from minitorch.compile.tuning import Tuned as Tuned
    from minitorch.compile.tuning import tune as tune

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

__all__ = sorted(["get_num_threads", "set_num_threads", *" ".join(_HOLDERS.values()).split()])
