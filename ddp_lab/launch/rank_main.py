"""What a rank does from its fork to its end; the other side of `launch_processes`.

The launcher sends one message, the job. The rank sends two back: that it begins, and its outcome.
While it works, a thread of it waits on the same socket: asked where the rank is, it answers with
the stack of the main thread; when the launcher is gone, it ends the process.
"""

import importlib
import os
import signal
import socket
import struct
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

import cloudpickle

from ddp_lab.collectives.registry import register_algorithm
from ddp_lab.communicator.communicator import Communicator
from ddp_lab.launch.failures import Failure, call, failure_of, frames_of
from ddp_lab.launch.world import give
from ddp_lab.transport.base import Leaves
from ddp_lab.transport.board import FAILED, RETURNED, Onlooker
from ddp_lab.transport.connect import connect
from ddp_lab.transport.links.link import Hosts, Link
from ddp_lab.transport.record import Log, Recorder
from ddp_lab.transport.shm.board import ShmBoard
from ddp_lab.transport.shm.segment import Segment

LENGTH = struct.Struct("<cQ")
JOB, READY, OUTCOME, WHERE = b"j", b"r", b"o", b"w"


@dataclass
class Job:
    """What a rank is to do. `call` holds function and arguments, pickled.

    On another machine `path`, `directory` and `environment` are empty: those there stay.
    """

    call: bytes
    modules: list[str]  # imported first: `call` may need what they register, and not name them
    transport: str
    master: str  # the address of rank 0's machine
    secret: bytes  # that the ranks of this run know on every machine
    hosts: Hosts
    link: Link | None
    record: bool
    zero: float
    path: list[str]
    directory: str
    argv: list[str]
    environment: dict[str, str]


@dataclass
class Outcome:
    """How a rank ended: with a pickled result or with a failure."""

    result: bytes = b""
    failure: Failure | None = None
    log: Log | None = None


_sending = threading.Lock()


def send_message(link: socket.socket, kind: bytes, payload: bytes = b"") -> None:
    """Write one message."""
    with _sending:  # a rank has two threads that may speak
        link.sendall(LENGTH.pack(kind, len(payload)))
        if payload:
            link.sendall(payload)


def read_message(link: socket.socket) -> tuple[bytes, bytes]:
    """Return kind and payload of the next message; (b"", b"") at the end, if cut short too."""
    head = _read(link, LENGTH.size)
    if len(head) < LENGTH.size:
        return b"", b""
    kind, length = LENGTH.unpack(head)
    payload = _read(link, length)
    return (kind, payload) if len(payload) == length else (b"", b"")


def _read(link: socket.socket, n_bytes: int) -> bytes:
    parts = bytearray()
    while len(parts) < n_bytes:
        part = link.recv(min(n_bytes - len(parts), 1 << 20))
        if not part:
            break
        parts += part
    return bytes(parts)


def rank_main(
    rank: int, size: int, arena_bytes: int, memory: int, link_fd: int, out: int, err: int
) -> int:
    """Run a rank whose descriptors these are; return the exit code."""
    _take_over(out, err)
    link = socket.socket(fileno=link_fd)
    _, payload = read_message(link)
    if not payload:
        return 1
    job: Job = cloudpickle.loads(payload)
    segment = Segment(memory, size, arena_bytes)
    board = ShmBoard(segment)
    board.live(rank)
    Onlooker(target=_answer, args=(link,), name="launcher", daemon=True).start()
    at_end: list[Leaves] = []
    outcome = _run(job, rank, segment, link, at_end)
    if outcome.failure is None:
        board.end(rank, RETURNED)
    else:
        board.end(rank, FAILED, outcome.failure.kind)
    _flush()
    send_message(link, OUTCOME, cloudpickle.dumps(outcome))
    for transport in at_end if outcome.failure is None else ():
        transport.leave()
    return 0 if outcome.failure is None else 1


def _take_over(out: int, err: int) -> None:
    """Let everything this process prints, in whatever language, go to the launcher."""
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115 - for good
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115 - for good
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue  # the function closed it, or the launcher is gone


def _answer(link: socket.socket) -> None:
    """Answer the launcher's questions until it is gone; then end this process."""
    main = threading.main_thread().ident
    while True:
        try:
            kind, _ = read_message(link)
        except OSError:
            kind = b""
        if not kind:
            os._exit(1)
        frame = sys._current_frames().get(main or 0)
        stack = [] if frame is None else frames_of(frame)
        send_message(link, WHERE, cloudpickle.dumps(stack))


def _run(
    job: Job, rank: int, segment: Segment, link: socket.socket, at_end: list[Leaves]
) -> Outcome:
    recorder = None
    try:
        _prepare(job)
        for module in job.modules:
            importlib.import_module(module)
        fn, args, learned = cloudpickle.loads(job.call)
        for algorithm in learned:
            register_algorithm(*algorithm)
        transport = connect(
            job.transport, rank, segment, job.hosts, job.link, job.master, job.secret
        )
        if isinstance(transport, Leaves):
            at_end.append(transport)
        if job.record:
            transport = recorder = Recorder(transport, zero=job.zero)
        comm = Communicator(transport)
        give(comm)
        send_message(link, READY)
        result = call(fn, comm, args)
        return Outcome(_pickle(result), None, recorder.log if recorder else None)
    except BaseException as error:
        return Outcome(failure=failure_of(rank, error, time.monotonic()))


def _pickle(result: Any) -> bytes:
    try:
        data: bytes = cloudpickle.dumps(result)
    except Exception as error:
        raise TypeError(
            f"launch: the result cannot be sent back: got {type(result).__name__} "
            f"({type(error).__name__}: {error}). Return arrays, numbers, or containers of them."
        ) from error
    return data


def _prepare(job: Job) -> None:
    """Make this process look like the launcher's: directory, modules, environment."""
    sys.argv = job.argv
    if job.environment:
        os.environ.clear()
        os.environ.update(job.environment)
        sys.path[:] = job.path
        os.chdir(job.directory)
