"""Ranks as processes: hand out the job, listen, and at the first failure end them all."""

import os
import selectors
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

import cloudpickle

from ddp_lab.collectives.registry import learners
from ddp_lab.errors import InvalidArgument
from ddp_lab.launch.deadlines import Deadline
from ddp_lab.launch.failures import Failure, Frame, rank_failed, timeout_error
from ddp_lab.launch.pickling import dumps_for_ranks
from ddp_lab.launch.rank_main import JOB, READY, WHERE, Job, Outcome, read_message, send_message
from ddp_lab.launch.rank_output import Printer, names_of_ranks
from ddp_lab.launch.results import Results
from ddp_lab.launch.zygote_client import Ranks, start_ranks
from ddp_lab.transport.board import FAILED, RUNNING, Entry
from ddp_lab.transport.header import operation_of, site_of
from ddp_lab.transport.links.link import Hosts, Link
from ddp_lab.transport.shm.board import ShmBoard
from ddp_lab.transport.shm.segment import Segment

STOP_S = 5.0
START_S = 60.0  # importing torch in a new zygote, and the function's own modules in each rank
READ_BYTES = 1 << 16
REGISTERING = ("ddp_lab.torch_backend",)  # modules that a function needs and never names
UNHEARD = Entry(RUNNING, heard=False)  # of a rank that another process has started


def launch_processes(
    fn: Callable[..., Any],
    world_size: int,
    args: tuple[Any, ...],
    transport: str,
    timeout_s: float,
    record: bool,
    hosts: Hosts,
    link: Link | None,
) -> Results:
    """Call `fn(comm, *args)` in one process a rank; see `ddp_lab.launch`."""
    job = make_job(fn, args, transport, record, hosts, link)
    segment = Segment.create(world_size)
    try:
        run = Run(start_ranks(range(world_size), segment), ShmBoard(segment), timeout_s)
        try:
            run.send(job)
            run.listen()
        finally:
            run.end()
    finally:
        segment.close()
    return run.ending().results(world_size, timeout_s, record)


def make_job(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    transport: str,
    record: bool,
    hosts: Hosts,
    link: Link | None,
) -> Job:
    """Return the job, with everything that makes a rank's process look like this one."""
    try:
        call = dumps_for_ranks((fn, args, learners()))
    except Exception as error:
        raise InvalidArgument(
            f"launch: the function or its arguments cannot be sent to the ranks: "
            f"{type(error).__name__}: {error}. Make what cannot be sent inside the function."
        ) from error
    return Job(
        call=call,
        modules=[name for name in REGISTERING if name in sys.modules],
        transport=transport,
        master="127.0.0.1",
        secret=b"",
        hosts=hosts,
        link=link,
        record=record,
        zero=time.perf_counter(),
        path=list(sys.path),
        directory=os.getcwd(),  # noqa: PTH109 - a plain string crosses to the rank
        argv=list(sys.argv),
        environment=dict(os.environ),
    )


@dataclass
class Ending:
    """How ranks have ended: all of a run, or those of one host."""

    outcomes: dict[int, Outcome]
    failures: list[Failure]
    late: dict[int, Entry] | None
    stacks: dict[int, list[Frame]]

    def results(self, size: int, timeout_s: float, record: bool) -> Results:
        """Return the ranks' results, or raise what the first guilty rank caused."""
        timeouts_only = all(f.timeout or f.secondary for f in self.failures)
        if self.late is not None and timeouts_only:
            entries = {rank: self.late.get(rank, UNHEARD) for rank in range(size)}
            raise timeout_error(entries, self.stacks, timeout_s)
        if self.failures:
            raise rank_failed(self.failures, size)
        outcomes = [self.outcomes[rank] for rank in range(size)]
        logs = [outcome.log for outcome in outcomes if outcome.log is not None]
        return Results([cloudpickle.loads(o.result) for o in outcomes], logs if record else None)


