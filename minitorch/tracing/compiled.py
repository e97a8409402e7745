"""Torch's `compile`: `jit` where the function can be traced, else the function as it is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from minitorch.errors import ArgumentError, MinitorchError
from minitorch.tracing.jitted import Jitted

MOST_TRACES = 8
"""As in torch: a function that keeps being called with other shapes is not worth tracing."""


class Compiled(Jitted):
    """A function that runs as a graph as long as that works and pays."""

    eager = False

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Return what the function gives."""
        if not self.eager and len(self.traces) <= MOST_TRACES:
            try:
                return super().__call__(*args, **kwargs)
            except MinitorchError:
                result = self.function(*args, **kwargs)  # raises if the mistake is the caller's
                self.eager = True
                return result
        return self.function(*args, **kwargs)


def compiled(
    model: Callable[..., object] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: object = "inductor",
    mode: str | None = None,
    options: dict[str, object] | None = None,
    disable: bool = False,
) -> Any:
    """Return a function or module as one that runs compiled where it can; also a decorator.

    What cannot be traced (numbers that only a run can tell) runs as it is.

    Args:
        model: the function or module.
        fullgraph: raise where it cannot be traced, as `graph.jit` does.
        dynamic, backend, mode, options: torch's; they change nothing.
        disable: return `model` itself.
    Raises:
        ArgumentError: not a function.
    """
    if model is None:
        return functools.partial(compiled, fullgraph=fullgraph, disable=disable)
    if not callable(model):
        raise ArgumentError(f"compile: got {type(model).__name__}, expected a function or module.")
    if disable:
        return model
    return Jitted(model) if fullgraph else Compiled(model)
