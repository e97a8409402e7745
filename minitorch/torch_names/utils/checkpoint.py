"""Torch's name for computing activations again in backward; here they are kept.

What is cheap to compute again is so in a jitted step, by itself (`graph/passes/rematerialize.py`).
"""

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, TypeVar

R = TypeVar("R")


def checkpoint(
    function: Callable[..., R],
    *args: object,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    **kwargs: object,
) -> R:
    """Return `function` of the arguments: the same results and gradients, with no memory saved."""
    return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Iterable[Callable[..., Any]],
    segments: int,
    input: object,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
) -> Any:
    """Return what a Sequential, or functions in a row, give of `input`, in whatever `segments`."""
    return reduce(lambda x, function: function(x), functions, input)


__all__ = ["checkpoint", "checkpoint_sequential"]
