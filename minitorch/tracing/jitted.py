"""`jit`: a function that is traced at its first call and then runs as a compiled graph.

Torch's `compile` is `jit` where the function can be traced, else the function as it is.
"""

import functools
import warnings
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from minitorch.arrays.library import HOST_TYPES
from minitorch.errors import ArgumentError, GraphError, MinitorchError
from minitorch.nn import Module
from minitorch.pytree import Rebuild
from minitorch.tensor.tensor import Tensor
from minitorch.tracing.arguments import flatten, objects_in
from minitorch.tracing.reach import Reach
from minitorch.tracing.switch import is_tracing
from minitorch.tracing.traced import Traced, record

MOST_TRACES = 8
"""As in torch: what a function that keeps being called with other shapes is traced for at once."""

MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


class Jitted:
    """A function that runs as a graph, one for each combination of its arguments' types.

    Attributes:
        traces: the graphs, by shapes, dtypes and whatever else they were traced for; the latest
            used last, `MOST_TRACES` at most.
    """

    def __init__(self, function: Callable[..., object], optimize: bool = True) -> None:
        self.function, self.optimize = function, optimize
        self.traces: dict[Any, Traced] = {}
        self.forgotten = 0
        self._reaches: dict[tuple[object, ...], Reach] = {}  # by the objects among the arguments
        self._counted: dict[Hashable, object] = {}  # what was done when it last changed a number
        self._ignored, self._warned = set[str](), False
        if isinstance(function, Module):
            self.__wrapped__ = function
        else:
            functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: object) -> Any:
        """Return what the function gives; traced first when it has not seen such arguments.

        Raises:
            GraphError: the function asks for a number that only a run can tell; names the line.
        """
        tensors: list[Tensor] = []
        if kwargs or {type(value) for value in args} != {Tensor}:
            static, rebuild = flatten((args, kwargs), tensors, "jit")
        else:
            static, rebuild, tensors = len(args), _plain, list(args)
        if is_tracing():
            return self.function(*args, **kwargs)
        reach = self._reach(static)
        kind, n = (reach, static, tuple([_type(t) for t in tensors]), reach.modes()), 0
        while (traced := self.traces.get(key := (kind, n))) is not None and not traced.fits():
            n += 1  # one for each way that gradients were there and asked for
        if traced is None or not traced.up_to_date():
            traced = self._record(tensors, rebuild, kind)
        self.traces.pop(key, None)
        self.traces[key] = traced
        if len(self.traces) > MOST_TRACES:
            self._forget()
        return traced.run(tensors)

    def _forget(self) -> None:
        """Drop the trace that was used longest ago; say so the first time."""
        del self.traces[next(iter(self.traces))]
        self.forgotten += 1
        if self.forgotten == 1:
            warnings.warn(
                f"jit: {self!r} has been called with more than {MOST_TRACES} combinations of "
                "shapes, dtypes and other arguments; each further one forgets another and is "
                "traced anew. Pad to fewer shapes, or pass numbers that change as tensors.",
                stacklevel=3,
            )

    def _reach(self, static: Hashable) -> Reach:
        """Return what the function reaches, from the objects among its arguments as well."""
        objects = objects_in(static)
        reach = self._reaches.get(objects)
        if reach is not None and reach.holds():
            return reach
        self._drop(reach)
        reach = self._reaches[objects] = Reach(self.function, objects)
        if len(self._reaches) > MOST_TRACES:
            self._drop(self._reaches.pop(next(iter(self._reaches))))
        return reach

    def _drop(self, reach: Reach | None) -> None:
        """Forget the traces of what was reached otherwise."""
        self.traces = {key: value for key, value in self.traces.items() if key[0][0] is not reach}

    def _record(self, tensors: list[Tensor], rebuild: Rebuild, kind: tuple[Any, ...]) -> Traced:
        """Return a new trace, of what is outside as it is."""
        reach: Reach = kind[0]
        if unfollowed := reach.find_unfollowed():
            raise GraphError(
                f"jit: the function reads {unfollowed}, which a run of the graph would not do "
                "again. Pass what it gives as an argument."
            )
        left_behind: list[str] = []
        try:
            traced = record(self.function, tensors, rebuild, "jit", reach, optimize=self.optimize)
        finally:
            left_behind += reach.put_back()
        if left_behind:
            raise GraphError(
                f"jit: the function keeps a traced value in {left_behind[0]}, which it reads: the "
                "next call would find nothing there. Update a tensor in place "
                "(register_buffer, copy_), or pass it in and return it."
            )
        if traced.steps_scheduler() and reach.reads_rates():
            raise GraphError(
                "jit: the function steps a scheduler and reads a rate, which would be that of "
                "before. Read it outside, after the call."
            )
        reach.settle(self._ignored)
        if reach.counts:
            self._count(traced, reach, kind[1:])
        return traced

    def _count(self, traced: Traced, reach: Reach, kind: Hashable) -> None:
        """See whether a number that the function changes at each call matters to what it does."""
        before, now = self._counted.get(kind), traced.signature()
        self._counted = {kind: now} if len(self._counted) > MOST_TRACES else self._counted
        self._counted[kind] = now
        if before == now:
            self._ignored |= {*reach.counts}
            reach.settle(self._ignored)
        elif before is not None and not self._warned:
            self._warned = True
            warnings.warn(
                f"jit: {self!r} changes {reach.counts[0]} and depends on it, so it is traced anew "
                "at each call. Keep it in a tensor, or change it outside.",
                stacklevel=5,
            )

    def __reduce__(self) -> tuple[object, ...]:
        """Copy, and pickle, what is compiled; the copy traces for itself."""
        return type(self), (self.function, self.optimize)

    def __get__(self, instance: object, owner: object = None) -> Any:
        """Return the bound method, when a method was decorated."""
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        """Return what the function or module has: `jit(net).parameters()`."""
        if name.startswith("__") or "function" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.function, name)

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"<jit of {name}, {len(self.traces)} traced>"


