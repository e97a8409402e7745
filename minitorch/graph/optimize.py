"""`optimize`: the passes in order, each verified; and `explain`, what each of them did."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from ..errors import GraphError
from .node import Node
from .order import needed
from .passes.algebra import algebra
from .passes.cse import cse
from .passes.fold import fold
from .passes.fuse import fuse
from .passes.matmul_chain import matmul_chain
from .passes.merge_matmuls import merge_matmuls
from .verify import same_types, verify

Pass = Callable[[Sequence[Node], Collection[Node]], list[Node]]

PASSES: dict[str, Pass] = {
    "fold": fold,
    "algebra": algebra,
    "cse": cse,
    "matmul_chain": matmul_chain,
    "merge_matmuls": merge_matmuls,
    "fold again": fold,
    "fuse": fuse,
}
"""In this order: folding and algebra make subexpressions equal, merging makes constants to fold,
and fusion comes last because what is fused no other pass looks into."""


def optimize(fetches: Any, fed: Collection[Node] = (), passes: Sequence[str] | None = None) -> Any:
    """Return nodes that give the same values for less work, in the structure of `fetches`.

    Only what the fetches need is kept. Placeholders, variables, writes and their order stay.

    Args:
        fetches: a node, or lists, tuples and dicts of nodes.
        fed: nodes that a run will feed; nothing above them matters.
        passes: names of `PASSES` to run, all in order unless given.
    Raises:
        GraphError: no such pass; or a pass broke a type, which is a mistake in the pass.
    """
    leaves: list[Node] = []
    rebuild = flatten(fetches, leaves)
    for name in PASSES if passes is None else passes:
        leaves = run_pass(name, leaves, set(fed))
    return rebuild(iter(leaves).__next__)


def run_pass(name: str, leaves: list[Node], fed: Collection[Node]) -> list[Node]:
    """Return the nodes after one pass, once they have been verified."""
    if name not in PASSES:
        raise GraphError(f"optimize: got pass {name!r}, expected one of {', '.join(PASSES)}.")
    after = PASSES[name](leaves, fed)
    verify(after, fed, name)
    same_types(leaves, after, name)
    return after


def count_nodes(fetches: Any) -> int:
    """Return how many nodes a run of `fetches` needs, inputs and constants included."""
    leaves: list[Node] = []
    flatten(fetches, leaves)
    return len(needed(leaves, ()))


def explain(fetches: Any) -> str:
    """Return a table: the nodes left after each pass, and what could not be fused and why."""
    leaves: list[Node] = []
    flatten(fetches, leaves)
    lines = [f"{'pass':<16}{'nodes':>7}", f"{'as built':<16}{count_nodes(leaves):>7}"]
    reasons: list[str] = []
    for name in PASSES:
        if name == "fuse":
            fuse(leaves, (), reasons)
        leaves = run_pass(name, leaves, ())
        lines.append(f"{name:<16}{count_nodes(leaves):>7}")
    return "\n".join([*lines, *(f"not fused: {reason}" for reason in reasons)])


def flatten(fetches: Any, leaves: list[Node]) -> Callable[[Callable[[], Any]], Any]:
    """Add the nodes in `fetches` to `leaves`; return how to rebuild the structure from others."""
    if isinstance(fetches, Node):
        leaves.append(fetches)
        return lambda take: take()
    if isinstance(fetches, dict):
        named = {key: flatten(item, leaves) for key, item in fetches.items()}
        return lambda take: {key: part(take) for key, part in named.items()}
    if isinstance(fetches, list | tuple):
        parts = [flatten(item, leaves) for item in fetches]
        if hasattr(fetches, "_fields"):
            return lambda take: type(fetches)(*[part(take) for part in parts])
        kind = list if isinstance(fetches, list) else tuple
        return lambda take: kind([part(take) for part in parts])
    raise GraphError(f"optimize: got {type(fetches).__name__}, expected nodes or lists of them.")
