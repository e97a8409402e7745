"""Callbacks of modules, in the order in which they were added."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from minitorch.hooks import Handle

_ids = count()


def add_hook(hooks: dict[int, Callable[..., object]], hook: Callable[..., object]) -> Handle:
    """Put `hook` behind those already in `hooks` and return its handle, which removes it."""
    if not callable(hook):
        raise TypeError(f"register hook: got {type(hook).__name__}, expected a function.")
    key = next(_ids)
    hooks[key] = hook
    return Handle(hooks, key)
