"""Values of which only the shape is read need not be computed.

The gradient of a mean divides by a count, and a gradient is stretched to, or summed to, the shape
of a value of the forward pass. Where nobody reads the numbers of that value (a loss that is not
fetched, say) its operator's `infer` gives the shape, and the numbers are never made.
"""

import math
from collections.abc import Collection, Sequence

from ...arrays.library import Array, DType, Namespace, dtype_of, native_dtype
from ...op import Op, Spec
from ...ops.elementwise.rows import Elementwise
from ...ops.reducing.reduction import Count
from ..core.node import Node, UnknownShape
from ..core.order import schedule
from ..costs.machine import machine
from ..memory.aliasing import SHAPED
from ..memory.plan import VIEWS
from .matmul_chain import size_of
from .rewrite import rebuild, rewrite, simple

PRICE = 1e-5  # seconds: inferring a shape takes Python half of that


class ShapeOnly(Op):
    """Zeros of the shape and dtype that another operator would give; in memory they are one.

    Attributes:
        of: the other operator.
    """

    reads_inputs = reads_output = False

    def __init__(self, of: Op, dtype: DType) -> None:
        self.of, self.dtype = of, dtype
        self._last: tuple[object, Array | None] = (None, None)  # a step's shapes rarely change

    @property
    def name(self) -> str:
        """The other operator's name, as a shape."""
        return f"shape_of_{self.of.name}"

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return one 0, stretched; the one of the last call, where the shapes are those."""
        looks = (xp, [(a.shape, a.dtype) for a in arrays])
        last_looks, zeros = self._last
        if zeros is None or last_looks != looks:
            spec = self.infer(*[Spec(tuple(a.shape), dtype_of(a)) for a in arrays])
            zeros = xp.broadcast_to(xp.zeros((), dtype=native_dtype(xp, self.dtype)), spec.shape)
            self._last = (looks, zeros)
        return zeros

    def infer(self, *specs: Spec) -> Spec:
        return self.of.infer(*specs)


OF_SHAPES = (Count, ShapeOnly)


def shape_only(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches with only the shape computed where only the shape is read."""
    read, order = set(fetches), schedule(fetches, fed)
    for node in reversed(order):  # whoever is only looked at reads no numbers
        read.update(node.control_inputs)
        if node not in fed and (node in read or not simple(node)):
            read.update(_numbers_of(node))
    unread = [node for node in order if node not in read and node not in fed]
    looked_at = {node for node in unread if simple(node) and _infers(node)}

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        if node not in looked_at:
            return None
        return rebuild(ShapeOnly(node.op, node.dtype), *inputs) if node.op is not None else None

    return rewrite(fetches, rule, fed) if looked_at else list(fetches)


def _numbers_of(node: Node) -> tuple[Node, ...]:
    """Return the inputs of which a node reads the numbers, not only the shape."""
    inputs: tuple[Node, ...] = node.inputs
    if isinstance(node.op, OF_SHAPES):
        return ()
    return inputs[:1] if isinstance(node.op, SHAPED) else inputs


def _infers(node: Node) -> bool:
    """Tell whether a node's shape comes without its numbers, and its numbers at a price."""
    op = node.op
    if isinstance(op, VIEWS) or isinstance(node.shape, UnknownShape) or node.dtype.kind != "f":
        return False
    if isinstance(op, Elementwise):
        count = math.prod(size_of(n) for n in node.shape)
        return machine().numpy_s([op.name], count) > PRICE
    return type(op).infer is not Op.infer and not isinstance(op, OF_SHAPES)
