"""Transpose elimination: transposes sink through operators until they meet, and cancel.

    f(xᵀ, yᵀ) = f(x, y)ᵀ     (xᵀ)ᵀ = x     Aᵀ Bᵀ = (B A)ᵀ     (Aᵀ B)ᵀ = Bᵀ A
    a sum over axes of a transpose is a sum over other axes of what was transposed

A rule applies where it does not make more transposes than it takes away; the whole is kept only
when fewer are left than before.
"""

from collections.abc import Collection, Sequence

from ...ops.elementwise.pointwise import Power
from ...ops.elementwise.rows import Elementwise
from ...ops.products.linalg import MatMul
from ...ops.reducing.reduction import Extreme, Mean, Reduction, Sum
from ...ops.shaping.movement import Permute
from ..core.node import Node, UnknownShape
from ..core.order import list_needed, schedule
from .rewrite import rebuild, rewrite, simple, users_of

ROUNDS = 10  # each sinks every transpose by one operator at least


def transposes(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches with fewer transposes, or as they were."""
    before = best = list(fetches)
    fewest = _count(best, fed)
    for _ in range(ROUNDS if fewest else 0):
        after = _sink(before, fed)
        if all(a is b for a, b in zip(after, before, strict=True)):
            break
        before = after
        count = _count(after, fed)
        if count < fewest:
            best, fewest = after, count
    return best


def _count(fetches: Sequence[Node], fed: Collection[Node]) -> int:
    return sum(isinstance(node.op, Permute) for node in list_needed(fetches, fed))


def _sink(fetches: Sequence[Node], fed: Collection[Node]) -> list[Node]:
    order = schedule(fetches, fed)
    uses = users_of(order, fetches)
    beside = {n for n in order if any(isinstance(s.op, Permute) for s in (n, *n.inputs))}

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        if any(isinstance(s.shape, UnknownShape) for s in inputs):
            return None
        if any(source in fed for source in inputs):
            return None
        if isinstance(node.op, Permute):
            return _of_permute(node.op.dims, inputs[0])
        alone = sum(isinstance(old.op, Permute) and uses.get(old, 0) == 1 for old in node.inputs)
        if isinstance(node.op, Elementwise | Power) and alone:
            return _of_elementwise(node, inputs)
        if isinstance(node.op, MatMul) and alone == 2:
            return _of_product(inputs)
        if isinstance(node.op, Sum | Mean | Extreme) and alone:
            return _of_reduction(node.op, inputs[0])
        return None

    return rewrite(fetches, rule, fed, at=beside)


def _transpose_order(node: Node) -> tuple[int, ...] | None:
    """Return the order of axes when a node is a transpose and nothing more."""
    return node.op.dims if simple(node) and isinstance(node.op, Permute) else None


def _of_permute(dims: tuple[int, ...], x: Node) -> Node | None:
    """(xᵀ)ᵀ, the identity, and (Aᵀ B)ᵀ."""
    if dims == tuple(range(len(dims))):
        return x
    inner = _transpose_order(x)
    if inner is not None:
        return rebuild(Permute(tuple(inner[d] for d in dims)), x.inputs[0])
    if not simple(x) or not isinstance(x.op, MatMul) or dims != _swap(len(dims)):
        return None
    a, b = x.inputs
    left, right = (_transpose_order(s) == _swap(len(s.shape)) for s in (a, b))
    if left == right or len(a.shape) != len(b.shape):
        return None  # two are a transpose of a product; none would become two
    swapped = rebuild(Permute(dims), b) if left else b.inputs[0]
    return rebuild(MatMul(), swapped, a.inputs[0] if left else rebuild(Permute(dims), a))


def _swap(rank: int) -> tuple[int, ...]:
    return (*range(rank - 2), rank - 1, rank - 2)


def _of_elementwise(node: Node, inputs: Sequence[Node]) -> Node | None:
    """f(xᵀ, yᵀ, number) = f(x, y, number)ᵀ."""
    rank = len(node.shape)
    orders = {_transpose_order(s) for s in inputs if len(s.shape)}
    dims = orders.pop() if len(orders) == 1 else None
    if dims is None or len(dims) != rank or node.op is None:
        return None
    inner = [s.inputs[0] if len(s.shape) else s for s in inputs]
    return rebuild(Permute(dims), rebuild(node.op, *inner))


def _of_product(inputs: Sequence[Node]) -> Node | None:
    """Aᵀ Bᵀ = (B A)ᵀ, over the last two axes."""
    a, b = inputs
    if len(a.shape) != len(b.shape):
        return None
    swap = _swap(len(a.shape))
    if _transpose_order(a) != swap or _transpose_order(b) != swap:
        return None
    return rebuild(Permute(swap), rebuild(MatMul(), b.inputs[0], a.inputs[0]))


def _of_reduction(op: Reduction, x: Node) -> Node | None:
    """The reduction of a transpose, where what is left has its axes in order."""
    dims = _transpose_order(x)
    if dims is None:
        return None
    over = tuple(sorted(dims[d] for d in op.dims))
    left = [dims[i] for i in range(len(dims)) if i not in op.dims]
    if op.keepdim or left != sorted(left):
        return None
    other = Extreme(over, False, op.largest) if isinstance(op, Extreme) else type(op)(over, False)
    return rebuild(other, x.inputs[0])
