"""A progress bar at the foot of a terminal; nothing where there is no terminal."""

from typing import TextIO

WIDTH = 30  # characters of the bar itself
CLEAR = "\r\x1b[K"


class Progress:
    """Counts to `total` on `stream`; `step` before each line that is printed elsewhere."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self._total = total
        self._stream = stream
        self._shown = stream.isatty()
        self.done = 0

    def step(self) -> None:
        """Count one more and take the bar away, so that a line can be printed."""
        self.done += 1
        self._write(CLEAR)

    def show(self) -> None:
        """Draw the bar as far as it is; nothing once all is done."""
        if self.done < self._total:
            self._write(CLEAR + bar(self.done, self._total))

    def _write(self, text: str) -> None:
        if self._shown:
            self._stream.write(text)
            self._stream.flush()


def bar(done: int, total: int) -> str:
    """Return a bar such as "[#####     ] 50 of 100"."""
    filled = WIDTH * done // max(total, 1)
    return f"[{'#' * filled}{' ' * (WIDTH - filled)}] {done} of {total}"
