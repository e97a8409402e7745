"""Ranks that torch.distributed has joined already: messages over gloo, or NCCL from its buffers.

A message is two torch messages with the channel as tag: its texts and sizes, then its bytes.
A process that dies closes its connections, and that is noticed. One that has raised but lives on,
in a notebook or behind a thread that does not end, keeps them open. So a rank whose collective
raises, or that ends in an exception, says so in torch's store, and who waits looks there now and
then (`Watch`). torch cannot be asked whether a message has come without waiting for it: so a thread
waits in torch, and the caller for that thread.

Timings are those of the backend beneath plus two latencies a message.
"""

import math
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

from ddp_lab.device_array import DeviceArray, torch_dtype
from ddp_lab.errors import RankLost, RankTimeout
from ddp_lab.handle import Worker
from ddp_lab.transport.base import SENT, NDArray, Receive, Sent, Shape, Transport
from ddp_lab.transport.description import describe, parse

HEAD = 1024  # bytes of the first message: four integers, header and description
FIXED = 4 * 8  # of these integers: two lengths, channel, kind
MOST_TAGS = 1 << 30
NUMPY, TENSOR = 0, 1  # kinds of arrays
Message = tuple[Any, bytes]  # array and header
Line = tuple[int, int]  # source and channel


class C10dEnd(Transport):
    """What the ends of torch's groups have in common: an array travels as a head and its bytes.

    Both are tensors of `device`. Messages wait for the receives of their line, and these for them.
    """

    def __init__(self, group: Any, device: torch.device) -> None:
        self.device = device
        self.rank: int = dist.get_rank(group)
        self.size: int = dist.get_world_size(group)
        self._arrived: dict[Line, deque[Message]] = {}
        self._wanted: dict[Line, deque[Receive]] = {}
        self._takes: dict[tuple[int, int], threading.Lock] = {}  # by source and tag: one at a time
        self._lock = threading.Lock()
        self._sends: deque[tuple[Any, torch.Tensor]] = deque()  # torch wants them alive till then

    def _way(self, src: int, dst: int, channel: int) -> tuple[Any, int]:
        """Return the group and the tag of messages from one rank to another: these keep order."""
        raise NotImplementedError

    def _wait(self, work: Any, src: int) -> None:
        work.wait()

    def _explain(self, operation: str, peer: int) -> None:
        """Raise what is behind an error of torch's about a peer, where that is known."""

    def isend(self, array: Any, dst: int, *, channel: int = 0, header: bytes = b"") -> Sent:
        copy = array.copy()
        if dst == self.rank:
            self._arrived.setdefault((dst, channel), deque()).append((copy, header))
            return SENT
        kind = TENSOR if isinstance(copy, DeviceArray) else NUMPY
        flat = copy.reshape(-1)
        raw = flat.tensor if kind == TENSOR else torch.from_numpy(flat.view(np.uint8))
        head = torch.from_numpy(pack_head(copy, header, channel, kind))
        group, tag = self._way(self.rank, dst, channel)
        for part in [head, raw.view(torch.uint8)] if copy.nbytes else [head]:
            tensor = part.to(self.device)
            try:
                work = dist.isend(tensor, group=group, group_dst=dst, tag=tag)
            except RuntimeError as error:
                self._explain("send", dst)
                raise peer_error("send", self.rank, dst, error) from error
            self._sends.append((work, tensor))
        while self._sends and self._sends[0][0].is_completed():
            self._sends.popleft()
        return SENT

    def irecv(self, src: int, *, channel: int = 0, buffer: NDArray | None = None) -> Receive:
        return Receive(self, src, self.rank, channel, buffer)

    def want(self, receive: Receive) -> None:
        """Keep a receive until somebody waits for it: the time allowed is then the group's."""
        src, channel = receive.src, receive.channel
        with self._lock:
            self._wanted.setdefault((src, channel), deque()).append(receive)
            self._takes.setdefault((src, self._way(src, self.rank, channel)[1]), threading.Lock())

    def take_in(self, src: int) -> None:
        """Do nothing: torch cannot tell what is on the way."""

    def wait(self, receive: Receive, timeout_s: float | None) -> None:
        """Receive in order of posting until `receive` has its message."""
        src, line = receive.src, (receive.src, receive.channel)
        tag = self._way(src, self.rank, receive.channel)[1]
        with self._takes[src, tag]:  # another thread may wait for another rank meanwhile
            while not receive.done:
                if arrived := self._arrived.get(line):
                    self._wanted[line].popleft().accept(*arrived.popleft())
                else:
                    channel, message = self._take(*line)
                    self._arrived.setdefault((src, channel), deque()).append(message)

    def _take(self, src: int, channel: int) -> tuple[int, Message]:
        """Return the next message on the way that this channel goes, and its own channel."""
        head = torch.empty(HEAD, dtype=torch.uint8, device=self.device)
        self._recv(head, src, channel)
        header, description, channel, kind = unpack_head(head.cpu().numpy())
        dtype, shape = parse(description)
        n_bytes = math.prod(shape) * dtype.itemsize
        raw = torch.empty(n_bytes, dtype=torch.uint8, device=self.device)
        if n_bytes:
            self._recv(raw, src, channel)
        if kind == TENSOR:
            return channel, (DeviceArray(raw.view(torch_dtype(dtype)).view(shape)), header)
        return channel, (raw.cpu().numpy().view(dtype).reshape(shape), header)

    def _recv(self, tensor: torch.Tensor, src: int, channel: int) -> None:
        """Receive bytes into `tensor`.

        Raises:
            RankLost: the connection to `src` is gone, or a rank has failed.
            RankTimeout: nothing came for as long as the group allows.
        """
        group, tag = self._way(src, self.rank, channel)
        try:
            self._wait(dist.irecv(tensor, group=group, group_src=src, tag=tag), src)
        except RuntimeError as error:
            self._explain("recv", src)  # it may have closed the connection because of another
            raise peer_error("recv", self.rank, src, error) from error

    def close(self) -> None:
        """Wait until all is sent; the group belongs to whoever made it."""
        while self._sends:
            self._sends.popleft()[0].wait()


class C10dTransport(C10dEnd):
    """One rank's end of a torch process group, for arrays in main memory.

    `group` is one that can send bytes between CPUs, such as gloo; None is the default group. All
    its ranks make their ends at the same time.
    """

    def __init__(self, group: Any = None) -> None:
        super().__init__(group, torch.device("cpu"))
        self._group = group
        self._watch = Watch(group, self.rank)

    def _way(self, src: int, dst: int, channel: int) -> tuple[Any, int]:
        return self._group, channel % MOST_TAGS

    def _wait(self, work: Any, src: int) -> None:
        self._watch.wait(work, src)

    def _explain(self, operation: str, peer: int) -> None:
        self._watch.look(operation, peer)

    def tell_failure(self, error: BaseException) -> None:
        """Tell the others that this rank's collective has raised."""
        self._watch.tell(error)

    def tolerate(self, ranks: set[int]) -> None:
        """Let the failure of one of these ranks end only waits for that rank."""
        self._watch.tolerated |= ranks

    def empty(self, shape: Shape, dtype: npt.DTypeLike) -> NDArray:
        return np.empty(shape, dtype)


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
    """Return the first message; channel and kind of array are in it for ways without tags."""
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
