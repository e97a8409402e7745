"""Ranks on several hosts: near ones share memory, far ones are reached over a link.

Whatever carries messages inside a host is `near`, whatever carries them between hosts is `far`;
both number the ranks alike. So a collective in two levels is written once, whether the hosts are
machines joined by TCP or a pretence on this one (`emulated_link`).
"""

from typing import Any

import numpy.typing as npt

from ddp_lab.transport.base import NDArray, Probes, Shape, SharesMemory, Tells, Transport, Work
from ddp_lab.transport.links.link import Hosts, Link, home_of


class HostsTransport(Transport, Probes):
    """One rank's end of its host's memory, and of the links to all other hosts."""

    def __init__(
        self, near: Transport, far: Transport, hosts: Hosts, link: Link | None = None
    ) -> None:
        self.rank = near.rank
        self.size = near.size
        self.hosts = hosts
        self.link = link
        self.board = near.board  # type: ignore[attr-defined]
        self.near, self.far = near, far
        self._neighbours = frozenset(home_of(self.rank, hosts))
        self._ways: list[Any] = [near if r in self._neighbours else far for r in range(self.size)]

    def isend(self, array: NDArray, dst: int, *, channel: int = 0, header: bytes = b"") -> Work:
        sent: Work = self._ways[dst].isend(array, dst, channel=channel, header=header)
        return sent

    def irecv(self, src: int, *, channel: int = 0, buffer: NDArray | None = None) -> Work:
        work: Work = self._ways[src].irecv(src, channel=channel, buffer=buffer)
        return work

    def probe(self, src: int, channel: int) -> bool:
        return bool(self._ways[src].probe(src, channel))

    def empty(self, shape: Shape, dtype: npt.DTypeLike) -> NDArray:
        return self.near.empty(shape, dtype)

    def rendezvous(self, context: int, members: tuple[int, ...]) -> Any:
        """Return where the ranks of a communicator meet; None where one is on another host."""
        if self._neighbours.issuperset(members) and isinstance(self.near, SharesMemory):
            return self.near.rendezvous(context, members)
        return None

    def tell_failure(self, error: BaseException) -> None:
        """Do nothing: the board tells of the end of this rank."""

    def tolerate(self, ranks: set[int]) -> None:
        """Let the silence of these ranks' hosts end only waits for themselves."""
        if isinstance(self.far, Tells):
            self.far.tolerate(ranks)

    def close(self) -> None:
        self.far.close()
        self.near.close()
