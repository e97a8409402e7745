"""Ranks whose `send` returns only when the value has been received: the strictest channel.

A part that waits at another place than its partner hangs here, whatever other channels forgive; the
first rank that fails, or waits too long, ends the others.
"""

import queue
import threading
from collections.abc import Callable
from typing import Any

from minitorch.graph.placement.send_recv import OPENS

HANGS_S = 120.0
LOOKS_S = 0.02
Boxes = dict[tuple[int, int], tuple[Any, Any]]


class Ended(Exception):
    """Another rank failed."""


class Rendezvous:
    """One of the ranks.

    Attributes:
        sent: for each message its destination and its array's shape, but for what opens a run.
    """

    def __init__(self, rank: int, size: int, boxes: Boxes, failed: threading.Event) -> None:
        self.rank, self.size, self._boxes, self._failed = rank, size, boxes, failed
        self.sent: list[tuple[int, tuple[int, ...]]] = []

    def send(self, x: Any, dst: int) -> None:
        there, taken = self._boxes[self.rank, dst]
        if x.shape != (2,) or x[0] != OPENS:
            self.sent.append((dst, x.shape))
        there.put(x.copy())
        self._get(taken, f"to be received by {dst}")

    def recv(self, src: int) -> Any:
        there, taken = self._boxes[src, self.rank]
        value = self._get(there, f"for {src}")
        taken.put(None)
        return value

    def _get(self, box: Any, what: str) -> Any:
        for _ in range(int(HANGS_S / LOOKS_S)):
            try:
                return box.get(timeout=LOOKS_S)
            except queue.Empty:
                if self._failed.is_set():
                    raise Ended from None
        raise TimeoutError(f"rank {self.rank} waits {what}")


def on_rendezvous(work: Callable[[Rendezvous], Any], size: int = 2) -> tuple[list[Any], list[Any]]:
    """Return what `work` gives on each of `size` ranks, and the ranks.

    Raises:
        Exception: that of the first rank that failed.
    """
    boxes = {(a, b): (queue.Queue(), queue.Queue()) for a in range(size) for b in range(size)}
    failed = threading.Event()
    ranks = [Rendezvous(r, size, boxes, failed) for r in range(size)]
    found: list[Any] = [None] * size
    errors: list[Exception] = []

    def run(r: int) -> None:
        try:
            found[r] = work(ranks[r])
        except Ended:
            pass
        except Exception as error:
            errors.append(error)
            failed.set()

    threads = [threading.Thread(target=run, args=(r,)) for r in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return found, ranks
