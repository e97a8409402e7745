"""Generated code: fused elementwise and reduction kernels, through LLVM where it is installed.

The package is also torch's function of that name: `minitorch.compile(function)`.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from minitorch.compile.engine import Function, assembly, available
from minitorch.compile.kernels import Kernel, get_num_threads, kernel, set_num_threads
from minitorch.compile.program import DTYPES, Program, Step
from minitorch.compile.rows import POWERS, ROWS, gives, takes


class _Callable(ModuleType):
    """A package that can be called; what it calls stands above it, so is only named here."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return import_module("minitorch.tracing.compiled").compiled(*args, **options)


sys.modules[__name__].__class__ = _Callable

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
