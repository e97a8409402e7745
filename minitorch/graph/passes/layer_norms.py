"""The three gradients of a layer norm in one sweep: by the input, the weight and the bias.

As rules write them they are five operators, each of which reads what came in and what was
standardized again. One operator gives them one behind another, and slices of it are what they were.
"""

from collections.abc import Collection, Sequence

from ...compile import engine
from ...ops.networks.standardizing import LayerNormGradients, Standardize, StandardizeGradient
from ...ops.reducing.reduction import Sum
from ...ops.shaping.indexing import Slice
from ...ops.shaping.movement import Reshape
from ..core.node import Node, UnknownShape
from ..core.order import schedule
from .rewrite import rebuild, rewrite, simple

Norm = tuple[Node, Node, Node]
"""A gradient that comes in, what was standardized, and the weight."""


def layer_norms(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches with the gradients of each layer norm as slices of one operator."""
    if not engine.available():
        return list(fetches)
    order = schedule(fetches, fed)
    weight_of = {
        (node.inputs[0].inputs[0], node.inputs[2]): node.inputs[0].inputs[1]
        for node in order
        if node not in fed and _is_by_input(node, fed)
    }
    at = {n for n in order if isinstance(n.op, StandardizeGradient) or _is_sum_of_rows(n)}
    arriving = {g for g, _ in weight_of}
    gradients: dict[Norm, Node] = {}
    by_arriving: dict[Node, Node] = {}

    def together(g: Node, x: Node, weight: Node, eps: float) -> Node:
        if (g, x, weight) not in gradients:
            gradients[g, x, weight] = rebuild(LayerNormGradients(eps), g, x, weight)
            by_arriving.setdefault(g, gradients[g, x, weight])
        return gradients[g, x, weight]

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        if node not in at:
            return None
        old = node.inputs[0]
        if isinstance(node.op, StandardizeGradient):
            if (old.inputs[:1] + node.inputs[2:]) not in weight_of:
                return None
            (g, weight), x = inputs[0].inputs, inputs[1]
            return _slice(together(g, x, weight, node.op.eps), 0, node)
        if _is_product(old) and old.inputs in weight_of:
            g, y = inputs[0].inputs
            return _slice(together(g, y.inputs[0], weight_of[old.inputs], y.op.eps), 1, node)
        if old in arriving and inputs[0] in by_arriving:
            return _slice(by_arriving[inputs[0]], 2, node)
        return None

    return rewrite(fetches, rule, fed, at=at) if weight_of else list(fetches)


def _is_by_input(node: Node, fed: Collection[Node]) -> bool:
    """Tell whether a node is the gradient by the input of a layer norm over the last axis.

    Its weight is there before all else, so that nothing waits in a circle.
    """
    if not isinstance(node.op, StandardizeGradient) or not simple(node):
        return False
    flow, x, y = node.inputs
    if flow in fed or y in fed:
        return False
    if isinstance(x.shape, UnknownShape) or None in x.shape or node.dtype.name not in DTYPES:
        return False
    if not _is_product(flow) or not simple(y) or not isinstance(y.op, Standardize):
        return False
    weight, last = flow.inputs[1], len(x.shape) - 1
    return (
        y.inputs[0] is x
        and node.op.dims == y.op.dims == (last,)
        and weight.op is None
        and tuple(weight.shape) == tuple(x.shape[-1:])
        and tuple(flow.inputs[0].shape) == tuple(x.shape)
    )


DTYPES = ("float32", "float64")


def _is_product(node: Node) -> bool:
    return simple(node) and node.op.name == "mul"


def _is_sum_of_rows(node: Node) -> bool:
    """Tell whether a node is the sum over all axes but the last."""
    op = node.op
    if not simple(node) or type(op) is not Sum or op.keepdim:
        return False
    rank = len(node.inputs[0].shape)
    return rank > 1 and tuple(op.dims) == tuple(range(rank - 1))


def _slice(together: Node, place: int, like: Node) -> Node:
    """Return the gradient at a place: by the input, the weight or the bias."""
    n = int(together.inputs[2].shape[0])
    whole = int(together.shape[0]) - 2 * n
    if place:
        start = whole + (place - 1) * n
        return rebuild(Slice((slice(start, start + n),)), together)
    shape = tuple(int(size) for size in like.shape)
    return rebuild(Reshape(shape), rebuild(Slice((slice(0, whole),)), together))
