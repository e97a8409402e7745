"""What the link between hosts costs, by a few messages there and back.

The first ranks of the first two hosts measure, and tell all others, so that all choose alike.
"""

import time

import numpy as np

from ddp_lab.transport.base import Transport
from ddp_lab.transport.links.link import Hosts, Link

CHANNEL = -2  # of these messages alone
SMALL, LARGE = 1, 256 * 1024  # bytes: latency alone, and enough to see a rate
TIMES = 5


def measure(transport: Transport, hosts: Hosts) -> Link:
    """Return the link, the same on all ranks; every rank calls it.

    Raises:
        RankLost: a rank has ended meanwhile.
    """
    first, second = hosts[0][0], hosts[1][0]
    if transport.rank == first:
        small, large = (_round_trip_s(transport, second, n) for n in (SMALL, LARGE))
        beta = max(large - small, 0.0) / (LARGE - SMALL)
        costs = np.array([small / 2, beta])
        for rank in range(transport.size):
            if rank != first:
                transport.isend(costs, rank, channel=CHANNEL)
    elif transport.rank == second:
        for _ in range(2 * TIMES):
            transport.irecv(first, channel=CHANNEL).wait()
            transport.isend(np.zeros(SMALL, np.uint8), first, channel=CHANNEL)
    if transport.rank != first:
        received = transport.irecv(first, channel=CHANNEL).wait()
        assert received is not None
        costs = received
    return Link(float(costs[0]), float(costs[1]))


def _round_trip_s(transport: Transport, peer: int, n_bytes: int) -> float:
    """Return the seconds for so many bytes there and one back, at best."""
    message, seconds = np.zeros(n_bytes, np.uint8), []
    for _ in range(TIMES):
        began_at = time.perf_counter()
        transport.isend(message, peer, channel=CHANNEL)
        transport.irecv(peer, channel=CHANNEL).wait()
        seconds.append(time.perf_counter() - began_at)
    return min(seconds)
