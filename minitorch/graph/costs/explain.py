"""`explain`: what each pass did, in nodes, bytes, predicted and measured time."""

from __future__ import annotations

import timeit
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from ...arrays.library import Array
from ...errors import GraphError, MinitorchError
from ..control.loop_stacks import StackOp
from ..control.while_op import While
from ..core.node import Node, Placeholder
from ..core.order import needed, orders_kept, schedule, writes_of
from ..core.session import Session
from ..core.structures import flatten
from ..core.variables import Variable
from ..memory.plan import memory_plan, sizes_of
from ..passes.fuse import fuse
from ..passes.loops import inside as within_loops
from ..passes.matmul_chain import size_of
from ..passes.merge_matmuls import merge_matmuls
from ..passes.optimize import named, run_pass, same_nodes
from ..shapes.deferred import unknown
from .prediction import predicted_s

RUNS = 9  # of which the shortest is the measured time: other work only adds to it


def explain(
    fetches: object,
    feed_dict: Mapping[Node, object] | None = None,
    passes: Sequence[str] | None = None,
) -> str:
    """Return a table: nodes, bytes, predicted and measured time as built and after each pass.

    Args:
        fetches: a node, or lists, tuples and dicts of nodes.
        feed_dict: what the measured runs are fed, and whose sizes count. What is left out gets
            random numbers, of size 64 where a size is not known.
        passes: names of passes, as `optimize` takes them; all of `PASSES` unless given.
    Returns: the table, then what was not merged and not fused and why. Nodes inside loops count,
        each once; the predicted time has as many rounds as are known, or ten, and of what no
        formula describes the time of moving its bytes. Bytes are the planned peak; "-" where a size
        is not known before the run. What a pass leaves alone is not measured again.
    Raises:
        GraphError: no such pass.
    """
    leaves: list[Node] = []
    flatten(fetches, leaves)
    feeds = dict(feed_dict or {})
    fed = set(feeds)
    lines = [f"{'pass':<16}{'nodes':>7}{'bytes':>13}{'predicted':>13}{'measured':>13}"]
    columns = _columns(leaves, feeds)
    lines.append(f"{'as built':<16}{columns}")
    reasons: list[str] = []
    with orders_kept():
        for name in named(passes):
            reasons += _reasons(name, leaves, fed)
            before, leaves = leaves, run_pass(name, leaves, fed)
            if not same_nodes(before, leaves):  # else it takes what it took
                columns = _columns(leaves, feeds)
            lines.append(f"{name:<16}{columns}")
    return "\n".join([*lines, *reasons])


def _reasons(name: str, leaves: Sequence[Node], fed: Collection[Node]) -> list[str]:
    """Return what a pass has to say for what it will leave."""
    found: list[str] = []
    if name == "merge_matmuls":
        within_loops(lambda nodes, given: merge_matmuls(nodes, given, found))(leaves, fed)
        return found
    if name == "fuse":
        within_loops(lambda nodes, given: fuse(nodes, given, found))(leaves, fed)
    return [f"not fused: {reason}" for reason in found]


def _columns(leaves: list[Node], feeds: Mapping[Node, object]) -> str:
    sizes = _sizes(leaves, feeds)
    times = [predicted_s(leaves, set(feeds), sizes), _measured_s(leaves, feeds)]
    shown = "".join(f"{'-' if t is None else f'{t * 1e6:.1f} µs':>13}" for t in times)
    try:
        size = memory_plan(leaves, set(feeds), sizes).peak_bytes if sizes else None
    except GraphError:  # there is no plan, of a loop whose values grow say
        size = None
    nodes = _count_all(leaves, set(feeds))
    return f"{nodes:>7}{'-' if size is None else f'{size:,}':>13}{shown}"


def _count_all(leaves: Sequence[Node], fed: Collection[Node]) -> int:
    """Return the number of nodes, those inside loops included, each once."""
    nodes = needed(leaves, fed)
    loops = [node.op for node in nodes if isinstance(node.op, While) and node not in fed]
    inside = (_count_all([p.test, *p.body, *p.saved], p.placeholders) for p in loops)
    return len(nodes) + sum(inside)


def _sizes(leaves: list[Node], feeds: Mapping[Node, object]) -> dict[Node, tuple[int, ...]]:
    """Return the shape of every node; of none where one is not known before the run."""
    shapes = {node: np.asarray(value).shape for node, value in feeds.items()}
    order = schedule(leaves, set(feeds))
    for node in order:
        if node.op is None and node not in shapes and not unknown(node):
            shapes[node] = tuple(size_of(n) for n in node.shape)
    try:
        return sizes_of(order, shapes)
    except MinitorchError:
        return {}


def _measured_s(leaves: list[Node], feeds: Mapping[Node, object]) -> float | None:
    """Return the least seconds of a run in a session of its own; None where it cannot run.

    Variables have their initial values there, or random ones. A loop is only run on what was fed:
    on other numbers it might not end.
    """
    nodes = needed(leaves, set(feeds))
    if any(unknown(node) and node not in feeds and node.op is None for node in nodes):
        return None
    if not feeds and any(isinstance(node.op, StackOp) for node in nodes):
        return None
    inputs = [node for node in nodes if isinstance(node, Placeholder) and node.default is None]
    values: dict[Node, object] = {n: _sample(n) for n in inputs if n not in feeds}
    values |= {node: value for node, value in feeds.items() if node in set(nodes)}
    with Session(leaves[0].graph if leaves else None, optimize=False) as session:
        touched = [*nodes, *(v for node in nodes for v in writes_of(node))]
        for node in dict.fromkeys(touched):
            if isinstance(node, Variable) and node not in values:
                if node.initializer is None:
                    session.load(node, _sample(node))
                else:
                    session.run(node.initializer)
        session.run(leaves, values)
        return min(timeit.repeat(lambda: session.run(leaves, values), number=1, repeat=RUNS))


def _sample(node: Node) -> Array:
    shape = tuple(size_of(n) for n in node.shape)
    if node.dtype.kind != "f":
        return np.zeros(shape, node.dtype)
    return np.random.default_rng(0).uniform(0.5, 1.0, shape).astype(node.dtype)
