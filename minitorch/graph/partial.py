"""Partial runs: one run in several calls, fed and fetched bit by bit.

What one call has computed the next one uses; nothing is computed twice, so random numbers stay as
they were, and every feed and fetch must have been announced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..arrays import Array
from ..errors import GraphError
from .control.dead import endangered
from .control.history import Opaque
from .feeding import as_feed
from .fetching import flatten_fetches
from .node import Constant, Node, Placeholder
from .order import schedule
from .passes.rewrite import PLANNING
from .state import Read, Variable

if TYPE_CHECKING:
    from .session import Session


class PartialRun:
    """The handle that `partial_run_setup` gives: what was announced, and what is known so far.

    Attributes:
        fetches, feeds: the nodes that were announced.
        known: the arrays that were fed or computed, by their nodes.
    """

    def __init__(self, session: Session, fetches: Sequence[Any], feeds: Sequence[Any]) -> None:
        self.session = session
        self.fetches: set[Node] = set(self._nodes(fetches))
        self.feeds: set[Node] = set(self._nodes(feeds))
        self.known: dict[Node, Array] = {}
        self.fetched: set[Node] = set()
        self.fed: set[Node] = set()

    def run(self, fetches: Any, feed_dict: Mapping[Any, Any] | None) -> Any:
        """Return the values of `fetches`, as `Session.run` does.

        Raises:
            GraphError: something was not announced, or was fed or fetched before; a feed is still
                missing.
        """
        leaves: list[Node] = []
        rebuild = flatten_fetches(fetches, self.session.graph, leaves)
        given = dict(self._given(feed_dict or {}))
        self._check("fetch", leaves, self.fetches, self.fetched)
        self._check("feed", list(given), self.feeds, self.fed)
        for node, value in given.items():
            self.known[node] = as_feed(node, value, self.session.device)
        self.fed |= given.keys()
        values = self._compute(leaves)
        self.fetched |= set(leaves)
        return rebuild(iter(values).__next__)

    def _compute(self, leaves: list[Node]) -> tuple[Any, ...]:
        """Return the values of `leaves`, and keep what was computed on the way."""
        feeds = tuple(self.known)
        order = schedule(leaves, set(feeds))
        risky = endangered(order, set(feeds))
        kept = [n for n in order if n not in self.known and n not in risky and _keeps(n)]
        with PLANNING:
            step = self.session.plan([*leaves, *kept], feeds)
        found = step(self.session.state, [self.known[node] for node in feeds])
        self.known.update(zip(kept, found[len(leaves) :], strict=True))
        return found[: len(leaves)]

    def _nodes(self, listed: Sequence[Any]) -> list[Node]:
        leaves: list[Node] = []
        flatten_fetches(list(listed), self.session.graph, leaves)
        return leaves

    def _given(self, feed_dict: Mapping[Any, Any]) -> list[tuple[Node, Any]]:
        graph = self.session.graph
        return [(graph.as_graph_element(key), value) for key, value in feed_dict.items()]

    def _check(self, verb: str, nodes: list[Node], announced: set[Node], done: set[Node]) -> None:
        for node in nodes:
            if node not in announced:
                raise GraphError(
                    f"partial_run: cannot {verb} {node.name!r}: it was not announced in "
                    f"partial_run_setup (built at {node.location})."
                )
            if node in done:
                raise GraphError(
                    f"partial_run: cannot {verb} {node.name!r} twice (built at {node.location}). "
                    "Set up another run."
                )


def _keeps(node: Node) -> bool:
    """Tell whether a node's value can be held for the next call."""
    if isinstance(node, Opaque | Variable | Constant | Placeholder):
        return False
    return not isinstance(node.op, Read)
