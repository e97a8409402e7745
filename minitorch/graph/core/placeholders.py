"""Values that a run is given, and those that stand in for nodes whose sizes only a run knows.

May import: arrays, errors, graph, node, sizes.
"""

from collections.abc import Sequence
from functools import partial

from ...arrays.library import DTypeLike, graph_dtype
from ...errors import MinitorchError
from ..shapes import sizes
from .graph import Graph, add_location, place_of_new
from .node import Node, as_shape, convert


class Placeholder(Node):
    """A value given to each run by `feed_dict`.

    Attributes:
        asked: the name that it was given, which another may have had before.
        inside: whether it stands for a value that each round of a loop has anew.
    """

    __slots__ = kept = ("asked", "inside")

    def __init__(self, dtype: DTypeLike, shape: object = None, name: str = "Placeholder") -> None:
        super().__init__(None, (), as_shape(shape), graph_dtype(dtype), name)
        self.asked = self.graph.with_scopes(name)
        self.inside = False

    @property
    def default(self) -> Node | None:
        """What stands in where nothing is fed."""
        return self.inputs[0] if self.inputs else None


def placeholder(dtype: DTypeLike, shape: object = None, name: str | None = None) -> Placeholder:
    """Return a value that each run is given by `feed_dict`; sizes that vary are None.

    Raises:
        DTypeError, GraphError: no dtype, or no shape; with the line that asked.
    """
    try:
        return Placeholder(dtype, shape, name or "Placeholder")
    except MinitorchError as error:
        raise add_location(error, place_of_new()) from None


def placeholder_with_default(input: object, shape: object, name: str | None = None) -> Placeholder:
    """Return a value that a run may be given; otherwise it is `input`."""
    start = convert(input)
    node = Placeholder(start.dtype, shape, name or "PlaceholderWithDefault")
    node.inputs = (start,)
    return node


def stand_ins(nodes: Sequence[Node], size: int) -> list[Node]:
    """Return placeholders of a graph apart for nodes, with `size` for what is not known."""
    with Graph().as_default():
        return [Placeholder(n.dtype, [size if d is None else d for d in n.shape]) for n in nodes]


once_sized = partial(sizes.once_sized, stand_ins)
Node.once_sized = staticmethod(once_sized)  # from Python 3.14 on a bare partial would be a method
