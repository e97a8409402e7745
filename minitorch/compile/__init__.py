"""Generated code: fused elementwise and reduction kernels, products and convolutions by schedules.

All goes through LLVM where it is installed. `schedule` says what a schedule is, `tuning` how the
best one is searched for.

The package is also torch's function of that name: `minitorch.compile(function)`.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from minitorch.arrays.threads import get_num_threads as get_num_threads
from minitorch.arrays.threads import set_num_threads as set_num_threads

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

_OF_HOLDERS = " ".join(_HOLDERS.values()).split()
__all__ = sorted(["get_num_threads", "set_num_threads", *_OF_HOLDERS])
