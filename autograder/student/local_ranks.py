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
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from autograder.errors import StudentError
from autograder.plain import to_plain
from autograder.records import Message, RanksRun

WAIT_S = 30.0  # longer than any question's ranks need; a rank that waits so long waits for ever
STEP_S = 0.05  # how soon a waiting rank notices that another has failed, or that all wait
# As in `sandbox`: where all wait and nothing was sent for so long, nothing will be sent; but a
# wait that ends sooner than PATIENCE_S may be meant to end.
SILENCE_S = 2.0
PATIENCE_S = 5.0


@dataclass(frozen=True, eq=False)
class Wait:
    """A receive that is under way in a rank: for whom, by when it gives up, from which queue."""

    src: int
    deadline: float
    messages: "queue.SimpleQueue[Any]"


class Wire:
    """The queues between ranks and the record of what passed."""

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self.messages: list[Message] = []
        self.broken = threading.Event()
        self._queues: dict[tuple[int, int, int], queue.SimpleQueue[Any]] = defaultdict(
            queue.SimpleQueue
        )
        self._order = itertools.count()
        self._lock = threading.Lock()
        self._waits: list[list[Wait]] = [[] for _ in range(world_size)]
        self._returned: set[int] = set()
        self._heard = time.monotonic()

    def send(self, src: int, dst: int, channel: int, header: bytes, array: Any) -> None:
        """Put a copy of `array` on its way and write it down."""
        self._check(dst)
        copy = array.copy(order="C")
        with self._lock:
            order = next(self._order)
            self._heard = time.monotonic()
            self.messages.append(Message(src, dst, copy.nbytes, bytes(header), copy, order))
            waiting = self._queues[src, dst, channel]
        waiting.put((bytes(header), copy))

    def receive(self, src: int, dst: int, channel: int, timeout_s: float | None) -> Any:
        """Return the next (header, array) from `src` to `dst`; give up when another rank failed."""
        self._check(src)
        with self._lock:
            waiting = self._queues[src, dst, channel]
        deadline = time.monotonic() + (WAIT_S if timeout_s is None else timeout_s)
        with self._listed(dst, Wait(src, deadline, waiting)):
            while not self.broken.is_set():
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(
                        f"rank {dst} waits for a message from rank {src}: none came."
                    )
                with contextlib.suppress(queue.Empty):
                    message = waiting.get(timeout=min(left, STEP_S))
                    self._heard = time.monotonic()
                    return message
                self._raise_if_all_wait()
        raise ConnectionError(f"rank {dst} waited for rank {src} when another rank failed.")

    def returned(self, rank: int) -> None:
        """Note that `rank` will send nothing more."""
        with self._lock:
            self._returned.add(rank)
            self._heard = time.monotonic()

    @contextlib.contextmanager
    def _listed(self, rank: int, wait: Wait) -> Iterator[None]:
        with self._lock:
            self._waits[rank].append(wait)
        try:
            yield
        finally:
            with self._lock:
                self._waits[rank].remove(wait)

    def _raise_if_all_wait(self) -> None:
        now = time.monotonic()
        with self._lock:
            if now - self._heard < SILENCE_S:
                return
            running = [r for r in range(self.world_size) if r not in self._returned]
            waits = [self._waits[rank] for rank in running]
            if not all(waits) or any(
                not wait.messages.empty() or wait.deadline < now + PATIENCE_S
                for wait in itertools.chain(*waits)
            ):
                return
            state = "; ".join(self._state(rank) for rank in range(self.world_size))
        raise StudentError("Deadlock", f"every rank waits, and none will send: {state}")

    def _state(self, rank: int) -> str:
        if rank in self._returned:
            return f"rank {rank} has returned"
        sources = sorted({wait.src for wait in self._waits[rank]})
        return f"rank {rank} waits for rank {', '.join(map(str, sources))}"

    def empty(self, src: int, dst: int, channel: int) -> bool:
        """Return whether no message from `src` to `dst` is waiting."""
        with self._lock:
            return self._queues[src, dst, channel].empty()

    def _check(self, peer: int) -> None:
        if not 0 <= peer < self.world_size:
            raise ValueError(f"peer: no such rank: got {peer}, expected 0..{self.world_size - 1}.")


class Work:
    """A receive under way, or a send that is over. `header` is known once it has arrived."""

    def __init__(self, fetch: Callable[[float | None], Any] | None, ready: Callable[[], bool]):
        self.header = b""
        self._fetch = fetch
        self._ready = ready
        self._array: Any = None

    def wait(self, timeout_s: float | None = None) -> Any:
        """Return the array that arrived, for a receive; None, for a send."""
        if self._fetch is not None:
            self.header, self._array = self._fetch(timeout_s)
            self._fetch = None
        return self._array

    def test(self) -> bool:
        """Return whether `wait` would return at once."""
        return self._fetch is None or self._ready()


class QueueTransport:
    """One rank's end of the wire: ddp_lab's `Transport`."""

    def __init__(self, wire: Wire, rank: int) -> None:
        self.rank = rank
        self.size = wire.world_size
        self._wire = wire

    def isend(self, array: Any, dst: int, *, channel: int = 0, header: bytes = b"") -> Work:
        """Send a copy of `array`; it is on its way when this returns."""
        self._wire.send(self.rank, dst, channel, header, array)
        return Work(None, lambda: True)

    def irecv(self, src: int, *, channel: int = 0, buffer: Any = None) -> Work:
        """Receive the next array from `src`, into `buffer` where one is given."""

        def fetch(timeout_s: float | None) -> Any:
            header, array = self._wire.receive(src, self.rank, channel, timeout_s)
            if buffer is None:
                return header, array
            buffer[...] = array.reshape(buffer.shape)
            return header, buffer

        return Work(fetch, lambda: not self._wire.empty(src, self.rank, channel))

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
            wire.returned(r)
        except BaseException as error:
            errors.put(error)
            wire.broken.set()

    threads = [threading.Thread(target=rank, args=(r,), daemon=True) for r in range(len(results))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S + 1)
    if not errors.empty():
        raise errors.get()
    if any(thread.is_alive() for thread in threads):
        raise StudentError("TimeoutError", f"a rank was still running after {WAIT_S:.0f} s")
    return RanksRun(tuple(results), tuple(wire.messages))
