"""Streams and events that do their work late, and a witness of every access to memory.

What is put on a stream runs when someone waits for it, or when a seeded draw lets it run before. So
memory that is read too early holds what it held before. Besides, every task has a vector clock: two
tasks that touch the same bytes, one of them writing, have to be ordered by a stream, an event or a
host that waited, however they happened to run; else a fault is noted, which names both. Memory that
is let go of goes back to the stream that took it, as in PyTorch's caching allocator: the next piece
taken there faults if another stream may still be at it, unless `record_stream` told so.

Source: Lamport, CACM 21(7), 1978, for clocks; PyTorch's CUDA Stream Sanitizer for their use here.
"""

import random
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TESTS, STAND_INS = str(ROOT / "tests"), str(ROOT / "tests/standins")
PACKAGES = tuple(str(ROOT / name) for name in ("ddp_lab", "minitorch", "lessons"))

Clock = dict[int, int]  # by number of a stream: how many of its tasks are known to be done
Site = tuple[str, str, int]  # a file, a function, and which of its waits


@dataclass(eq=False)
class Task:
    """Something to do, in the order of a stream."""

    name: str
    stream: "Stream"
    clock: Clock
    run: Callable[[], object]
    after: "Task | None" = None
    blocks: bool = False  # whether it waits for another process
    runs: bool = False
    done: bool = False

    @property
    def may_run(self) -> bool:
        return not self.runs and (self.after is None or self.after.done)

    @property
    def number(self) -> int:
        return self.clock[self.stream.number]


@dataclass(frozen=True)
class Access:
    """Bytes from `low` to `high` of a block, touched by a task."""

    task: Task
    low: int
    high: int
    writes: bool


@dataclass(eq=False)
class Block:
    """Memory of the device, and who has touched it."""

    machine: "Machine"
    stream: "Stream"
    n_bytes: int = 0
    accesses: list[Access] = field(default_factory=list)
    recorded: set[int] = field(default_factory=set)

    def __del__(self) -> None:
        self.machine.held_bytes -= self.n_bytes
        self.stream.freed.append(self)


class Stream:
    """A queue of tasks. `torch.cuda.Stream`'s methods."""

    def __init__(self, machine: "Machine") -> None:
        with machine.lock:
            self.machine, self.number = machine, len(machine.streams)
            self.clock: Clock = {self.number: 0}
            self.queue: deque[Task] = deque()
            self.last: Task | None = None
            self.freed: list[Any] = []
            self.cuda_stream = self.number
            machine.streams.append(self)

    def wait_event(self, event: "Event") -> None:
        if self.machine.ignores("wait_event"):
            return
        self.machine.put(self, "wait_event", lambda: None, after=event.task, known=event.clock)

    def wait_stream(self, other: "Stream") -> None:
        event = Event(self.machine)
        event.record(other)
        self.wait_event(event)

    def synchronize(self) -> None:
        if not self.machine.ignores("synchronize"):
            self.machine.wait_for(self.last, self.clock)

    def query(self) -> bool:
        return self.last is None or self.last.done


class Event:
    """A place in a stream. `torch.cuda.Event`'s methods."""

    def __init__(self, machine: "Machine") -> None:
        self.machine, self.task, self.clock = machine, None, dict[int, int]()

    def record(self, stream: Stream | None = None) -> None:
        stream = stream or self.machine.current_stream()
        self.task, self.clock = stream.last, dict(stream.clock)

    def wait(self, stream: Stream | None = None) -> None:
        (stream or self.machine.current_stream()).wait_event(self)

    def synchronize(self) -> None:
        if not self.machine.ignores("synchronize"):
            self.machine.wait_for(self.task, self.clock)

    def query(self) -> bool:
        return self.task is None or self.task.done