class Run:
    """One launch under way, seen from the launcher."""

    def __init__(
        self,
        ranks: Ranks,
        board: ShmBoard,
        timeout_s: float,
        out: TextIO | None = None,
        err: TextIO | None = None,
    ) -> None:
        self._ranks = ranks
        self._board = board
        self._here = list(ranks.links)  # of the world's ranks, those that this process started
        self._timeout_s = timeout_s
        self._ready = 0  # ranks that call their function
        self._deadline = Deadline(board, START_S + timeout_s)
        self._ending = Ending({}, [], None, {})
        self._asked: set[int] = set()
        self._status_text = b""
        self._all_gone = False
        self._killed = False
        self._printer = Printer(names_of_ranks(board.size))
        self._out, self._err = out or sys.stdout, err or sys.stderr
        self._selector = selectors.DefaultSelector()
        for fd in (ranks.status, *ranks.outs.values(), *ranks.errs.values()):
            os.set_blocking(fd, False)
        self._selector.register(ranks.status, selectors.EVENT_READ, (self._read_status, 0))
        for rank in self._here:
            self._selector.register(
                ranks.links[rank], selectors.EVENT_READ, (self._read_link, rank)
            )
            self._selector.register(ranks.outs[rank], selectors.EVENT_READ, (self._print, rank))
            self._selector.register(ranks.errs[rank], selectors.EVENT_READ, (self._warn, rank))

    def send(self, job: Job) -> None:
        """Hand the job to every rank."""
        payload = cloudpickle.dumps(job)
        for link in self._ranks.links.values():
            try:
                send_message(link, JOB, payload)
            except OSError:
                continue  # it died already; its end is reported like any other

    def listen(self, abandoned: Callable[[], bool] = lambda: False) -> None:
        """Return when all ranks are done, or some failed and the others had time to notice.

        It also returns once nobody waits for them any more.
        """
        while not abandoned() and (silent := self._silent()) and not self._all_gone:
            left_s = self._deadline.remaining_s(silent, self._asked - self._ending.stacks.keys())
            if left_s > 0:
                self._handle(min(left_s, 1.0))
            elif self._ending.failures or self._ending.late is not None:
                return
            else:
                self._ask_where()

    def _handle(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            handler, rank = key.data
            if not handler(rank):
                self._selector.unregister(key.fileobj)

    def _ask_where(self) -> None:
        """The time is over: note who waits for whom, and ask all for their stacks."""
        self._ending.late = {rank: self._board.read(rank) for rank in self._here}
        self._board.deadline = time.monotonic()  # now who waits gives up, and no earlier
        self._deadline.run_out()
        for rank in self._silent():
            try:
                send_message(self._ranks.links[rank], WHERE)
            except OSError:
                continue  # it died just now
            self._asked.add(rank)

    def _read_link(self, rank: int) -> bool:
        try:
            kind, payload = read_message(self._ranks.links[rank])
        except OSError:
            kind = b""
        if not kind:
            return False
        if kind == READY:
            self._ready += 1
            if self._ready == len(self._here):
                self._deadline.begin(self._timeout_s)
            return True
        if kind == WHERE:
            self._ending.stacks[rank] = cloudpickle.loads(payload)
            return True
        outcome: Outcome = cloudpickle.loads(payload)
        self._ending.outcomes[rank] = outcome
        if outcome.failure is not None:
            self._fail(outcome.failure)
        return True

    def _read_status(self, _: int) -> bool:
        data = os.read(self._ranks.status, READ_BYTES)
        *lines, self._status_text = (self._status_text + data).split(b"\n")
        for line in lines:
            if line.startswith(b"end "):
                rank, code = map(int, line.split()[1:])
                self._note_death(rank, code)
        self._all_gone = not data
        return bool(data)

    def _note_death(self, rank: int, code: int) -> None:
        """A rank's process has ended: a failure, unless its outcome is here or on the way."""
        while rank not in self._ending.outcomes and self._read_link(rank):
            pass
        if rank in self._ending.outcomes or self._killed:
            return
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"left with {code}"
        self._board.end(rank, FAILED, how)
        doing = self._board.read(rank).doing
        where = f", last seen in {operation_of(doing)} at {site_of(doing)}" if doing else ""
        self._fail(Failure(rank, "process ended", how + where, time.monotonic()))
        self._ending.outcomes[rank] = Outcome(failure=self._ending.failures[-1])

    def _fail(self, failure: Failure) -> None:
        self._deadline.run_out()
        self._ending.failures.append(failure)

    def _print(self, rank: int) -> bool:
        return self._printer.take(rank, os.read(self._ranks.outs[rank], READ_BYTES), self._out)

    def _warn(self, rank: int) -> bool:
        return self._printer.take(rank, os.read(self._ranks.errs[rank], READ_BYTES), self._err)

    def end(self) -> None:
        """Leave no process: wait for those that are done, kill the others, print what is left."""
        if self._silent() or self._ending.failures:
            self._killed = True
            self._ranks.kill()
        give_up = time.monotonic() + STOP_S
        while not self._all_gone:
            self._handle(0.2)
            if time.monotonic() > give_up:
                self._ranks.kill()
        for rank in self._here:
            self._drain(self._print, rank)
            self._drain(self._warn, rank)
        self._printer.finish()
        self._selector.close()
        self._ranks.close()

    def _drain(self, handler: Callable[[int], bool], rank: int) -> None:
        try:
            while handler(rank):
                pass
        except BlockingIOError:
            return  # a process that the rank started still holds the pipe

    def _silent(self) -> list[int]:
        """Return the ranks that have not told how they ended."""
        return [rank for rank in self._here if rank not in self._ending.outcomes]

    def ending(self) -> Ending:
        """Return how the ranks of this process have ended."""
        if self._ending.late is None and not self._ending.failures:
            for rank in self._silent()[:1]:
                self._fail(Failure(rank, "process ended", "it could not be started", 0.0))
        return self._ending
