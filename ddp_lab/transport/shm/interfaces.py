"""Interfaces of pretended hosts whose ranks are processes: they lie in the shared segment."""

import fcntl
import threading
import time
from collections.abc import Callable

from ddp_lab.transport.links.emulated_link import Interfaces
from ddp_lab.transport.links.link import Hosts
from ddp_lab.transport.shm.segment import Segment

FIRST_WORD = 264  # of a rank's page of the board, behind its texts


class SegmentLock:
    """A lock on a segment, for threads and processes, that dies with its process."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._lock = threading.Lock()  # a lock of the system holds for a process, not a thread

    def __enter__(self) -> None:
        self._lock.acquire()
        fcntl.lockf(self._segment.fd, fcntl.LOCK_EX, 1)

    def __exit__(self, *_: object) -> None:
        fcntl.lockf(self._segment.fd, fcntl.LOCK_UN, 1)
        self._lock.release()


def of_processes(
    segment: Segment, hosts: Hosts, now_ns: Callable[[], int] = time.monotonic_ns
) -> Interfaces:
    """Return interfaces whose ranks see the segment; each host's lie in its first rank's page."""
    parts = [segment.layout.board(host[0]) // 8 + FIRST_WORD for host in hosts]
    return Interfaces(segment.words, parts, SegmentLock(segment), now_ns)
