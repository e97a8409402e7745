"""Ranks on several hosts that wait for each other for ever, proved by what they tell each other.

A rank whose wait has no end of its own asks its peer. A peer that is in such a wait itself, with no
other thread that could send, answers with the number of its wait, followed by the answer that it
got from its own peer: a chain of waits. A chain that comes back to the very wait in which it is
heard is a circle. Threads of one rank that all wait for the same peer are in one wait: one that
comes or leaves gives it a new number.

Why that is a proof: connections keep order, so whoever hears of a wait has all that was sent before
it, and what he waits for is not among that. One of the circle's waits would have to end first, by
a message that was sent before the sender's own wait (it would be here), during it (nobody there can
send) or after it (then that one ended first). So no clock is asked, and answers that are out of
date name waits that nobody is in and close no circle.

All groups of a process have one number of its waits, and number ranks alike. A question goes by the
connection on which the message would come: so what was sent there before the answer is here.

Ranks of one host do not ask: each posts its chain on the board. Who reads a post, looks for what it
waits for, and goes on with that post, knows what an answer would have told.

Source: edge chasing, Chandy, Misra & Haas, ACM Trans. Comput. Syst. 1(2), 1983.

May import: nothing.
"""

import json
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeAlias

Wait: TypeAlias = tuple[int, int, str]  # a rank, the number of its wait, and the wait in words
LONGEST = 16 * 1024  # bytes of an answer; a circle with more words is not told


class Waits:
    """This rank's wait, and what others have said of theirs."""

    def __init__(self, tell: Callable[[Any, bytes], bool]) -> None:
        """Keep what sends a peer an answer, or a question, b"", and returns whether it could.

        Here and below a peer is whatever stands for the connection to it.
        """
        self._tell = tell
        self.post: Callable[[bytes], None] | None = None  # shows an answer to this host's ranks
        self._posted = b""
        self._number = 0
        self._has_asked = False
        self._told: dict[Hashable, bytes] = {}  # by peer that has asked: the last answer to it
        self._answers: dict[Hashable, list[Wait]] = {}  # by peer: its last one

    def begin(self) -> None:
        """Count a wait: this rank may have sent something since the last one."""
        self._number += 1
        self._has_asked = False

    def forget(self, peers: Iterable[Hashable]) -> None:
        """Forget connections that are closed."""
        for peer in peers:
            self._told.pop(peer, None)
            self._answers.pop(peer, None)

    def hear(self, peer: Hashable, words: bytes) -> None:
        """Take a question or an answer."""
        if words:
            self._answers[peer] = parse(words)
        else:
            self._told.setdefault(peer, b"")

    def circle(
        self, rank: int, peer: Hashable, words: str, has_come: Callable[[], bool]
    ) -> list[Wait]:
        """Return the circle that the wait of `rank` for a peer is part of, [] if none is known.

        While it lasts, nobody in this process can send.

        Args:
            peer: None if it is this rank itself.
            words: the wait.
            has_come: whether what is waited for is here.
        """
        chain = [(rank, self._number, words)] if peer is None else self._answers.get(peer, [])
        if has_come():  # asked after the answer was looked up
            return []
        self._has_asked = self._has_asked or peer is None or self._tell(peer, b"")
        return self.close(rank, words, chain)

    def close(self, rank: int, words: str, chain: list[Wait]) -> list[Wait]:
        """Return the circle that is closed by the peer's chain, [] if none is; tell of the wait.

        What is waited for was looked for after the chain was heard, and is not here.
        """
        ranks = [other for other, _, _ in chain]
        own = ranks.index(rank) if rank in ranks else len(chain)
        self._answer([(rank, self._number, words), *chain[:own]])
        is_closed = own < len(chain) and chain[own][1] == self._number
        return chain[: own + 1] if is_closed else []

    def _answer(self, chain: list[Wait]) -> None:
        answer = json.dumps(chain).encode()
        if self.post is not None and answer != self._posted:
            self.post(answer)
            self._posted = answer
        for asker, last in list(self._told.items()):
            if last != answer and len(answer) <= LONGEST and self._tell(asker, answer):
                self._told[asker] = answer


def parse(words: bytes) -> list[Wait]:
    """Return the chain of an answer."""
    return [(rank, number, text) for rank, number, text in json.loads(words or b"[]")]


def report_of_circle(circle: list[Wait]) -> str:
    """Return who waits for whom, in one sentence."""
    return "; ".join(words for _, _, words in sorted(circle)) + "."
