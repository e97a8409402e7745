"""Whether operators on tensors are remembered: `no_grad`, `enable_grad`, a thread's own state."""

import functools
import inspect
import threading
from collections.abc import Callable, Generator
from contextlib import ContextDecorator
from typing import Any

Steps = Generator[object, object, object]


class _Recording(threading.local):
    on = True


recording = _Recording()
"""`recording.on`: whether operators on tensors that require a gradient are remembered; a thread's
own."""


class _Mode(ContextDecorator):
    """A context or decorator in which recording is `mode`; re-entrant, also when code raises."""

    mode: bool

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(recording.on)
        recording.on = self.mode

    def __exit__(self, *_: object) -> None:
        recording.on = self._before.pop()

    def __call__(self, function: Any) -> Any:
        """Decorate `function`; each call has a context of its own, so threads may share it.

        Of a function that yields, each step has one: its caller records as ever.
        """
        if inspect.isgeneratorfunction(function):
            return self._stepping(function)

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with set_grad_enabled(self.mode):
                return function(*args, **kwargs)

        return inside

    def _stepping(self, function: Callable[..., Steps]) -> Callable[..., Steps]:
        @functools.wraps(function)
        def steps(*args: object, **kwargs: object) -> Steps:
            generator = function(*args, **kwargs)
            resume: Callable[..., object] = generator.send
            passed: object = None
            while True:
                try:
                    with set_grad_enabled(self.mode):
                        value = resume(passed)
                except StopIteration as end:
                    return end.value
                try:
                    resume, passed = generator.send, (yield value)
                except GeneratorExit:
                    generator.close()
                    raise
                except BaseException as error:  # thrown in by the caller: the function's to handle
                    resume, passed = generator.throw, error

        return steps


class no_grad(_Mode):
    """Context or decorator in which nothing is recorded: results do not require a gradient."""

    mode = False


class enable_grad(_Mode):
    """Context or decorator in which operators are recorded again, inside `no_grad`."""

    mode = True


class set_grad_enabled(_Mode):
    """Turn recording on or off: at once as a plain call, until its end as a context."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = mode
        self._before.append(recording.on)
        recording.on = mode

    def __enter__(self) -> None:
        recording.on = self.mode

    def __call__(self, function: Any) -> Any:
        """Decorate `function`; until it is called nothing changes."""
        self.__exit__()
        return super().__call__(function)


def is_grad_enabled() -> bool:
    """Tell whether this thread records operators."""
    return recording.on
