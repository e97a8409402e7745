"""Tracing on and off: while it is on, tensors of this thread ask the tracer first.

Tensors have no switch for this, so that eager code pays nothing for it: the first trace to begin in
the process puts its own `Tensor._apply` in place, and its own record of updates in place; the last
to end takes them away. They ask a variable of the thread, so other threads compute as ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from minitorch.op import Op
from minitorch.recording import set_grad_enabled
from minitorch.tensor import Tensor

if TYPE_CHECKING:
    from minitorch.tracing.tracer import Tracer


class _Local(threading.local):
    def __init__(self) -> None:
        self.stack: list[Tracer] = []


_local = _Local()
_lock = threading.Lock()
_running = 0
_eager = Tensor._apply
_eager_records, _eager_recorded = Tensor._records, Tensor._recorded


def is_tracing() -> bool:
    """Tell whether this thread is inside a traced function."""
    return bool(_local.stack)


def current() -> Tracer:
    """Return the innermost trace of this thread."""
    return _local.stack[-1]


def _apply(self: Tensor, op: Op, inputs: tuple[object, ...]) -> Tensor:
    stack = _local.stack
    if stack and stack[-1].concerns(inputs):
        return stack[-1].apply(op, inputs)
    return _eager(self, op, inputs)


def _records(self: Tensor, name: str, *sources: object) -> bool:
    stack = _local.stack
    if stack and stack[-1].overwrites(self, sources):
        return True
    return _eager_records(self, name, *sources)


def _recorded(
    self: Tensor, name: str, function: Callable[..., Any], *others: object, **options: object
) -> Tensor:
    stack = _local.stack
    if stack and stack[-1].overwrites(self, (*others, *options.values())):
        return stack[-1].overwrite(self, name, function, others, options)
    return _eager_recorded(self, name, function, *others, **options)


@contextmanager
def tracing(tracer: Tracer) -> Iterator[None]:
    """Have `tracer` take note of this thread's operators until the end of the context."""
    _count(1)
    _local.stack.append(tracer)
    try:
        with tracer.graph.as_default(), set_grad_enabled(True):
            yield
    finally:
        _local.stack.pop()
        _count(-1)
        for shadow in tracer.shadows.values():
            shadow.put_back()


def _count(change: int) -> None:
    global _running
    with _lock:
        _running += change
        for name, (ours, eager) in _SWITCHED.items():
            setattr(Tensor, name, ours if _running else eager)


_SWITCHED: dict[str, tuple[Any, Any]] = {
    "_apply": (_apply, _eager),
    "_records": (_records, _eager_records),
    "_recorded": (_recorded, _eager_recorded),
}
