"""How long a launcher waits for its ranks: the run's own time, and what the last words take.

May import: transport.board.
"""

import time
from collections.abc import Collection, Iterable

from ddp_lab.transport.board import Board, is_ending

GRACE_S = 1.0  # for ranks that noticed a failure to say so themselves
LONGEST_S = 10.0  # the same, where the board shows that they are about to, on a machine that stalls


class Deadline:
    """Until when a launcher waits."""

    def __init__(self, board: Board, seconds: float) -> None:
        self._board = board
        self._end = time.monotonic() + seconds
        self._limit = float("inf")

    def begin(self, seconds: float) -> None:
        """Let the run's time begin now, unless it has run out already."""
        if self._limit == float("inf"):
            self._end = time.monotonic() + seconds

    def run_out(self) -> None:
        """Wait from now on only for last words: a rank has failed, or the time is over."""
        now = time.monotonic()
        if self._limit == float("inf"):
            self._end, self._limit = now + GRACE_S, now + LONGEST_S

    def remaining_s(self, silent: Iterable[int], due: Collection[int] = ()) -> float:
        """Return how much longer to wait for the ranks that have not said how they ended.

        Args:
            silent: these ranks.
            due: those of them that owe an answer to a question.
        """
        now = time.monotonic()
        if self._limit < float("inf"):
            near = any(rank in due or is_ending(self._board, rank) for rank in silent)
            self._end = min(now + GRACE_S, self._limit) if near else self._end
        return self._end - now
