"""Functions that `torch.compile` must call and not look into. Imports nothing of torch."""

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def eager(fn: F) -> F:
    """Return `fn`, to be run as it is even where a compiler traces its caller.

    `torch.compiler.disable` would import the compiler, which takes a second. Where nobody has
    imported it, nobody traces.
    """
    disabled: list[Callable[..., Any]] = []

    @functools.wraps(fn)
    def inner(*args: Any, **kwargs: Any) -> Any:
        if "torch._dynamo" not in sys.modules:
            return fn(*args, **kwargs)
        if not disabled:
            disabled.append(sys.modules["torch._dynamo"].disable(fn, wrapping=False))
        return disabled[0](*args, **kwargs)

    return inner  # type: ignore[return-value]
