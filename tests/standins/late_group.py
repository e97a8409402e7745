"""Groups of ranks on the device "late", in NCCL's manner: on a stream of their own, and late.

A collective waits on the group's stream for what its caller's stream holds; `Work.wait` makes the
current stream wait for it, and the host goes on at once. Two groups: the ranks of a `Meeting` are
threads, whose hosts meet and whose streams do not; a `LateGroup` sends between processes,
over gloo, from and to memory of the processor: the backend "late_ccl" of `torch.distributed`.
"""

import functools
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tests.standins.late_device import Late, _bytes, installed, queue
from tests.standins.stream_machine import Event, Machine, Stream

TIMEOUT = timedelta(seconds=60)


class LateWork(dist.Work):
    """What a group's stream does, until `done`."""

    def __init__(self, done: Event, result: Any) -> None:
        super().__init__()
        self.done, self.result = done, result

    def wait(self, timeout: timedelta = TIMEOUT) -> bool:
        self.done.wait()
        return True

    def is_completed(self) -> bool:
        return self.done.query()

    def get_future(self) -> Any:
        return LateFuture(self.done, self.result)


class LateFuture:
    """A future whose value is there at once, for streams that wait for `done`."""

    def __init__(self, done: Event, result: Any) -> None:
        self.done, self.result = done, result

    def wait(self) -> Any:
        self.done.wait()
        return self.result

    def value(self) -> Any:
        return self.result

    def then(self, callback: Callable[["LateFuture"], Any]) -> "LateFuture":
        """Call it in the order of a stream that waits for this one."""
        machine = self.done.machine
        after = Event(machine)
        with machine.stream(Stream(machine)):
            self.done.wait()
            result = callback(self)
            after.record()
        return LateFuture(after, result)


class OnAStream(dist.ProcessGroup):
    """What both groups share: `start` puts work on the group's stream."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self.machine: Machine = installed()
        self.stream = Stream(self.machine)

    def start(self, tensors: Sequence[Tensor], put: Callable[[], Any]) -> LateWork:
        before, done = Event(self.machine), Event(self.machine)
        before.record()
        with self.machine.stream(self.stream), torch.no_grad():
            self.stream.wait_event(before)
            put()
            done.record()
        for tensor in tensors:
            assert isinstance(tensor, Late)
            tensor.block.recorded.add(self.stream.number)
        return LateWork(done, list(tensors))

    def getBackendName(self) -> str:
        return "late_ccl"


class Meeting:
    """Where the ranks of one process meet for a collective: one of them queues it for all."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.barrier = threading.Barrier(size, timeout=60)
        self.tensors: list[list[Tensor]] = [[]] * size
        self.events: list[Any] = [None] * size
        self.works: list[LateWork] = []

    def ranks(self) -> list["Together"]:
        """Return an end for each thread."""
        return [Together(self, rank) for rank in range(self.size)]


class Together(OnAStream):
    """One rank's end of a group of threads."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        super().__init__(rank, meeting.size)
        self.meeting, self.place = meeting, rank

    def meet(self, mine: list[Tensor], compute: Callable[[list[list[Tensor]]], Any]) -> LateWork:
        m = self.meeting
        m.events[self.place] = Event(self.machine)
        m.events[self.place].record()
        m.tensors[self.place] = mine
        if m.barrier.wait() == 0:
            for event in m.events:
                self.stream.wait_event(event)
            m.works = [self.start(tensors, lambda: None) for tensors in m.tensors]
            with self.machine.stream(self.stream), torch.no_grad():
                compute(m.tensors)
            for work in m.works:
                work.done.record(self.stream)
        m.barrier.wait()
        work = m.works[self.place]
        m.barrier.wait()
        return work

    def allreduce(self, tensors: list[Tensor], options: Any = None) -> LateWork:
        is_sum = options is None or options.reduceOp == dist.ReduceOp.SUM

        def compute(all_ranks: list[list[Tensor]]) -> None:
            stacked = torch.stack([x for (x,) in all_ranks])
            result = stacked.sum(0) if is_sum else stacked.amax(0)
            for (x,) in all_ranks:
                x.copy_(result)

        return self.meet(tensors, compute)

    def broadcast(self, tensors: list[Tensor], options: Any = None) -> LateWork:
        root = 0 if options is None else options.rootRank
        return self.meet(tensors, lambda ranks: [x.copy_(ranks[root][0]) for (x,) in ranks])


class LateGroup(OnAStream):
    """Sends and receives over gloo, when the device gets to it."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self.gloo = dist.ProcessGroupGloo(store, rank, size, timeout)
        self.sent: list[Any] = []  # what gloo wants alive

    def send(self, tensors: list[Tensor], dst: int, tag: int = 0) -> LateWork:
        (x,) = tensors
        assert isinstance(x, Late)

        def send() -> None:
            copy = x.held.clone()
            self.sent.append((copy, self.gloo.send([copy], dst, tag)))

        return self.start(tensors, lambda: queue("send", send, [x], []))

    def recv(self, tensors: list[Tensor], src: int, tag: int = 0) -> LateWork:
        (x,) = tensors
        assert isinstance(x, Late)
        touched = [(x.block, *_bytes(x.held), True)]

        def receive() -> None:
            self.gloo.recv([x.held], src, tag).wait()

        put = functools.partial(self.machine.put, self.stream, "recv", receive, touched)
        return self.start(tensors, lambda: put(blocks=True))

    def barrier(self, opts: Any = None) -> None:
        task = self.machine.put(
            self.stream, "barrier", lambda: self.gloo.barrier().wait(), blocks=True
        )
        self.machine.wait_for(task, task.clock)


def _create(store: Any, rank: int, size: int, timeout: timedelta) -> LateGroup:
    return LateGroup(store, rank, size, timeout)


@functools.cache
def registered() -> None:
    """Make the backend known to this process's torch."""
    installed()
    dist.Backend.register_backend("late_ccl", _create, devices=["late"])
