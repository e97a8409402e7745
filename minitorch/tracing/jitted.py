"""`jit`: a function that is traced at its first call and then runs as a compiled graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

from minitorch.errors import ArgumentError
from minitorch.nn import Module
from minitorch.tensor import Tensor
from minitorch.tracing.structure import flatten, modules_of
from minitorch.tracing.symbol import Symbol
from minitorch.tracing.traced import Traced, record
from minitorch.tracing.tracer import is_tracing


class Jitted:
    """A function that runs as a graph, one for each combination of its arguments' types.

    Attributes:
        traces: the graphs, by shapes, dtypes and whatever else they were traced for.
    """

    def __init__(self, function: Callable[..., Any], optimize: bool = True) -> None:
        self.function, self.optimize = function, optimize
        self.traces: dict[Hashable, Traced] = {}
        if not isinstance(function, Module):
            functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function gives; traced first when it has not seen such arguments.

        Raises:
            GraphError: the function asks for a number that only a run can tell; names the line.
        """
        tensors: list[Tensor] = []
        static, rebuild = flatten((args, kwargs), tensors, "jit")
        if is_tracing() or any(isinstance(tensor, Symbol) for tensor in tensors):
            return self.function(*args, **kwargs)
        key = (static, tuple([_type(t) for t in tensors]), _modes(self.function))
        traced = self.traces.get(key)
        if traced is None or not traced.up_to_date():
            traced = self.traces[key] = record(
                self.function, tensors, rebuild, "jit", optimize=self.optimize
            )
        return traced.run(tensors)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return the bound method, when a method was decorated."""
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"<jit of {name}, {len(self.traces)} traced>"


def _type(tensor: Tensor) -> Hashable:
    return tensor.shape, tensor.dtype, str(tensor.device), tensor.requires_grad


def _modes(function: Any) -> Hashable:
    """Return each module that the function reaches, with what training or evaluation changes."""
    return tuple([
        (root, tuple([part.training for part in root.modules()])) for root in modules_of(function)
    ])  # fmt: skip


def jit(function: Callable[..., Any] | None = None, *, optimize: bool = True) -> Any:
    """Return `function`, or a module, as one that runs compiled; also a decorator.

    It is traced once for each combination of shapes, dtypes and other arguments, and for training
    and evaluation. Gradients of any order pass through. Parameters and other tensors that it uses
    from outside are read anew at each call, and buffers that it updates are written; other Python
    effects (printing, lists that grow) happen while tracing only.

    Args:
        optimize: rewrite the graph before its first run.
    Raises:
        ArgumentError: not a function.
    """
    if function is None:
        return functools.partial(jit, optimize=optimize)
    if not callable(function):
        raise ArgumentError(f"jit: got {type(function).__name__}, expected a function or a module.")
    return Jitted(function, optimize)
