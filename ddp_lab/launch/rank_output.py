"""What ranks print, line by line, each with the number of its rank in front."""

from typing import TextIO


class Printer:
    """Puts the output of `size` ranks together without tearing lines."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._width = len(str(size - 1))
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
        stream.write(f"[rank {rank:{self._width}}] {text}\n")
