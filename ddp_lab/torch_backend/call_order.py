"""The order in which a group's collectives run, and the threads that run them.

May import: torch, backward_end, communicator, errors, future, handle, transport, work.
"""

import hashlib
import itertools
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import RankLost, RankTimeout
from ddp_lab.handle import Crew, Handle, Worker
from ddp_lab.torch_backend.backward_end import note_start
from ddp_lab.torch_backend.future import Name, name_of_call
from ddp_lab.torch_backend.work import Limit, Running
from ddp_lab.transport import header as headers

LANES = 2  # of a group over several hosts
HELD = 64  # works of single numbers
Job = Callable[[Communicator], Any]


class Lane:
    """A thread that runs collectives one after another, as a communicator of their own.

    A group of one host has one. Over a link there are two that take turns: the link carries one
    collective while the next is added up inside the hosts, and is never idle between them.
    """

    def __init__(self, comm: Communicator, name: str) -> None:
        self.comm = comm
        self.worker = Worker(f"ddp_lab group {name}")
        self.last = Handle()  # of the last collective that was left to the thread
        self.last.finish()


class CallOrder:
    """Runs a group's collectives in the order of the calls, lane by lane in turn.

    Invariant: every rank gives the n-th call to the same lane, so that each lane has one order on
    all ranks. What a callback calls passes by all others: it has a name in place of a number
    (`future`), and a communicator of its own.

    Once a rank is lost, or was waited for in vain as long as the group allows, all that is called
    ends with that error: others may still be in the collective that failed, and would take what a
    later one sends for a part of it.
    """

    def __init__(self, comm: Communicator) -> None:
        """Make the lanes of a communicator of all ranks, of which none has been split yet."""
        self._comm = comm
        self.group_name = ""  # torch's
        self._numbers = itertools.count()
        self.calls = 0  # so far
        comms = [comm, *(comm.twin() for _ in range(1, LANES if len(comm.hosts) > 1 else 1))]
        self._lanes = [Lane(c, f"{comm.rank}.{n}") for n, c in enumerate(comms)]
        self._crew = Crew(f"ddp_lab callbacks {comm.rank}/{comm.size}")
        self._held: deque[Running] = deque(maxlen=HELD)
        self._failure: RankLost | RankTimeout | None = None  # the first

    def submit(
        self,
        job: Job,
        tensors: Any,
        waits: bool,
        timeout_s: float,
        *,
        is_own: bool,
        at_end: Callable[[], object] | None = None,
    ) -> Running:
        """Run `job` behind all earlier ones of its lane; return torch's work for it.

        Args:
            tensors: what it fills.
            waits: whether the caller waits at once anyway: it runs the job itself if nobody is
                ahead.
            timeout_s: how long it may take once it runs.
            is_own: whether the call has set that.
            at_end: called when it has ended, however, before whoever waits for it is told.
        """
        name = name_of_call()
        number = 0
        if not name:
            number = next(self._numbers)
            self.calls = number + 1
        lane = self._lanes[number % len(self._lanes)]
        comm = self._comm.aside(context_of(name)) if name else lane.comm

        def run() -> None:
            try:
                if self._failure is not None:
                    raise self._failure
                with Limit(comm, timeout_s, is_own=is_own):
                    job(comm)
            except (RankLost, RankTimeout) as error:
                if isinstance(error, RankLost) or not is_own:
                    self._failure = self._failure or error
                raise
            finally:
                if at_end is not None:
                    at_end()

        handle = Handle()
        if waits and (name or not lane.worker.busy):
            handle.run(run)
        else:
            site = headers.call_site()  # a thread of ours has no line of the program's

            def run_there() -> None:
                headers.stand_at(site)
                run()

            if name:
                self._crew.run(lambda: handle.run(run_there))
            else:
                handle = lane.last = lane.worker.submit(run_there)
            note_start(handle)
        work = Running(handle, tensors, name or (self.group_name, number), self._crew)
        if not waits and _is_number(tensors):
            self._held.append(work)
        return work

    def under_way(self) -> list[Handle]:
        """Return the last collective of each lane."""
        return [lane.last for lane in self._lanes]

    def finish(self, timeout_s: float) -> None:
        """Wait until what is under way has ended, callbacks too, at most so long."""
        give_up = time.monotonic() + timeout_s
        workers: list[Worker | Crew] = [*(lane.worker for lane in self._lanes), self._crew]
        while any(w.busy for w in workers) and (left_s := give_up - time.monotonic()) > 0:
            for worker in workers:
                worker.finish(left_s)
        self._crew.dismiss()


def _is_number(tensors: Any) -> bool:
    """Return whether a work fills one number, so that its Python half has to be held for a while.

    torch's reducer keeps the C++ half of one, which tells how many ranks have not joined. It waits
    for ever once the Python half is gone; holding every work would keep tensors.
    """
    if not isinstance(tensors, list) or len(tensors) != 1:
        return False
    return isinstance(tensors[0], torch.Tensor) and tensors[0].numel() == 1


def context_of(name: Name) -> int:
    """Return a context that belongs to the collective of this name alone, far above all others."""
    digest = hashlib.blake2b(repr(name).encode(), digest_size=7).digest()
    return 1 << 60 | int.from_bytes(digest)
