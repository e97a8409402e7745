"""Tracing on and off: while it is on, tensors of this thread ask the tracer first.

Tensors have no switch for this, so that eager code pays nothing for it: the first trace to begin in
the process puts methods of its own in the place of those that compute, update a tensor, read or set
its gradient, or step an optimizer or a scheduler; the last to end takes them away. They ask a
variable of the thread, so other threads compute as ever. What methods do to a tensor from outside
the trace notes as an effect.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from minitorch.arrays.library import Array, Device
from minitorch.errors import GraphError
from minitorch.op import Op
from minitorch.ops.random import Drawn
from minitorch.optim.lr_scheduler import LRScheduler
from minitorch.optim.optimizer import Optimizer
from minitorch.tensor.modes import no_grad, set_grad_enabled
from minitorch.tensor.tensor import Tensor
from minitorch.tracing.symbol import Symbol, place

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


def _innermost() -> "Tracer | None":
    return _local.stack[-1] if _local.stack else None


def _tracer_outside(tensor: Tensor) -> "Tracer | None":
    """Return the innermost trace of this thread, if the tensor was there before it began."""
    tracer = _innermost()
    return tracer if tracer is not None and tracer.is_outside(tensor) else None


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
            ours = _replacements()
            _eager[:] = [(kind, name, kind.__dict__.get(name)) for kind, name, _ in ours]
            for kind, name, method in ours:
                setattr(kind, name, method)
        elif not _running:
            for kind, name, method in _eager:
                delattr(kind, name) if method is None else setattr(kind, name, method)
            _eager.clear()


# ── the methods that ask the trace first, where there is one ────────────────────────────────────

_UPDATES = ("_arithmetic", "_apply_sign", "_update", "_draw_into")  # all others go through these


def _replacements() -> list[tuple[type, str, Any]]:
    """Return the methods to put in place: class, name and method."""
    moves = (*_UPDATES, "copy_", "fill_", "__setitem__")
    reads = ("item", "tolist", "numpy", "__deepcopy__", "__reduce__")
    methods: list[tuple[type, str, Any]] = [
        *((Tensor, name, _wrap_move(name, getattr(Tensor, name))) for name in moves),
        *((Tensor, name, _wrap_read(name, getattr(Tensor, name))) for name in reads),
        *((Tensor, name, method) for name, method in _operators().items()),
        (Tensor, "detach", _wrap_detach(Tensor.detach)),
        (Tensor, "data", _wrap_data(Tensor.data)),
        (Tensor, "grad", _wrap_grad(Tensor.grad)),
        (Optimizer, "step", _wrap_step(Optimizer.step)),
    ]
    kinds: list[type] = [LRScheduler]
    for kind in kinds:
        kinds += kind.__subclasses__()
        if "step" in vars(kind):
            methods.append((kind, "step", _wrap_schedule(vars(kind)["step"])))
    return methods


def _operators() -> dict[str, Any]:
    """Return the methods of `Tensor` that compute, or ask whether to record, by name."""
    eager, eager_records = Tensor._apply, Tensor._records
    new, drawn = vars(Tensor)["_from_filled"].__func__, vars(Tensor)["_draw"].__func__

    def apply(self: Tensor, op: Op, inputs: tuple[object, ...]) -> Tensor:
        stack = _local.stack
        if not stack:
            return eager(self, op, inputs)
        tracer = stack[-1]
        if not op.pure or tracer.concerns(op, inputs):
            return tracer.apply(op, inputs)
        result = eager(self, op, inputs)
        if op.views and isinstance(inputs[0], Tensor):
            tracer.effects.note_shown(result, op, inputs)
        return result

    def filled(cls: type[Tensor], array: Array) -> Tensor:
        return current().constant(array) if _local.stack else new(cls, array)

    def draw(cls: type[Tensor], op: Drawn, place: Device) -> Tensor:
        return current().draw(op) if _local.stack else drawn(cls, op, place)

    def records(self: Tensor, name: str, *sources: object) -> bool:
        if _local.stack:
            _local.stack[-1].check_no_update(name, sources)
        return eager_records(self, name, *sources)

    return {
        "_apply": apply,
        "_from_filled": classmethod(filled),
        "_draw": classmethod(draw),
        "_records": records,
    }


def _wrap_move(name: str, eager: Any) -> Any:
    def method(self: Tensor, *args: object, **kwargs: object) -> Any:
        tracer = _innermost()
        if tracer is not None and tracer.follows(self, (*args, *kwargs.values())):
            return tracer.effects.move(self, name, *args, **kwargs)
        return eager(self, *args, **kwargs)

    return method


def _wrap_read(name: str, eager: Any) -> Any:
    def method(self: Tensor, *args: object, **kwargs: object) -> Any:
        tracer = _innermost()
        now = self if tracer is None else tracer.as_read(self)
        return eager(self, *args, **kwargs) if now is self else getattr(now, name)(*args, **kwargs)

    return method


def _wrap_detach(eager: Any) -> Any:
    def detach(self: Tensor) -> Any:
        tracer = _innermost()
        return eager(self) if tracer is None else tracer.effects.detach(self, eager)

    return detach


def _wrap_data(eager: Any) -> property:
    def write(self: Tensor, value: Tensor) -> None:
        tracer = _innermost()
        if tracer is None or not isinstance(value, Symbol):
            eager.fset(self, value)
        elif value.made_as is None or value.made_as.of is not self:
            with no_grad():
                tracer.effects.move(self, "copy_", value)

    return property(_wrap_detach(eager.fget), write)


def _wrap_grad(eager: Any) -> property:
    def read(self: Tensor) -> Any:
        tracer = _tracer_outside(self)
        if tracer is None or self.op is not None:
            return eager.fget(self)
        return tracer.effects.grad(self)

    def write(self: Tensor, value: Tensor | None) -> None:
        tracer, before = _tracer_outside(self), self._grad
        eager.fset(self, value)  # which checks it
        if tracer is not None and self.op is None:
            self._grad = before
            tracer.effects.set_grad(self, value)

    return property(read, write)


def _wrap_step(eager: Any) -> Any:
    def step(self: Optimizer, closure: Callable[[], object] | None = None) -> object:
        tracer = _innermost()
        if tracer is None:
            return eager(self, closure)
        loss = None if closure is None else closure()
        tracer.effects.step(self)
        return loss

    return step


def _wrap_schedule(eager: Any) -> Any:
    def step(self: LRScheduler, *args: object, **kwargs: object) -> None:
        tracer = _innermost()
        if tracer is None:
            eager(self, *args, **kwargs)
        elif any(isinstance(value, Symbol) for value in (*args, *kwargs.values())):
            raise GraphError(
                f"{tracer.operation}: a scheduler asks for a number that only a run can tell (at "
                f"{place()}). Return it, and step the scheduler outside."
            )
        else:
            tracer.effects.call(partial(eager, self, *args, **kwargs))

    return step
