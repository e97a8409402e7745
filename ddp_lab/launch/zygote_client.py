"""Keeping a zygote and asking it for ranks. Only this module starts processes of `launch`."""

import atexit
import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from ddp_lab.errors import InvalidArgument, RankFailed
from ddp_lab.launch.zygote import FDS_A_RANK
from ddp_lab.transport.shm.segment import Segment

MOST_RANKS = 80  # one message to the zygote carries at most 253 descriptors
STOP_S = 5.0
# What the launcher has imported of these takes each rank long if the zygote has not: torch seconds,
# and its second line comes with the first optimizer; pytest, which a test's own module imports,
# more than all else that a rank does.
SHARED = ("torch", "torch._dynamo", "pytest")
# Boundaries between requests are kept, where the system can.
SOCKET_KIND = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_STREAM

_lock = threading.Lock()
_numbers = itertools.count()
_running: "ZygoteProcess | None" = None


@dataclass(frozen=True)
class ZygoteProcess:
    """A zygote under this process."""

    process: "subprocess.Popen[bytes]"
    control: socket.socket
    owner: int
    has_torch: bool

    @property
    def usable(self) -> bool:
        """Whether it can fork what is needed now."""
        enough = self.has_torch or "torch" not in sys.modules
        return enough and self.owner == os.getpid() and self.process.poll() is None


@dataclass(frozen=True)
class Ranks:
    """Ranks that were asked for: one end of every pipe to them."""

    number: int
    control: socket.socket
    status: int
    links: dict[int, socket.socket]
    outs: dict[int, int]
    errs: dict[int, int]

    def kill(self) -> None:
        """Have all that still live killed."""
        with contextlib.suppress(OSError):  # the zygote is gone, and its ranks with it
            self.control.send(json.dumps({"kill": self.number}).encode())

    def close(self) -> None:
        """Close all ends."""
        for link in self.links.values():
            link.close()
        for fd in (self.status, *self.outs.values(), *self.errs.values()):
            os.close(fd)


def start_ranks(ranks: Sequence[int], segment: Segment) -> Ranks:
    """Return a new process for each of these ranks of a world, waiting for its job.

    Raises:
        InvalidArgument: more ranks than one launch can start.
        RankFailed: no process could be started.
    """
    if len(ranks) > MOST_RANKS:
        raise InvalidArgument(
            f"launch: too many processes: got {len(ranks)}, expected at most {MOST_RANKS}. "
            "Use transport='threads', or ddp_lab.simulate for large numbers of ranks."
        )
    links, outs, errs, theirs = {}, {}, {}, []
    status, status_end = os.pipe()
    for rank in ranks:
        mine, other = socket.socketpair()
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        links[rank], outs[rank], errs[rank] = mine, out, err
        theirs += [other.detach(), out_end, err_end]
    assert len(theirs) == FDS_A_RANK * len(ranks)
    number = next(_numbers)
    layout = segment.layout
    request = {
        "launch": number,
        "ranks": list(ranks),
        "size": layout.size,
        "arena_bytes": layout.arena_bytes,
    }
    try:
        control = _zygote().control
        started = Ranks(number, control, status, links, outs, errs)
        fds = [status_end, segment.fd, *theirs]
        socket.send_fds(control, [json.dumps(request).encode()], fds)
    except OSError as error:
        raise RankFailed(f"launch: the ranks could not be started: {error}.") from error
    finally:
        for fd in (status_end, *theirs):
            os.close(fd)
    return started


def _zygote() -> ZygoteProcess:
    """Return the zygote, started at the first call and when torch has come into play since."""
    global _running
    with _lock:
        if _running is not None and not _running.usable:
            stop_zygote()
        if _running is None:
            _running = _start_zygote()
            atexit.register(stop_zygote)
        return _running


def _start_zygote() -> ZygoteProcess:
    mine, theirs = socket.socketpair(socket.AF_UNIX, SOCKET_KIND)
    has_torch = "torch" in sys.modules
    arguments = [str(theirs.fileno()), *(name for name in SHARED if name in sys.modules)]
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; from ddp_lab.launch.zygote import main; main()"
    )
    environment = {"OMP_NUM_THREADS": "1", **os.environ}  # one core a rank, as torchrun does
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    return ZygoteProcess(process, mine, os.getpid(), has_torch)


def stop_zygote() -> None:
    """End the zygote, and with it every rank; the next launch starts another."""
    global _running
    ended, _running = _running, None
    if ended is None or ended.owner != os.getpid():
        return
    ended.control.close()
    ended.process.terminate()  # it heeds that only while it imports: see `Zygote`
    try:
        ended.process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        ended.process.kill()
        ended.process.wait()
