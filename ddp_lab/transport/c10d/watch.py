"""Who has failed among the ranks of a torch group, told through torch's store.

A process that dies closes its connections, and that is noticed. One that has raised but lives on,
in a notebook or behind a thread that does not end, keeps them open, and its peers would wait for as
long as the group allows. So a rank whose collective raises, or that ends in an exception, says so
in the store, and who waits looks there now and then. torch cannot be asked whether a message has
come without waiting for it: so a thread waits in torch, and the caller for that thread.
"""

import sys
import threading
import uuid
from types import TracebackType
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from ddp_lab.errors import RankLost, RankTimeout
from ddp_lab.handle import Worker

LOOK_S = 0.2  # between two looks at the store, while something is waited for


class Watch:
    """What the ranks of a group tell each other of failures; all of them make it together."""

    def __init__(self, group: Any, rank: int) -> None:
        name = torch.from_numpy(np.frombuffer(bytearray(uuid.uuid4().bytes), np.uint8))
        dist.broadcast(name, group=group, group_src=0)  # no dead rank has left this name
        self._key = f"ddp_lab/failed/{bytes(name.tolist()).hex()}"
        self._store: Any = dist.distributed_c10d._get_default_store()
        self._rank = rank
        self.tolerated: set[int] = set()  # ranks whose failure ends only waits for them
        self._of_thread = threading.local()
        self._before = sys.excepthook
        sys.excepthook = self._uncaught

    def _uncaught(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        self.tell(error)
        self._before(kind, error, trace)

    def tell(self, error: BaseException) -> None:
        """Say that this rank has failed; who was told of earlier stands before it."""
        words = f"{self._rank} {type(error).__name__}: {str(error).partition(chr(10))[0]}"
        place = self._store.add(self._key, 1)
        self._store.set(f"{self._key}/{place}", words)

    def wait(self, work: Any, peer: int) -> None:
        """Wait for a receive from `peer`.

        Raises:
            RankLost: a rank has failed meanwhile; names the first one.
        """
        waiter = getattr(self._of_thread, "waiter", None)
        if waiter is None:
            waiter = self._of_thread.waiter = Worker("ddp_lab waiter")
        handle = waiter.submit(work.wait)
        while True:
            try:
                handle.wait(LOOK_S)
                return
            except RankTimeout:
                self.look("recv", peer)

    def look(self, operation: str, peer: int) -> None:
        """Return if no rank has failed; a connection may close because its other end gave up.

        Raises:
            RankLost: one has; names the first one, whichever `peer` was waited for, and of those
                that are tolerated only `peer`.
        """
        try:
            failures = self._failures()
        except RuntimeError:  # the store is gone with the rank that kept it
            return
        concern = [words for words in failures if int(words[0]) not in self.tolerated - {peer}]
        if not concern:
            return
        first, why = concern[0]
        # The thread that waits in torch is left behind; nothing can be received here any more.
        self._of_thread.waiter = None
        raise RankLost(
            f"{operation}: rank {first} has failed ({why}): rank {self._rank} still waits for "
            f"rank {peer}. Look at what rank {first} did instead of sending.",
            int(first),
        )

    def _failures(self) -> list[tuple[str, str]]:
        """Return the ranks that have failed and why, in the order in which they said so."""
        if not self._store.check([self._key]):
            return []
        places = range(1, self._store.add(self._key, 0) + 1)
        texts = [self._store.get(f"{self._key}/{place}").decode() for place in places]
        return [(rank, why) for rank, _, why in (text.partition(" ") for text in texts)]
