"""Outside the wall: a learner's namespace as the judge drives it.

    with Sandbox(limits) as student:
        failures = student.load(statements)
        student.allow(10.0)
        student.call("scale", x, 2.0)

The judge holds the clock, and what it knows of the learner's names it knows itself: which
statements failed, and their texts. From the worker it takes plain data and text.
"""

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

from autograder.errors import LimitReached, NotAttempted, StudentError
from autograder.records import Failure, Limits, RanksRun, Statement
from autograder.sandbox import network, watch, worker_pool
from autograder.sandbox.channel import MAX_TEXT, NOTHING, pump, unpack
from autograder.sandbox.network import Headers
from autograder.sandbox.process import Process, ending_error
from autograder.sandbox.wire import WireError
from autograder.sandbox.worker_pool import Supply
from autograder.student.protocol import (
    COMMUNICATOR,
    cause_of,
    load_each,
    missing,
    rank_arguments,
    ship,
)

NOT_PINNED = (
    "Timed questions ran on whichever core the system chose, not on one: see `autograder doctor`."
)


class Sandbox:
    """A `WorkerStudent` whose code runs in a worker of its own, restarted after a limit.

    The worker is gone at the end of a `with`. `preload` names modules to have ready before the
    clock starts; `source` is where workers come from (`worker_pool.supply()`).
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        preload: tuple[str, ...] = ("numpy",),
        source: Supply | None = None,
    ) -> None:
        self.limits = limits = limits or Limits()
        self.notes: list[str] = []  # for the report: what could not be done as it should be
        self.output = b""  # what workers that have ended printed, cut at `output_bytes`
        self._preload = preload
        self._supply = source or worker_pool.supply()
        self._loaded: list[Statement] = []
        self._code: tuple[int, bytes] | None = None  # of so many of `_loaded`
        self._texts: dict[str, str] = {}
        self._failures: dict[str, Failure] = {}
        self._worker: Process | None = self._supply.worker(limits, preload)
        self._last = self._ends = time.monotonic() + limits.wall_s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def kind(self) -> str:
        """What the learner's code runs in: "bubblewrap" or "unsandboxed"."""
        return self._supply.kind

    def allow(self, wall_s: float) -> None:
        """Give all calls from now on `wall_s` seconds together. See `WorkerStudent.allow`."""
        self._ends = min(time.monotonic() + wall_s, self._last)

    def load(self, statements: Sequence[Statement]) -> list[Failure]:
        """Run each statement on its own; return those that failed. See `WorkerStudent.load`."""
        return load_each(statements, self._execute, self._texts, self._failures)

    def _execute(self, statement: Statement) -> Failure | None:
        try:
            worker = self._ready()
            ends = min(time.monotonic() + self.limits.call_s, self._last)
            raised = self._ask(worker, "load", _loading(statement), ends, "the statement")
        except LimitReached as error:
            return Failure(statement, "LimitReached", str(error))
        except StudentError as error:  # such as KeyboardInterrupt, which is not the judge's
            return Failure(statement, error.type_name, error.message, error.traceback)
        except NotAttempted as error:
            return Failure(statement, "NotImplementedError", str(error))
        if raised is None:
            self._loaded.append(statement)
            return None
        if type(raised) is list and [type(part) for part in raised] == [str, str, str]:
            return Failure(statement, *(part[:MAX_TEXT] for part in raised))
        return Failure(statement, "LimitReached", str(self._end("died", _BROKE)))

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Return what the learner's function returns. See `Student.call`."""
        self._find(name)
        return self._request("call", (name, args, kwargs), name)

    def value(self, name: str, /) -> Any:
        """Return the learner's variable. See `Student.value`."""
        self._find(name)
        return self._request("value", (name,), name)

    def probe(self, function: Callable[..., Any], /, **inputs: Any) -> Any:
        """Run `function` beside the learner's code. See `Student.probe`."""
        return self._request("probe", (*ship(function), inputs), "your code")

    def ranks(
        self,
        function: str | Callable[..., Any],
        world_size: int,
        inputs: Sequence[Any],
        communicator: str = COMMUNICATOR,
        *,
        steps: bool = False,
    ) -> RanksRun:
        """Run one sandbox a rank, this process being the network. See `Student.ranks`."""
        arguments = rank_arguments(inputs, world_size)
        if isinstance(function, str):
            self._find(function)
        name, text = (function, "") if isinstance(function, str) else ship(function)
        began = time.monotonic()
        code = self._compile()
        started = self._supply.workers(self.limits, self._preload, world_size)
        try:
            for rank, args in enumerate(arguments):
                request = (code, rank, world_size, name, text, args, communicator, steps)
                started[rank].channel.queue((rank + 1, "rank", request))
            self._ends = min(self._ends + time.monotonic() - began, self._last)
            headers = Headers(self._texts_on_ranks(name, text), communicator)
            return network.run(started, self.limits, self._ends, headers, steps)
        finally:
            for process in started:
                self._retire(process)

    def _compile(self) -> bytes:
        """Return what ranks load: the statements with their code, which the judge passes on unread.

        Compiled once for all ranks, where nothing of the learner's has run or will: what a worker
        that runs it has seen of one question's inputs cannot get to the ranks of another.
        """
        if self._code is None or self._code[0] != len(self._loaded):
            worker = self._supply.worker(self.limits, self._preload)
            try:
                loads = [_loading(statement) for statement in self._loaded]
                ends = min(time.monotonic() + self.limits.call_s, self._last)
                code = self._ask(worker, "compile", (loads,), ends, "what ranks run")
            finally:
                self._retire(worker)
            if type(code) is not bytes:
                raise self._end("died", _BROKE)
            self._code = len(loads), code
        return self._code[1]

    def _texts_on_ranks(self, name: str, text: str) -> dict[str, str]:
        """Return what runs on a rank, by the file name that its lines have there."""
        texts = {f"<cell {s.cell}, line {s.line}>": s.text for s in self._loaded}
        return texts | ({f"<probe {name}>": text} if text else {})

    def source(self, name: str, /) -> str | None:
        """Return the text of the statement that last defined `name`, or None."""
        return self._texts.get(name)

    def apart(self) -> "Sandbox":
        """Return a student in a sandbox of its own, without the learner's code."""
        return Sandbox(self.limits, preload=self._preload, source=self._supply)

    @contextlib.contextmanager
    def pinned(self, core: int) -> Iterator[None]:
        """Keep the learner's code on one core. See `Student.pinned`."""
        with watch.pinned(self._ready().pid, core) as held:
            if not held and NOT_PINNED not in self.notes:
                self.notes.append(NOT_PINNED)
            yield

    def stopped(self) -> AbstractContextManager[None]:
        """Let nothing of the learner's run. See `Student.stopped`."""
        return watch.stopped(self._ready().pid)

    def close(self) -> None:
        """End the worker and everything that came from it."""
        if self._worker is not None:
            self._retire(self._worker)
            self._worker = None

    def _find(self, name: str) -> None:
        first = name.partition(".")[0]
        if first in self._failures:
            raise missing(first, self._failures)

    def _request(self, verb: str, payload: tuple[Any, ...], what: str) -> Any:
        try:
            return self._ask(self._ready(), verb, payload, self._ends, what)
        except StudentError as error:
            raise cause_of(error, self._failures) from error

    def _ready(self) -> Process:
        """Return the worker; where one had to be ended, a new one with the same statements.

        The time that this takes is not charged to the call that needs it.
        """
        if self._worker is None:
            began = time.monotonic()
            if began > self._last:
                raise LimitReached("time", "the time of the whole submission was used up")
            self._worker = self._supply.worker(self.limits, self._preload)
            for statement in self._loaded:
                ends = min(time.monotonic() + self.limits.call_s, self._last)
                self._ask(self._worker, "load", _loading(statement), ends, "a statement")
            self._ends = min(self._ends + time.monotonic() - began, self._last)
        return self._worker

    def _ask(
        self, worker: Process, verb: str, payload: tuple[Any, ...], ends: float, what: str
    ) -> Any:
        """Return the worker's answer; end it where none comes in time or it is over a limit."""
        began = time.monotonic()
        if began >= ends:
            raise LimitReached("time", f"{what}: the time allowed was used up before it began")
        request = secrets.randbits(62)  # so that no answer can be written before the question
        worker.channel.queue((request, verb, payload))
        try:
            return unpack(self._answer(worker, began, ends), request)
        except WireError:
            raise self._end("died", f"{what}: {_BROKE}") from None
        except LimitReached as error:
            raise self._end(error.kind, f"{what}: {error}") from None

    def _answer(self, worker: Process, began: float, ends: float) -> Any:
        """Return the next value that the worker sends, looking at its limits while waiting."""
        looked = began
        while (answer := worker.channel.take()) is NOTHING:
            now = time.monotonic()
            if now >= ends:
                raise LimitReached("time", f"ended after {now - began:.1f} s")
            if worker.channel.closed:
                raise ending_error(worker)
            if worker.channel.flooded:
                raise LimitReached("output", "ended by the output limit")
            if now >= looked + watch.TICK_S:
                watch.check([worker.pid], self.limits)
                looked = now
            pump([worker.channel], min(ends - now, watch.TICK_S))
        return answer

    def _end(self, kind: str, message: str) -> LimitReached:
        """End the worker; return the error that says why."""
        self.close()
        return LimitReached(kind, message)

    def _retire(self, process: Process) -> None:
        process.end()
        left = self.limits.output_bytes - len(self.output)
        self.output += bytes(process.channel.output[: max(0, left)])


_BROKE = "its process sent something else than an answer"


def _loading(statement: Statement) -> tuple[str, int, int]:
    return (statement.text, statement.cell, statement.line)
