"""Functions that `torch.compile` must call and not look into. Imports nothing of torch."""

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def eager(fn: F, *, also_callees: bool = True) -> F:
    """Return `fn`, to be run as it is even where a compiler traces its caller.

    What it calls in turn is traced again unless `also_callees`.

    `torch.compiler.disable` would import the compiler, which takes a second. Where nobody has
    imported it, nobody traces.
    """
    disabled: list[Callable[..., Any]] = []

    @functools.wraps(fn)
    def inner(*args: Any, **kwargs: Any) -> Any:
        disable = getattr(sys.modules.get("torch._dynamo"), "disable", None)
        if disable is None:  # not imported, or another thread is importing it now
            return fn(*args, **kwargs)
        if not disabled:
            disabled.append(disable(fn, recursive=also_callees, wrapping=False))
        return disabled[0](*args, **kwargs)

    return inner  # type: ignore[return-value]
