"""Ranks of a distributed question in this process: one thread a rank, queues as the wire.

The communicator is the learner's environment's own, found by its name at run time; here stands
only the transport under it (docs/architecture.md), which writes down every message that passes.
Between two ranks, on one channel, messages arrive in the order in which they were sent.
"""

import contextlib
import importlib
import itertools
import queue
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from autograder.errors import StudentError
from autograder.plain import to_plain
from autograder.records import Message, RanksRun, Step

WAIT_S = 30.0  # longer than any question's ranks need; a rank that waits so long waits for ever
STEP_S = 0.05  # how soon a waiting rank notices that all others wait too
# As in `sandbox`: all ranks wait, and no other thread is there that could send. In a notebook there
# are always others; there nothing will be sent once nothing was for so long. But a wait that ends
# sooner than PATIENCE_S may be meant to end.
SILENCE_S = 2.0
PATIENCE_S = 5.0


@dataclass(frozen=True, eq=False)
class Wait:
    """A receive that is under way in a rank: for whom, by when it gives up, what has arrived."""

    src: int
    deadline: float
    arrived: deque[Any]


class Wire:
    """The lines between ranks and the record of what passed."""

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self.messages: list[Message] = []
        self.steps: list[Step] = []
        self._lines: dict[tuple[int, int, int], deque[Any]] = defaultdict(deque)
        self._changed = threading.Condition()
        self._waits: list[list[Wait]] = [[] for _ in range(world_size)]
        self._returned: set[int] = set()
        self._failed = False
        self._heard = time.monotonic()

    def send(self, src: int, dst: int, channel: int, header: bytes, array: Any) -> None:
        """Put a copy of `array` on its way and write it down."""
        self._check(dst)
        copy, header = array.copy(order="C"), bytes(header)
        with self._changed:
            self._heard = time.monotonic()
            self.steps.append(Step(src, "send", dst))
            self.messages.append(
                Message(src, dst, copy.nbytes, header, copy, order=len(self.messages))
            )
            self._lines[src, dst, channel].append((header, copy))
            self._changed.notify_all()

    def receive(self, src: int, dst: int, channel: int, timeout_s: float | None) -> Any:
        """Return the next (header, array) from `src` to `dst`; give up when another rank failed."""
        self._check(src)
        deadline = time.monotonic() + (WAIT_S if timeout_s is None else timeout_s)
        with self._changed:
            arrived = self._lines[src, dst, channel]
            with self._list(dst, Wait(src, deadline, arrived)):
                while not arrived:
                    self._raise_if_vain(src, dst, deadline)
                    self._changed.wait(min(STEP_S, deadline - time.monotonic()))
                self._heard = time.monotonic()
                return arrived.popleft()

    def note_return(self, rank: int) -> None:
        """Note that `rank` will send nothing more."""
        with self._changed:
            self._returned.add(rank)
            self._heard = time.monotonic()

    def note_failure(self) -> None:
        """Let every rank that waits give up."""
        with self._changed:
            self._failed = True
            self._changed.notify_all()

    @contextlib.contextmanager
    def _list(self, rank: int, wait: Wait) -> Iterator[None]:
        self._waits[rank].append(wait)
        try:
            yield
        finally:
            self._waits[rank].remove(wait)

    def _raise_if_vain(self, src: int, dst: int, deadline: float) -> None:
        if self._failed:
            raise ConnectionError(f"rank {dst} waited for rank {src} when another rank failed.")
        if deadline <= time.monotonic():
            raise TimeoutError(f"rank {dst} waits for a message from rank {src}: none came.")
        if self._all_wait():
            state = "; ".join(self._state(rank) for rank in range(self.world_size))
            raise StudentError("Deadlock", f"every rank waits, and none will send: {state}")

    def _all_wait(self) -> bool:
        now = time.monotonic()
        running = [r for r in range(self.world_size) if r not in self._returned]
        waits = list(itertools.chain(*self._waits))
        if not all(self._waits[rank] for rank in running) or any(
            wait.arrived or wait.deadline < now + PATIENCE_S for wait in waits
        ):
            return False
        alone = threading.active_count() <= len(waits) + 1  # and who waits for the ranks
        return alone or now - self._heard >= SILENCE_S

    def _state(self, rank: int) -> str:
        if rank in self._returned:
            return f"rank {rank} has returned"
        sources = sorted({wait.src for wait in self._waits[rank]})
        return f"rank {rank} waits for rank {', '.join(map(str, sources))}"

    def empty(self, src: int, dst: int, channel: int) -> bool:
        """Return whether no message from `src` to `dst` is waiting."""
        with self._changed:
            return not self._lines[src, dst, channel]

    def _check(self, peer: int) -> None:
        if not 0 <= peer < self.world_size:
            raise ValueError(f"peer: no such rank: got {peer}, expected 0..{self.world_size - 1}.")


