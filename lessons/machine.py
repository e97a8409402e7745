"""What lab 00 times: work of each kind that a machine does, which says how much it has done.

Of the standard library and NumPy alone, so that it runs wherever Python does. Where the system
lets nobody empty its file cache, a file is read from memory, and the rate says so by being high.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np

from lessons.timing import best_seconds

Work: TypeAlias = Callable[[], float]  # returns how much it has done

FILE_BYTES, BLOCK = 1 << 25, 1 << 20
N = 768  # rows and columns of the matrices
# A neighbour that reads what it is sent, and answers each message with one byte.
NEIGHBOUR = """
import sys
while n := int.from_bytes(sys.stdin.buffer.read(8), "little"):
    sys.stdin.buffer.read(n)
    sys.stdout.buffer.write(b".")
    sys.stdout.buffer.flush()
"""


def blocks(path: Path) -> Iterator[bytes]:
    """Yield a file a megabyte at a time, from the disk: the system's copy is dropped first."""
    with path.open("rb", buffering=0) as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while block := file.read(BLOCK):
            yield block


@contextmanager
def text_file() -> Iterator[Path]:
    """Give a file of lines, 32 MB, that is on the disk and not only on its way there."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lines"
        with path.open("wb") as file:
            file.write(b"one line of a file, 32 bytes...\n" * (FILE_BYTES // 32))
            file.flush()
            os.fsync(file.fileno())
        yield path


@contextmanager
def neighbour() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Give the pipes to and from another process."""
    command = [sys.executable, "-c", NEIGHBOUR]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        to, answers = process.stdin, process.stdout
        assert to is not None and answers is not None
        try:
            yield to, answers
        finally:
            to.close()
            process.wait()


def send(pipes: tuple[IO[bytes], IO[bytes]], data: bytes) -> None:
    """Send some bytes to the neighbour and wait for its answer."""
    to, answers = pipes
    to.write(len(data).to_bytes(8, "little") + data)
    to.flush()
    answers.read(1)


@contextmanager
def kinds_of_work() -> Iterator[dict[str, Work]]:
    """Give {what: work}: each does some of it when it is called, and returns how much."""
    source, target = np.ones(1 << 23), np.ones(1 << 23)
    a, b = np.ones((2, N, N), np.float32)
    product = np.empty_like(a)
    large = bytes(1 << 23)

    def copy() -> float:
        np.copyto(target, source)
        return source.nbytes + target.nbytes  # read and written

    def multiply() -> float:
        np.matmul(a, b, out=product)
        return float(N) ** 3

    def start() -> float:
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        return 1

    def call() -> float:
        for _ in range(20_000):
            nothing()
        return 20_000

    with text_file() as path, neighbour() as pipes:

        def messages() -> float:
            for _ in range(100):
                send(pipes, b".")
            return 200  # there and back

        def large_message() -> float:
            send(pipes, large)
            return len(large)

        yield {
            "disk bytes": lambda: sum(map(len, blocks(path))),
            "memory bytes": copy,
            "pipe bytes": large_message,
            "multiplications": multiply,
            "messages": messages,
            "processes": start,
            "calls": call,
        }


def nothing() -> None:
    """Do nothing, so that a call of it costs what a call costs."""


def measured_rate(name: str) -> float:
    """Return how much of one kind of work is done in a second, at best of some turns."""
    with kinds_of_work() as kinds:
        amount = kinds[name]()  # the first turn warms up
        return amount / best_seconds(kinds[name], 7)
