"""List scheduling by a clock: how long a run would take on so many threads.

Source: Graham, Bounds on Multiprocessing Timing Anomalies, SIAM J. Appl. Math. 17(2), 1969.
"""

import heapq
from collections.abc import Sequence

from minitorch.errors import GraphError
from minitorch.graph.executors.tokens.loop_nodes import NextIteration
from minitorch.graph.executors.tokens.program import Program


def makespan(
    program: Program, costs: Sequence[float], ranks: Sequence[float], threads: int
) -> tuple[float, list[int]]:
    """Return when the last operator is done, and the operators in the order in which they begin.

    Args:
        costs: of each spot, in any unit.
        ranks: of each spot, the highest first; equal ones run in the order of getting ready.
    Raises:
        GraphError: there is a loop, whose operators have no time of their own.
    """
    if any(isinstance(spot.node.op, NextIteration) for spot in program.spots):
        raise GraphError("makespan: got a graph with a loop, expected one without.")
    missing = [spot.waits for spot in program.spots]
    ready: list[tuple[float, int, int]] = []
    running: list[tuple[float, int]] = []
    begun: list[int] = []
    now, count = 0.0, 0
    for i in program.starts:
        heapq.heappush(ready, (-ranks[i], count, i))
        count += 1
    while ready or running:
        while ready and len(running) < threads:
            i = heapq.heappop(ready)[2]
            begun.append(i)
            heapq.heappush(running, (now + costs[i], i))
        now, done = heapq.heappop(running)
        for user, _ in program.spots[done].users:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, (-ranks[user], count, user))
                count += 1
    return now, begun