class Machine:
    """A device: its streams, what the host knows to be done, and what went wrong."""

    def __init__(self) -> None:
        self.lock = threading.Condition()
        self.streams: list[Stream] = []
        self.faults: list[str] = []
        self.sites: dict[Site, None] = {}  # of the packages' waits, in the order of first use
        self.ignored: Site | None = None
        self.shares_default = False
        self.held_bytes = self.peak_bytes = 0
        self._local = threading.local()
        self.start(0)

    def start(self, seed: int, ignored: Site | None = None) -> None:
        """Forget faults, and draw anew; waits of the `ignored` site do nothing."""
        with self.lock:
            if not self.streams:
                Stream(self)
            for stream in self.streams:
                while stream.queue:
                    stream.queue.popleft().done = True
                stream.freed.clear()
            self.faults, self.ignored, self.draw = [], ignored, random.Random(seed)
            self.host: Clock = {s.number: s.clock[s.number] for s in self.streams}

    def undone(self) -> list[str]:
        """Return the names of tasks that nobody has waited for, waits and barriers apart."""
        names = [task.name for stream in self.streams for task in stream.queue]
        return [name for name in names if name not in ("wait_event", "barrier")]

    # Streams of threads

    def current_stream(self, device: object = None) -> Stream:
        """Return the thread's stream; each has its own until it takes another.

        With `shares_default` all threads begin with one, as on CUDA.
        """
        if self.shares_default and not hasattr(self._local, "stream"):
            return self.streams[0]
        if not hasattr(self._local, "stream"):
            self._local.stream = Stream(self)
        found: Stream = self._local.stream
        return found

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before = self.current_stream()
        self._local.stream = stream
        try:
            yield
        finally:
            self._local.stream = before

    # Work

    def put(
        self,
        stream: Stream,
        name: str,
        run: Callable[[], object],
        touched: Sequence[tuple[Block, int, int, bool]] = (),
        *,
        after: Task | None = None,
        known: Clock | None = None,
        blocks: bool = False,
    ) -> Task:
        """Queue a task; note a fault where what it touches is not ordered after others."""
        with self.lock:
            clock = _merged(stream.clock, self.host, known or {})
            clock[stream.number] = stream.clock[stream.number] + 1
            task = Task(name, stream, clock, run, after, blocks)
            for block, low, high, writes in touched:
                self._touch(block, Access(task, low, high, writes))
            stream.clock, stream.last = clock, task
            stream.queue.append(task)
            return task

    def _touch(self, block: Block, access: Access) -> None:
        kept = []
        for other in block.accesses:
            meet = access.low < other.high and other.low < access.high
            ordered = _knows(access.task.clock, other.task)
            if meet and not ordered and (access.writes or other.writes):
                self._fault(access, other)
            inside = access.low <= other.low and other.high <= access.high
            if not (ordered and inside and (access.writes or not other.writes)):
                kept.append(other)
        block.accesses = [*kept, access]

    def _fault(self, access: Access, other: Access) -> None:
        did, does = ("writes" if a.writes else "reads" for a in (other, access))
        self.faults.append(
            f"{access.task.name} on stream {access.task.stream.number} {does} what "
            f"{other.task.name} on stream {other.task.stream.number} {did}, and nothing orders them"
        )

    def new_block(self, n_bytes: int) -> Block:
        """Return memory for the current stream, which may be any that was let go of there."""
        with self.lock:
            stream = self.current_stream()
            freed, stream.freed = stream.freed, []
            known = _merged(stream.clock, self.host)
            for block in freed:
                for access in block.accesses:
                    by = access.task.stream.number
                    if by not in block.recorded and not _knows(known, access.task):
                        self.faults.append(
                            f"{access.task.name} on stream {by} may still use memory that was let "
                            f"go of, and that stream {stream.number} takes again: no record_stream"
                        )
            self.held_bytes += n_bytes
            self.peak_bytes = max(self.peak_bytes, self.held_bytes)
            return Block(self, stream, n_bytes)

    # Waits of the host

    def wait_for(self, task: Task | None, clock: Clock) -> None:
        """Run what is needed for `task`, and by the draw other things; the host then knows."""
        with self.lock:
            while task is not None and not task.done:
                chosen = self._chosen(task)
                if chosen is None:
                    self.lock.wait()
                else:
                    self._run(chosen)
            self.host = _merged(self.host, clock)

    def synchronize(self, device: object = None) -> None:
        """Wait for all streams."""
        if not self.ignores("synchronize"):
            for stream in list(self.streams):
                self.wait_for(stream.last, stream.clock)

    def _chosen(self, target: Task) -> Task | None:
        """Return what to run next; None where another thread is at what is needed."""
        ready = [s.queue[0] for s in self.streams if s.queue and s.queue[0].may_run]
        ready = [task for task in ready if not task.blocks]
        needed = target.stream.queue[0]
        while needed.after is not None and not needed.after.done:
            needed = needed.after.stream.queue[0]
        if needed.blocks and ready:  # what other processes wait for goes out first
            return ready[0]
        if needed.runs:
            return None
        return self.draw.choice(ready) if ready and self.draw.random() < 0.5 else needed

    def _run(self, task: Task) -> None:
        task.runs = True
        if task.blocks:
            self.lock.release()
        try:
            task.run()
        finally:
            if task.blocks:
                self.lock.acquire()
        task.stream.queue.popleft()
        task.done, task.run = True, _nothing  # it held memory
        self.lock.notify_all()

    # Specimens

    def ignores(self, wait: str) -> bool:
        """Tell whether a wait is to do nothing, and note where in the packages it stands."""
        frame = sys._getframe(2)
        while frame is not None and not frame.f_code.co_filename.startswith(PACKAGES):
            file = frame.f_code.co_filename
            if file.startswith(STAND_INS) and frame.f_code.co_name in ("start", "meet"):
                return False  # a group's own
            if file.startswith(TESTS) and not file.startswith(STAND_INS):
                return False  # a test's own
            frame = frame.f_back  # of a stand-in that calls another, or of torch
        if frame is None:
            return False
        if frame.f_code.co_name in ("synchronize", "keep_for") and frame.f_back is not None:
            above = frame.f_back  # `device_array`'s: who called them
            frame = above if above.f_code.co_filename.startswith(PACKAGES) else frame
        file = str(Path(frame.f_code.co_filename).relative_to(ROOT))
        site = (file, frame.f_code.co_qualname, frame.f_lineno)
        with self.lock:
            self.sites[site] = None
        return site == self.ignored


def _knows(clock: Clock, task: Task) -> bool:
    return clock.get(task.stream.number, 0) >= task.number


def _merged(*clocks: Clock) -> Clock:
    merged: Clock = {}
    for clock in clocks:
        for number, count in clock.items():
            merged[number] = max(count, merged.get(number, 0))
    return merged


def _nothing() -> None:
    pass
