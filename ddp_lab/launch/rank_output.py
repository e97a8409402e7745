"""What ranks or hosts print, line by line, each with the name of its writer in front."""

from collections.abc import Sequence
from typing import TextIO


def names_of_ranks(size: int) -> list[str]:
    """Return `rank 0`, ..., the numbers one below the other."""
    return [f"rank {rank:{len(str(size - 1))}}" for rank in range(size)]


class Printer:
    """Puts the output of ranks, or of hosts, together without tearing lines."""

    def __init__(self, names: Sequence[str]) -> None:
        width = max(map(len, names))
        self._names = [name.ljust(width) for name in names]
        self._begun: dict[tuple[int, TextIO], bytes] = {}

    def take(self, rank: int, data: bytes, stream: TextIO) -> bool:
        """Print the whole lines of what a rank wrote; return False at its end."""
        *lines, rest = (self._begun.pop((rank, stream), b"") + data).split(b"\n")
        for line in lines:
            self._print(rank, line, stream)
        if rest:
            self._begun[rank, stream] = rest
        if lines:
            stream.flush()
        return bool(data)

    def finish(self) -> None:
        """Print the last lines that had no end."""
        for (rank, stream), line in self._begun.items():
            self._print(rank, line, stream)
            stream.flush()
        self._begun.clear()

    def _print(self, rank: int, line: bytes, stream: TextIO) -> None:
        text = line.decode(errors="replace").rstrip("\r")
        stream.write(f"[{self._names[rank]}] {text}\n")
