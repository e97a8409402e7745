"""A placed graph run by two ranks for real: a node is a pause, a value that crosses a message."""

from collections.abc import Mapping
from time import perf_counter, sleep
from typing import Any, TypeAlias

import numpy as np

Graph: TypeAlias = Mapping[str, tuple[float, int, tuple[str, ...]]]  # seconds, bytes, inputs


def sent(graph: Graph, where: Mapping[str, int], src: int, dst: int) -> list[str]:
    """Return the values that one device sends to another, in order: each once."""
    read = {v for node, (_, _, values) in graph.items() if where[node] == dst for v in values}
    return [node for node in graph if where[node] == src and node in read]


def run_in_order(comm: Any, graph: Graph, where: Mapping[str, int]) -> float:
    """Return the seconds until this rank's last node is done; nodes run in the graph's order."""
    me, other = comm.rank, 1 - comm.rank
    arriving, leaving = iter(sent(graph, where, other, me)), set(sent(graph, where, me, other))
    here: set[str] = set()
    comm.barrier()
    began = perf_counter()
    for node, (seconds, n_bytes, inputs) in graph.items():
        if where[node] != me:
            continue
        while any(where[value] == other and value not in here for value in inputs):
            comm.recv(other)
            here.add(next(arriving))
        sleep(seconds)
        if node in leaving:
            comm.send(np.zeros(n_bytes, np.uint8), other)
    return perf_counter() - began
