"""Ranks that torch.distributed has joined already: messages over gloo, or NCCL from its buffers.

A message is two torch messages with the channel as tag: its texts and sizes, then its bytes.
A process that dies closes its connections, and that is noticed. One that has raised but lives on,
in a notebook or behind a thread that does not end, keeps them open. So a rank whose collective
raises, or that ends in an exception, says so in torch's store, and who waits looks there now and
then (`Watch`). torch cannot be asked whether a message has come without waiting for it: so a thread
waits in torch, and the caller for that thread.

Timings are those of the backend beneath plus two latencies a message.
"""

import sys
import threading
import uuid
from collections import deque
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from ddp_lab.errors import RankLost, RankTimeout
from ddp_lab.handle import Worker
from ddp_lab.transport.base import NDArray, Shape, Transport
from ddp_lab.transport.description import describe, parse

HEAD = 1024  # bytes of the first message: four integers, header and description
FIXED = 4 * 8  # of these integers: two lengths, channel, kind
MOST_TAGS = 1 << 30


class C10dTransport(Transport):
    """One rank's end of a torch process group.

    `group` is one that can send bytes between CPUs, such as gloo; None is the default group. All
    its ranks make their ends at the same time.
    """

    def __init__(self, group: Any = None) -> None:
        self._group = group
        self.rank: int = dist.get_rank(group)
        self.size: int = dist.get_world_size(group)
        self._watch = Watch(group, self.rank)
        self._wanted: dict[tuple[int, int], deque[C10dReceive]] = {}
        self._takes: dict[tuple[int, int], threading.Lock] = {}  # one takes from a line at a time
        self._to_self: dict[int, deque[tuple[NDArray, bytes]]] = {}
        self._lock = threading.Lock()
        self._sends: deque[C10dSend] = deque()  # torch wants the copies alive until they are out

    def isend(
        self, array: NDArray, dst: int, *, channel: int = 0, header: bytes = b""
    ) -> "C10dSend":
        copy = np.ascontiguousarray(array).reshape(array.shape).copy()
        if dst == self.rank:
            self._to_self.setdefault(channel, deque()).append((copy, header))
            return C10dSend([], [])
        tensors = [torch.from_numpy(pack_head(copy, header))]
        if copy.nbytes:
            tensors.append(torch.from_numpy(copy.reshape(-1).view(np.uint8)))
        tag = channel % MOST_TAGS
        try:
            works = [dist.isend(t, group=self._group, group_dst=dst, tag=tag) for t in tensors]
        except RuntimeError as error:
            self._watch.look("send", dst)  # as in `_recv`
            raise peer_error("send", self.rank, dst, error) from error
        send = C10dSend(works, tensors)
        while self._sends and self._sends[0].test():
            self._sends.popleft()
        self._sends.append(send)
        return send

    def irecv(self, src: int, *, channel: int = 0, buffer: NDArray | None = None) -> "C10dReceive":
        receive = C10dReceive(self, src, channel)
        with self._lock:
            self._wanted.setdefault((src, channel), deque()).append(receive)
            self._takes.setdefault((src, channel), threading.Lock())
        return receive

    def take_until(self, receive: "C10dReceive") -> None:
        """Receive in order of posting until `receive` has its message."""
        line = receive.src, receive.channel
        with self._takes[line]:  # another thread may wait for another rank meanwhile
            receives = self._wanted[line]
            while not receive.done:
                receives.popleft().accept(*self._take(receive.src, receive.channel))

    def _take(self, src: int, channel: int) -> tuple[NDArray, bytes]:
        if src == self.rank:
            return self._to_self[channel].popleft()
        head = np.empty(HEAD, np.uint8)
        tag = channel % MOST_TAGS
        self._recv(head, src, tag)
        header, description, _, _ = unpack_head(head)
        dtype, shape = parse(description)
        array = np.empty(shape, dtype)
        if array.nbytes:
            self._recv(array.reshape(-1).view(np.uint8), src, tag)
        return array, header

    def _recv(self, buffer: NDArray, src: int, tag: int) -> None:
        """Receive bytes into `buffer`.

        Raises:
            RankLost: the connection to `src` is gone, or a rank has failed.
            RankTimeout: nothing came for as long as the group allows.
        """
        try:
            tensor = torch.from_numpy(buffer)
            self._watch.wait(dist.irecv(tensor, group=self._group, group_src=src, tag=tag), src)
        except RuntimeError as error:
            self._watch.look("recv", src)  # it may have closed the connection because of another
            raise peer_error("recv", self.rank, src, error) from error

    def tell_failure(self, error: BaseException) -> None:
        """Tell the others that this rank's collective has raised."""
        self._watch.tell(error)

    def tolerate(self, ranks: set[int]) -> None:
        """Let the failure of one of these ranks end only waits for that rank."""
        self._watch.tolerated |= ranks

    def empty(self, shape: Shape, dtype: npt.DTypeLike) -> NDArray:
        return np.empty(shape, dtype)

    def close(self) -> None:
        """Wait until all is sent; the group belongs to whoever made it."""
        while self._sends:
            self._sends.popleft().finish()


