"""Torch's name for computing activations again in backward; here they are kept.

What is cheap to compute again is so in a jitted step, by itself (`graph/passes/rematerialize.py`).
"""

from collections.abc import Callable
from typing import TypeVar

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


__all__ = ["checkpoint"]
