"""Futures of collectives, whose callbacks may call collectives themselves and wait for them.

A callback runs in whichever thread finds its future complete: at once, if it is. So what it calls
has no place in the order of collectives that is the same on all ranks. Such collectives are told
apart by name instead: `(group, 7, 0, 1)` is collective 1 of those that callback 0 of the group's
collective 7 called. It may run at any time, for its messages go on a channel of their own.

May import: torch, board.
"""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.futures import Future

from ddp_lab.transport.board import waiting_for

Name = tuple[object, ...]


class _Callback(threading.local):
    """The callback that the calling thread runs, if any."""

    name: Name = ()
    calls: Iterator[int] = iter(())


_callback = _Callback()


def name_of_call() -> Name:
    """Return the name of a collective that the running callback calls now, () outside of one."""
    return (*_callback.name, next(_callback.calls)) if _callback.name else ()


@contextmanager
def _inside(name: Name) -> Iterator[None]:
    before = _callback.name, _callback.calls
    _callback.name, _callback.calls = name, itertools.count()
    try:
        yield
    finally:
        _callback.name, _callback.calls = before


class Failure(Exception):
    """What a future that failed holds: whoever looks for tensors in it gets the error."""

    def __reduce__(self) -> str:
        raise self.args[0].with_traceback(None)  # C++ would write all of it into the message


def _raise(failure: Failure | Any) -> Any:
    if isinstance(failure, Failure):
        raise failure.args[0]
    return failure


class CollectiveFuture(Future[Any]):
    """A future that numbers its callbacks, in the order in which they were added."""

    def __init__(self, name: Name) -> None:
        super().__init__()
        self._name = name
        self._numbers = itertools.count()

    def wait(self) -> Any:
        """Return the value; raise what the collective or the callback raised."""
        with waiting_for(self.done):
            return super().wait()

    def set_exception(self, error: Any) -> None:
        """Complete it with an error, which C++ that wants tensors notices too."""
        self._set_unwrap_func(_raise)
        self.set_result(Failure(error))

    def complete(self, job: Callable[[], Any]) -> None:
        """Complete it with what `job` returns or raises."""
        try:
            result = job()
        except Exception as error:
            self.set_exception(error)
        else:
            self.set_result(result)

    def add_done_callback(self, callback: Callable[[Future[Any]], None]) -> None:
        """Have `callback(self)` called at the end."""
        name = (*self._name, next(self._numbers))

        def named(_: Future[Any]) -> None:
            with _inside(name):
                callback(self)

        super().add_done_callback(named)

    def then(self, callback: Callable[[Future[Any]], Any]) -> "CollectiveFuture":
        """Return a future of `callback(self)`."""
        name = (*self._name, next(self._numbers))
        after = CollectiveFuture(name)

        def value() -> Any:
            with _inside(name):
                return callback(self)

        super().add_done_callback(lambda _: after.complete(value))
        return after
