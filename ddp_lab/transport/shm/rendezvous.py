"""Where the ranks of one communicator meet in shared memory.

Each rank has a flag that counts phases, and two places, used in turn, for the header of its call,
the offsets of its arrays and a small array itself. To meet, a rank fills its place, raises its
flag and waits for the flags of the others. It can fill the same place again only two phases later,
when all others have raised theirs once more and so are done reading.

Comparing the headers that lie there costs no message and finds ranks that disagree, always.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ddp_lab.errors import RankLost
from ddp_lab.transport import header as headers
from ddp_lab.transport.base import NDArray
from ddp_lab.transport.description import describe, parse
from ddp_lab.transport.shm.segment import MAILBOX_BYTES

if TYPE_CHECKING:
    from ddp_lab.transport.shm.shm import ShmTransport

# A place, at 1024 and 2048 bytes of the page: the length of the header, the offsets of array and
# result, the length of the description; then header and description themselves.
PLACE_BYTES = 1024
LENGTH, ARRAY, RESULT, DESCRIBED = range(4)
TEXT, DESCRIPTION = 64, 704
LONGEST_HEADER = DESCRIPTION - TEXT


class SharedRendezvous:
    """One rank's side of the rendezvous of a communicator."""

    def __init__(self, transport: "ShmTransport", context: int, members: tuple[int, ...]) -> None:
        self._transport = transport
        self._segment = segment = transport.segment
        self._words = transport.words
        self._members = members
        self._me = members.index(transport.rank)
        self._bases = [segment.layout.rendezvous(context, rank) for rank in members]
        self._flags = [base // 8 for base in self._bases]
        self._phase = 0
        self._boxes: dict[tuple[Any, tuple[int, ...]], list[list[NDArray]]] = {}
        self._staged: list[NDArray] = []
        self.others = [i for i in range(len(members)) if i != self._me]

    def swap(self, header: bytes, array: NDArray) -> list[NDArray]:
        """Return every rank's array, of at most `MAILBOX_BYTES`; valid until the next one."""
        parity = (self._phase + 1) & 1
        key = (array.dtype, array.shape)
        boxes = self._boxes.get(key)
        if boxes is None:
            boxes = self._boxes[key] = self._mailboxes(array)
        views = boxes[parity]
        views[self._me][...] = array
        self._meet(header)
        return views

    def _mailboxes(self, like: NDArray) -> list[list[NDArray]]:
        if len(self._boxes) > 256:
            self._boxes.clear()
        view = self._segment.view
        return [
            [
                view(base + 4096 + parity * MAILBOX_BYTES, like.size, like.dtype).reshape(
                    like.shape
                )
                for base in self._bases
            ]
            for parity in (0, 1)
        ]

    def share(
        self, header: bytes, array: NDArray, result: NDArray | None = None
    ) -> tuple[list[NDArray], list[NDArray]]:
        """Return every rank's array and, if given, its result, flat, where they lie.

        All ranks may read and write them until `leave`. An array that is not in the segment is
        copied there; a result must be in it.
        """
        segment = self._segment
        at = segment.offset_of(array)
        if at < 0:
            array = self._stage(array)
            at = segment.offset_of(array)
        place = (self._bases[self._me] + PLACE_BYTES * (1 + ((self._phase + 1) & 1))) // 8
        words = segment.words
        words[place + ARRAY] = at
        words[place + RESULT] = -1 if result is None else segment.offset_of(result)
        self._meet(header)
        places = [(base + PLACE_BYTES * (1 + (self._phase & 1))) // 8 for base in self._bases]
        view, size, dtype = segment.view, array.size, array.dtype
        arrays = [view(words[p + ARRAY], size, dtype) for p in places]
        if result is None:
            return arrays, []
        return arrays, [view(words[p + RESULT], size, dtype) for p in places]

    def offer(self, header: bytes, array: NDArray | None) -> None:
        """Meet, and let the others read `array`, if there is one, until `leave`."""
        place = self._bases[self._me] + PLACE_BYTES * (1 + ((self._phase + 1) & 1))
        description = b"" if array is None else describe(array.dtype, array.shape)
        assert len(description) <= PLACE_BYTES - DESCRIPTION
        segment = self._segment
        if array is not None:
            at = segment.offset_of(array)
            at = segment.offset_of(self._stage(array)) if at < 0 else at
            segment.words[place // 8 + ARRAY] = at
        segment.words[place // 8 + DESCRIBED] = len(description)
        start = place + DESCRIPTION
        segment.bytes[start : start + len(description)] = description
        self._meet(header)

    def header_of(self, i: int) -> bytes:
        """Return the header of member `i` in this rendezvous."""
        base = self._bases[i] + PLACE_BYTES * (1 + (self._phase & 1))
        length = self._segment.words[base // 8 + LENGTH]
        return bytes(self._segment.bytes[base + TEXT : base + TEXT + length])

    def look(self, i: int) -> NDArray:
        """Return the array that member `i` offers, where it lies."""
        place = self._bases[i] + PLACE_BYTES * (1 + (self._phase & 1))
        words = self._segment.words
        start = place + DESCRIPTION
        text = bytes(self._segment.bytes[start : start + words[place // 8 + DESCRIBED]])
        dtype, shape = parse(text)
        count = math.prod(shape)
        return self._segment.view(words[place // 8 + ARRAY], count, dtype).reshape(shape)

    def _stage(self, array: NDArray) -> NDArray:
        staged = self._transport.empty(array.shape, array.dtype)
        np.copyto(staged, array)
        self._staged.append(staged)
        return staged

    def reaches(self, array: NDArray) -> bool:
        """Return whether the others can read and write `array` where it lies."""
        return self._segment.offset_of(array) >= 0

    def result(self, like: NDArray, out: NDArray | None) -> NDArray:
        """Return an array in the segment for a result: `out` itself, if it lies there."""
        if out is not None and self.reaches(out):
            return out
        return self._transport.empty(like.shape, like.dtype)

    def leave(self) -> None:
        """Return once all ranks have left; their arrays are not to be touched any more."""
        self._phase += 1
        self._words.post(self._flags[self._me], self._phase)
        self._wait()
        self._staged.clear()

    def _meet(self, header: bytes) -> None:
        self._phase += 1
        segment = self._segment
        start = PLACE_BYTES * (1 + (self._phase & 1))
        header = header[:LONGEST_HEADER]
        base = self._bases[self._me] + start
        segment.words[base // 8 + LENGTH] = len(header)
        segment.bytes[base + TEXT : base + TEXT + len(header)] = header
        self._words.post(self._flags[self._me], self._phase)
        self._wait()
        for i in self.others:
            base = self._bases[i] + start
            length = segment.words[base // 8 + LENGTH]
            theirs = segment.bytes[base + TEXT : base + TEXT + length]
            if theirs != header:
                headers.check(header, bytes(theirs), self._members[self._me], self._members[i])

    def _wait(self) -> None:
        words, phase = self._words, self._phase
        for i in self.others:
            flag = self._flags[i]
            if words.words[flag] < phase:
                self._wait_for(i, flag, phase)

    def _wait_for(self, i: int, flag: int, phase: int) -> None:
        watch = self._transport.watch(self._members[i])
        try:
            self._words.wait(flag, phase, watch)
        except RankLost:
            if self._words.words[flag] < phase:
                raise
        finally:
            watch.close()


def too_large(array: NDArray) -> bool:
    """Return whether an array must be shared where it lies, for it fits no mailbox."""
    return array.nbytes > MAILBOX_BYTES
