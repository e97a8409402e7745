"""Interfaces of hosts that are a pretence, where ranks are processes: in their shared segment."""

import fcntl
import threading
import time
from collections.abc import Callable

from ddp_lab.transport.links.link import Hosts
from ddp_lab.transport.shm.segment import Segment

OUT_WORD, IN_WORD = 10, 11  # of a rank's page of the board: when its host's interface is free


class SharedInterfaces:
    """Until when each host's interface is busy, under a lock that dies with its process."""

    def __init__(
        self, segment: Segment, hosts: Hosts, now_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._now_ns = now_ns
        self._segment = segment
        self._pages = [segment.layout.board(host[0]) >> 3 for host in hosts]
        self._lock = threading.Lock()  # a lock of the system holds for a process, not a thread

    def reserve(self, src: int, dst: int, leaves_ns: int, alpha_ns: int) -> int:
        """Return when a message from host `src` that leaves for so long is in at host `dst`."""
        words = self._segment.words
        way_out, way_in = self._pages[src] + OUT_WORD, self._pages[dst] + IN_WORD
        with self._lock:
            fcntl.lockf(self._segment.fd, fcntl.LOCK_EX, 1)
            try:
                begins = max(self._now_ns(), words[way_out])
                words[way_out] = begins + leaves_ns
                words[way_in] = max(begins + alpha_ns, words[way_in]) + leaves_ns
                return words[way_in]
            finally:
                fcntl.lockf(self._segment.fd, fcntl.LOCK_UN, 1)
