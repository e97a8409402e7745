"""What a trace puts in the place of methods: each asks the trace first, where there is one.

They are those that update a tensor, read or set its gradient, or step an optimizer or a scheduler;
what they do to a tensor from outside the trace notes as an effect.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from minitorch.errors import GraphError
from minitorch.optim.lr_scheduler import LRScheduler
from minitorch.optim.optimizer import Optimizer
from minitorch.tensor.modes import no_grad
from minitorch.tensor.tensor import Tensor
from minitorch.tracing.symbol import Symbol, place

if TYPE_CHECKING:
    from minitorch.tracing.tracer import Tracer


_UPDATES = ("_arithmetic", "_apply_sign", "_update", "_draw_into")  # all others go through these


def replacements(current: Callable[[], Tracer | None]) -> list[tuple[type, str, Any]]:
    """Return the methods that ask the trace, `current`, first: class, name and method."""
    methods: list[tuple[type, str, Any]] = []
    for name in (*_UPDATES, "copy_", "fill_", "__setitem__"):
        methods.append((Tensor, name, _wrap_move(name, getattr(Tensor, name), current)))
    for name in ("item", "tolist", "numpy", "__deepcopy__", "__reduce__"):
        methods.append((Tensor, name, _wrap_read(name, getattr(Tensor, name), current)))
    methods.append((Tensor, "detach", _wrap_detach(Tensor.detach, current)))
    methods.append((Tensor, "data", _wrap_data(Tensor.data, current)))
    methods.append((Tensor, "grad", _wrap_grad(Tensor.grad, current)))
    methods.append((Optimizer, "step", _wrap_step(Optimizer.step, current)))
    kinds: list[type] = [LRScheduler]
    for kind in kinds:
        kinds += kind.__subclasses__()
        if "step" in vars(kind):
            methods.append((kind, "step", _wrap_schedule(vars(kind)["step"], current)))
    return methods


def _wrap_move(name: str, eager: Any, current: Callable[[], Tracer | None]) -> Any:
    def method(self: Tensor, *args: object, **kwargs: object) -> Any:
        tracer = current()
        if tracer is None or not tracer.is_outside(self):
            if tracer is not None and not isinstance(self, Symbol):
                tracer.check_no_view_of_outside(self)
            return eager(self, *args, **kwargs)
        return tracer.effects.move(self, name, *args, **kwargs)

    return method


def _wrap_read(name: str, eager: Any, current: Callable[[], Tracer | None]) -> Any:
    def method(self: Tensor, *args: object, **kwargs: object) -> Any:
        tracer = current()
        now = self if tracer is None else tracer.as_read(self)
        return eager(self, *args, **kwargs) if now is self else getattr(now, name)(*args, **kwargs)

    return method


def _wrap_detach(eager: Any, current: Callable[[], Tracer | None]) -> Any:
    def detach(self: Tensor) -> Any:
        tracer = current()
        if tracer is None or not tracer.is_outside(self):
            return eager(self)
        return tracer.effects.detach(self, eager)

    return detach


def _wrap_data(eager: Any, current: Callable[[], Tracer | None]) -> property:
    def write(self: Tensor, value: Tensor) -> None:
        tracer = current()
        if tracer is None or not isinstance(value, Symbol):
            _set(eager)(self, value)
        elif value.source is not self:
            with no_grad():
                tracer.effects.move(self, "copy_", value)

    return property(_wrap_detach(_get(eager), current), write)


def _wrap_grad(eager: Any, current: Callable[[], Tracer | None]) -> property:
    def read(self: Tensor) -> Tensor | None:
        tracer = current()
        if tracer is None or not tracer.is_outside(self) or self.op is not None:
            return _get(eager)(self)  # type: ignore[no-any-return]
        return tracer.effects.grad(self)

    def write(self: Tensor, value: Tensor | None) -> None:
        tracer = current()
        if tracer is None or not tracer.is_outside(self) or self.op is not None:
            _set(eager)(self, value)
        else:
            before = self._grad
            try:
                _set(eager)(self, value)  # which checks it
            finally:
                self._grad = before
            tracer.effects.set_grad(self, value)

    return property(read, write)


def _wrap_step(eager: Any, current: Callable[[], Tracer | None]) -> Any:
    def step(self: Optimizer, closure: Callable[[], object] | None = None) -> object:
        tracer = current()
        if tracer is None:
            return eager(self, closure)
        loss = None if closure is None else closure()
        tracer.effects.step(self)
        return loss

    return step


def _wrap_schedule(eager: Any, current: Callable[[], Tracer | None]) -> Any:
    def step(self: LRScheduler, *args: object, **kwargs: object) -> None:
        tracer = current()
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


def _get(attribute: Any) -> Callable[[Any], Any]:
    return attribute.fget  # type: ignore[no-any-return]


def _set(attribute: Any) -> Callable[[Any, Any], None]:
    return attribute.fset  # type: ignore[no-any-return]
