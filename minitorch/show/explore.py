"""All that can be stepped through about a value, for the player's tabs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from minitorch.errors import MinitorchError
from minitorch.graph.core.node import Node
from minitorch.graph.core.order import needed
from minitorch.op import Value
from minitorch.show.autodiff_scene import scene_of
from minitorch.show.memory_scene import map_memory
from minitorch.show.pass_scene import compare_passes
from minitorch.show.recorded import record
from minitorch.show.scene import Scene
from minitorch.show.token_scene import follow_tokens

if TYPE_CHECKING:
    from minitorch.graph.core.session import Session


LIMIT = 80
MOST = 2000  # nodes of a graph that all passes are run on only to be shown


def explore(
    roots: Sequence[Value],
    names: Mapping[int, str],
    feed_dict: Mapping[Node, Any] | None = None,
    session: Session | None = None,
    large: bool = False,
) -> list[Scene]:
    """Return the scenes of some values: what cannot be shown of them is left out.

    A tensor is stepped forward and backward. A node of a dataflow graph is that, too, where it can
    be run, and followed as tokens, through the passes, and in memory.

    Args:
        names: what to call values, by id.
        large: whether there is more than can be stepped through value by value; of a dataflow graph
            memory and passes can be shown still.
    """
    options: dict[str, Any] = {
        "names": names,
        "limit": LIMIT,
        "feed_dict": feed_dict,
        "session": session,
    }
    views: list[Callable[[], Scene]] = []
    if not large:
        views.append(lambda: scene_of(record(roots[0], **options)))
    if isinstance(roots[0], Node):
        nodes = [node for node in roots if isinstance(node, Node)]
        if not large:
            views.append(lambda: follow_tokens(nodes, feed_dict, session, limit=LIMIT))
        views.append(lambda: map_memory(nodes, feed_dict))
        if len(needed(nodes, ())) <= MOST:
            views.append(lambda: compare_passes(nodes, limit=LIMIT))
    return [scene for view in views if (scene := _possible(view)) is not None]


def _possible(view: Callable[[], Scene]) -> Scene | None:
    """Return a scene; None for a graph that lacks what it shows, a feed or a known size say."""
    try:
        return view()
    except MinitorchError:
        return None