def _type(tensor: Tensor) -> Hashable:
    array = tensor.array
    place = "" if type(array) in HOST_TYPES else str(tensor.device)
    return array.shape, array.dtype, place, tensor.requires_grad


def _plain(take: Iterator[object]) -> Any:
    """Return arguments that are tensors and nothing else."""
    return tuple(take), {}


def jit(function: Callable[..., object] | None = None, *, optimize: bool = True) -> Any:
    """Return `function`, or a module, as one that runs compiled; also a decorator.

    It is traced once for each combination of shapes, dtypes and other arguments, and for training
    and evaluation. Gradients of any order pass through. Parameters and other tensors that it uses
    from outside are read anew at each call, and written where they lie if it updates them; random
    numbers are drawn anew, as they would be uncompiled; other Python effects (printing, lists that
    grow) happen while tracing only. Where it changes a number that it keeps outside, it is traced
    once more, and at each call if the number matters; where it keeps a value of the trace that it
    reads, changes a list, dict or dataclass that it is given, or draws numbers that are not the
    library's, it is refused. What it returns shares memory with nothing else, even where the
    function's would.

    It may be a whole training step: `backward()` inside is a part of the graph, `.grad` is what it
    would be, and optimizers and schedulers step at each call, with the state and the rates that
    they then have. What such a step returns has no gradient. It is traced once more for each way
    that `.grad` is there or not where it is read, and for `MOST_TRACES` kinds of arguments at most
    at a time.

    Numbers and NumPy arrays that it finds outside (in a closure, a global, a list or dict, an
    attribute) are compared at each call, and it is traced again after a change: pass an array that
    is large, or changes often, as an argument.

    Args:
        optimize: rewrite the graph before its first run.
    Raises:
        ArgumentError: not a function.
    """
    return _decorate("jit", functools.partial(Jitted, optimize=optimize), function)


def _decorate(operation: str, make: Callable[..., Any], function: object = None) -> Any:
    """Return what `make` gives for a function; without one, a decorator."""
    if function is None:
        return functools.partial(_decorate, operation, make)
    if not callable(function):
        kind = type(function).__name__
        raise ArgumentError(f"{operation}: got {kind}, expected a function or a module.")
    return make(function)


class Compiled(Jitted):
    """A function that runs as a graph as long as that works and pays."""

    eager = False

    def _forget(self) -> None:
        """Run as it is from now on."""
        self.eager = True

    def __call__(self, *args: object, **kwargs: object) -> Any:
        if not self.eager:
            try:
                return super().__call__(*args, **kwargs)
            except MinitorchError:
                result = self.function(*args, **kwargs)  # raises if the mistake is the caller's
                self.eager = True
                return result
        return self.function(*args, **kwargs)


def compile_model(
    model: Callable[..., object] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: object = "inductor",
    mode: str | None = None,
) -> Any:
    """Return a function or module as one that runs compiled where it can; also a decorator.

    What cannot be traced (numbers that only a run can tell) runs as it is.

    Args:
        model: the function or module.
        fullgraph: raise where it cannot be traced, as `graph.jit` does.
        dynamic, backend, mode: torch's; they change nothing.
    Raises:
        ArgumentError: not a function, or no mode of torch's.
    """
    if mode not in MODES:
        named = ", ".join(repr(name) for name in MODES[1:])
        raise ArgumentError(f"compile: unknown mode: got {mode!r}, expected one of {named}.")
    return _decorate("compile", Jitted if fullgraph else Compiled, model)