class Work:
    """A receive under way, or a send that is over. `header` is known once it has arrived."""

    def __init__(
        self,
        fetch: Callable[[float | None], Any] | None,
        ready: Callable[[], bool],
        note: Callable[[], None],
    ) -> None:
        self.header = b""
        self._note = note  # that this is waited for; once
        self._is_said = False
        self._fetch = fetch
        self._ready = ready
        self._array: Any = None

    def wait(self, timeout_s: float | None = None) -> Any:
        """Return the array that arrived, for a receive; None, for a send."""
        self._say()
        if self._fetch is not None:
            self.header, self._array = self._fetch(timeout_s)
            self._fetch = None
        return self._array

    def test(self) -> bool:
        """Return whether `wait` would return at once."""
        if self._fetch is not None:
            self._say()
        return self._fetch is None or self._ready()

    def _say(self) -> None:
        if not self._is_said:
            self._is_said = True
            self._note()


class QueueTransport:
    """One rank's end of the wire: ddp_lab's `Transport`."""

    def __init__(self, wire: Wire, rank: int) -> None:
        self.rank = rank
        self.size = wire.world_size
        self._wire = wire

    def isend(self, array: Any, dst: int, *, channel: int = 0, header: bytes = b"") -> Work:
        """Send a copy of `array`; it is on its way when this returns."""
        self._wire.send(self.rank, dst, channel, header, array)
        return Work(None, lambda: True, self._noting("over", dst))

    def irecv(self, src: int, *, channel: int = 0, buffer: Any = None) -> Work:
        """Receive the next array from `src`, into `buffer` where one is given."""

        self._noting("post", src)()

        def fetch(timeout_s: float | None) -> Any:
            header, array = self._wire.receive(src, self.rank, channel, timeout_s)
            if buffer is None:
                return header, array
            buffer[...] = array.reshape(buffer.shape)
            return header, buffer

        ready = lambda: not self._wire.empty(src, self.rank, channel)  # noqa: E731 - a seam's
        return Work(fetch, ready, self._noting("ask", src))

    def _noting(self, kind: str, peer: int) -> Callable[[], None]:
        return lambda: self._wire.steps.append(Step(self.rank, kind, peer))

    def empty(self, shape: Sequence[int], dtype: Any) -> Any:
        """Return a new array."""
        return importlib.import_module("numpy").empty(shape, dtype)

    def close(self) -> None:
        """Do nothing: queues need no closing."""


def run_ranks(
    function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], communicator: str
) -> RanksRun:
    """Run `function(comm, *arguments[rank])` on a thread a rank and record what passed.

    Raises what the first rank that failed raised; the others are told to give up.
    """
    module, _, name = communicator.partition(":")
    make = getattr(importlib.import_module(module), name)
    wire = Wire(len(arguments))
    results: list[Any] = [None] * len(arguments)
    errors: queue.SimpleQueue[BaseException] = queue.SimpleQueue()

    def rank(r: int) -> None:
        try:
            comm = make(QueueTransport(wire, r))
            results[r] = to_plain(function(comm, *arguments[r]), f"rank {r}'s result")
            wire.note_return(r)
        except BaseException as error:
            errors.put(error)
            wire.note_failure()

    threads = [threading.Thread(target=rank, args=(r,), daemon=True) for r in range(len(results))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S + 1)
    if not errors.empty():
        raise errors.get()
    if any(thread.is_alive() for thread in threads):
        raise StudentError("TimeoutError", f"a rank was still running after {WAIT_S:.0f} s")
    return RanksRun(tuple(results), tuple(wire.messages), tuple(wire.steps))