def peer_error(operation: str, rank: int, peer: int, error: RuntimeError) -> RankLost | RankTimeout:
    """Return what a torch error about a peer means."""
    text = str(error).partition("\n")[0]
    if "timed out" in text.lower():
        return RankTimeout(
            f"{operation}: nothing came: rank {rank} waited for rank {peer}: {text}. "
            f"See what rank {peer} does instead.",
            peer,
        )
    return RankLost(
        f"{operation}: rank {peer} is gone: rank {rank} lost it ({text}). "
        f"Look at what ended rank {peer}.",
        peer,
    )


def pack_head(array: Any, header: bytes, channel: int = 0, kind: int = 0) -> NDArray:
    """Return the first message: who needs them puts channel and kind of array into it too."""
    description = describe(array.dtype, array.shape)
    header = header[: HEAD - FIXED - len(description)]
    head = np.zeros(HEAD, np.uint8)
    head[:FIXED].view(np.int64)[:] = len(header), len(description), channel, kind
    text = np.frombuffer(header + description, np.uint8)
    head[FIXED : FIXED + len(text)] = text
    return head


def unpack_head(head: NDArray) -> tuple[bytes, bytes, int, int]:
    """Return header, description, channel and kind."""
    n_header, n_description, channel, kind = (int(n) for n in head[:FIXED].view(np.int64))
    text = head[FIXED : FIXED + n_header + n_description].tobytes()
    return text[:n_header], text[n_header:], channel, kind


class C10dSend:
    """A send under way; it keeps its copy alive."""

    header = b""

    def __init__(self, works: list[Any], tensors: list[torch.Tensor]) -> None:
        self._works = works
        self._tensors = tensors

    def wait(self, timeout_s: float | None = None) -> None:
        """Return at once: the copy is on its way, and the group completes it."""

    def finish(self) -> None:
        """Wait until it is out."""
        for work in self._works:
            work.wait()

    def test(self) -> bool:
        """Return whether it is out."""
        return all(work.is_completed() for work in self._works)


class C10dReceive:
    """A receive, before and after its message came."""

    def __init__(self, transport: Any, src: int, channel: int) -> None:
        self.src, self.channel = src, channel
        self.header = b""
        self.done = False
        self._transport = transport
        self._array: Any = None

    def accept(self, array: Any, header: bytes) -> None:
        """Take the message."""
        self._array, self.header, self.done = array, header, True

    def wait(self, timeout_s: float | None = None) -> Any:
        """Return the array; the time allowed is the group's."""
        if not self.done:
            self._transport.take_until(self)
        return self._array

    def test(self) -> bool:
        """Return whether it has been received; torch cannot tell what is on the way."""
        return self.done


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
        sys.excepthook = self._tell_uncaught

    def _tell_uncaught(
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
