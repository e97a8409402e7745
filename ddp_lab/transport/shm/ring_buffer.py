"""A queue of messages in shared memory, from one rank to one other.

    words   0: bytes written   8: bytes read   (each with its word of sleepers, a cache line apart)
    bytes 128: records, each of them in one piece; a record that does not fit before the end of
               the ring is preceded by one that says "skip"

A small array travels in its record. A large one is copied into the sender's arena and the record
says where; the block is free again when the record has been read.
"""

import struct
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ddp_lab.errors import OutOfSharedMemory
from ddp_lab.transport.base import NDArray
from ddp_lab.transport.description import describe, parse
from ddp_lab.transport.shm.segment import RING_BYTES, Arena, Segment
from ddp_lab.transport.waiting import Words

WRITTEN, READ = 0, 8  # words
FIRST = 128
CAPACITY = RING_BYTES - FIRST
INLINE_BYTES = 16 * 1024
RECORD = struct.Struct("<6q")  # length, channel, place, bytes of array, of header, of description
SKIP, INLINE = -1, -1


class Record(NamedTuple):
    """A message as it lies in the ring; `payload` is valid until the record is released."""

    end: int
    channel: int
    header: bytes
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    payload: NDArray


class RingBuffer:
    """One end of the queue; only one thread at a time may write, and one may read."""

    def __init__(self, segment: Segment, words: Words, offset: int) -> None:
        self._segment = segment
        self._words = words
        self._base = offset
        self.written = offset // 8 + WRITTEN
        self._read = offset // 8 + READ
        self._lent: deque[tuple[int, int, int]] = deque()  # until this is read: block, size

    def write(
        self,
        array: NDArray,
        channel: int,
        header: bytes,
        arena: Arena,
        look: Callable[[], object],
    ) -> None:
        """Append a message, waiting for room only if the reader is a whole ring behind."""
        description = describe(array.dtype, array.shape)
        inline = array.nbytes <= INLINE_BYTES
        place = INLINE if inline else self._lend(array, arena, look)
        extra = len(header) + len(description)
        length = _pad(RECORD.size + extra + (array.nbytes if inline else 0))
        at = self._room(length, look)
        position = self._base + FIRST + at % CAPACITY
        memory = self._segment.bytes
        RECORD.pack_into(
            memory, position, length, channel, place, array.nbytes, len(header), len(description)
        )
        position += RECORD.size
        memory[position : position + extra] = header + description
        if inline:
            position += extra
            whole = self._segment.array[position : position + array.nbytes]
            whole[:] = array.reshape(-1).view(np.uint8)
        else:
            size = self._lent[-1][2]
            self._lent[-1] = (at + length, place, size)
        self._words.post(self.written, at + length)

    def _lend(self, array: NDArray, arena: Arena, look: Callable[[], object]) -> int:
        self._reclaim(arena)
        block = arena.allocate(array.nbytes)
        while block is None:
            if not self._lent:
                raise OutOfSharedMemory(
                    f"send: no room for {array.nbytes} bytes: this rank's shared memory is full. "
                    "Send smaller arrays, or drop buffers that are no longer used. "
                    "Help: when_it_does_not_work.html#too-little-memory"
                )
            self._words.wait(self._read, self._lent[0][0], look)
            self._reclaim(arena)
            block = arena.allocate(array.nbytes)
        offset, size = block
        self._segment.array[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)
        self._lent.append((1 << 62, offset, size))
        return offset

    def _reclaim(self, arena: Arena) -> None:
        done = self._words.words[self._read]
        while self._lent and self._lent[0][0] <= done:
            _, offset, size = self._lent.popleft()
            arena.free(offset, size)

    def _room(self, length: int, look: Callable[[], object]) -> int:
        """Return the position for a record of `length` bytes, once it is free."""
        at: int = self._words.words[self.written]
        left = CAPACITY - at % CAPACITY
        if left < length:
            self._words.wait(self._read, at + left - CAPACITY, look)
            self._segment.words[(self._base + FIRST + at % CAPACITY) // 8] = SKIP
            at += left
            self._words.post(self.written, at)
        self._words.wait(self._read, at + length - CAPACITY, look)
        return at

    def position(self) -> int:
        """Return how many bytes have been written, ever."""
        return int(self._words.words[self.written])

    def consumed(self) -> int:
        """Return how many bytes the reader has taken, ever."""
        return int(self._words.words[self._read])

    def peek(self) -> Record | None:
        """Return the next message, None if there is none; the reader releases it afterwards."""
        at = self._words.words[self._read]
        written = self._words.words[self.written]
        if at == written:
            return None
        position = self._base + FIRST + at % CAPACITY
        if self._segment.words[position // 8] == SKIP:
            self._words.post(self._read, at + CAPACITY - at % CAPACITY)
            return self.peek()
        length, channel, place, n_bytes, header, extra = RECORD.unpack_from(
            self._segment.bytes, position
        )
        start = position + RECORD.size
        middle, end = start + header, start + header + extra
        dtype, shape = parse(bytes(self._segment.bytes[middle:end]))
        place = end if place == INLINE else place
        payload = self._segment.array[place : place + n_bytes]
        text = bytes(self._segment.bytes[start:middle])
        return Record(at + length, channel, text, dtype, shape, payload)

    def release(self, record: Record) -> None:
        """Give the memory of a message back to the writer."""
        self._words.post(self._read, record.end)


def _pad(n_bytes: int) -> int:
    return (n_bytes + 63) & ~63
