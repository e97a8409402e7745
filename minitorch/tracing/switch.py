"""Tracing on and off: while it is on, tensors of this thread ask the tracer first.

Tensors have no switch for this, so that eager code pays nothing for it: the first trace to begin in
the process puts its own `Tensor._apply` in place, and its own look at updates in place; the last to
end takes them away. They ask a variable of the thread, so other threads compute as ever.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from minitorch.arrays.library import Array, Device
from minitorch.op import Op
from minitorch.ops.random import Drawn
from minitorch.tensor.modes import set_grad_enabled
from minitorch.tensor.tensor import Tensor
from minitorch.tracing import methods

if TYPE_CHECKING:
    from minitorch.tracing.tracer import Tracer


class _Local(threading.local):
    def __init__(self) -> None:
        self.stack: list[Tracer] = []


_local = _Local()
_lock = threading.Lock()
_running = 0
_eager: list[tuple[type, str, Any]] = []  # what was replaced, by class and name


def is_tracing() -> bool:
    """Tell whether this thread is inside a traced function."""
    return bool(_local.stack)


def current() -> "Tracer":
    """Return the innermost trace of this thread."""
    return _local.stack[-1]


def innermost() -> "Tracer | None":
    """Return the innermost trace of this thread, if there is one."""
    return _local.stack[-1] if _local.stack else None


def _replacements() -> list[tuple[type, str, Any]]:
    eager, eager_records = Tensor._apply, Tensor._records
    new, drawn = vars(Tensor)["_from_filled"].__func__, vars(Tensor)["_draw"].__func__

    def apply(self: Tensor, op: Op, inputs: tuple[object, ...]) -> Tensor:
        stack = _local.stack
        if stack and (not op.pure or stack[-1].concerns(inputs)):
            return stack[-1].apply(op, inputs)
        return eager(self, op, inputs)

    def filled(cls: type[Tensor], array: Array) -> Tensor:
        return current().constant(array) if _local.stack else new(cls, array)

    def draw(cls: type[Tensor], op: Drawn, place: Device) -> Tensor:
        return current().draw(op) if _local.stack else drawn(cls, op, place)

    def records(self: Tensor, name: str, *sources: object) -> bool:
        if _local.stack:
            _local.stack[-1].check_no_update(name, sources)
        return eager_records(self, name, *sources)

    return [
        (Tensor, "_apply", apply),
        (Tensor, "_from_filled", classmethod(filled)),
        (Tensor, "_draw", classmethod(draw)),
        (Tensor, "_records", records),
    ]


@contextmanager
def tracing(tracer: "Tracer") -> Iterator[None]:
    """Have `tracer` take note of this thread's operators until the end of the context."""
    _count(1)
    _local.stack.append(tracer)
    try:
        with tracer.graph.as_default(), set_grad_enabled(True):
            yield
    finally:
        _local.stack.pop()
        _count(-1)
        tracer.effects.close()


def _count(change: int) -> None:
    global _running
    with _lock:
        _running += change
        if change > 0 and not _eager:
            ours = [*_replacements(), *methods.replacements(innermost)]
            _eager[:] = [(kind, name, kind.__dict__.get(name)) for kind, name, _ in ours]
            for kind, name, method in ours:
                setattr(kind, name, method)
        elif not _running:
            for kind, name, method in _eager:
                delattr(kind, name) if method is None else setattr(kind, name, method)
            _eager.clear()
