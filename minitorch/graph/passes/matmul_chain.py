"""The order of a chain of matrix products, by dynamic programming over its flops.

(A B) C and A (B C) are the same matrix at different cost: with A and B of 512 x 512 and C of
512 x 1 the second needs 170 times fewer multiplications. The order with the fewest is taken unless
the machine's cost model says that it takes longer. A very long chain is taken in stretches, and a
size that is not known, the batch, counts as 64.

Source: Cormen et al., Introduction to Algorithms, section 14.2.
"""

import functools
import math
from collections.abc import Callable, Collection, Sequence

from ...ops.products.linalg import MatMul
from ..core.node import Node
from ..core.order import schedule
from ..costs.machine import machine
from .rewrite import rebuild, rewrite, simple, users_of

Split = dict[tuple[int, int], int]


def cheapest(sizes: Sequence[int]) -> tuple[int, Split]:
    """Return the least number of multiplications for matrices sizes[i] x sizes[i+1], and where
    each stretch (i, j) of the chain is cut.

    Source: Cormen et al., Introduction to Algorithms, section 14.2.
    """
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split: Split = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            choices = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], split[i, j] = min(choices)
    return cost[0, count - 1], split


def _product(
    multiply: Callable[[Node, Node], Node], factors: Sequence[Node], split: Split, i: int, j: int
) -> Node:
    if i == j:
        return factors[i]
    k = split[i, j]
    left, right = (_product(multiply, factors, split, *ends) for ends in ((i, k), (k + 1, j)))
    return multiply(left, right)


UNKNOWN_SIZE = 64  # what a size that is not known, a batch, counts as
GAIN = 0.9  # a new order must need this much fewer flops: rounding changes, so it must be worth it
LONGEST = 48  # factors in a chain: the search takes their cube
ERROR = 1.1  # of a measured time: only what is predicted to take longer than this is a loss


def matmul_chain(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches with each chain of products in its cheapest order."""
    order = schedule(fetches, fed)
    inner, products = _inner(order, fetches, fed)
    if not inner:
        return list(fetches)
    ends = products - inner

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        if node not in ends:
            return None
        factors = _factors(node, inputs, inner)
        if len(factors) < 3:
            return None
        sizes = [size_of(size) for size in (*(f.shape[0] for f in factors), factors[-1].shape[1])]
        flops, split = cheapest(sizes)
        now = _products(node, inner)
        if flops >= GAIN * sum(math.prod(sides) for sides in now):
            return None
        seconds = sum(machine().matmul_s(*sides, node.dtype) for sides in now)
        if _seconds(sizes, split, 0, len(factors) - 1, node) > ERROR * seconds:
            return None
        multiply = functools.partial(rebuild, MatMul())
        return _product(multiply, factors, split, 0, len(factors) - 1)

    return rewrite(fetches, rule, fed)


def _inner(
    order: Sequence[Node], fetches: Sequence[Node], fed: Collection[Node]
) -> tuple[set[Node], set[Node]]:
    """Return the products that are links of a longer chain, and all products."""
    uses = users_of(order, fetches)
    inner: set[Node] = set()
    lengths: dict[Node, int] = {}  # factors in the chain that ends in a product
    for node in order:
        if not _is_product(node, fed):
            continue
        lengths[node] = 2
        for source in dict.fromkeys(node.inputs):
            longer = lengths[node] + lengths.get(source, LONGEST) - 1
            if longer <= LONGEST and uses[source] == 1 and source.device == node.device:
                inner.add(source)
                lengths[node] = longer
    return inner, set(lengths)


def _is_product(node: Node, fed: Collection[Node]) -> bool:
    return (
        isinstance(node.op, MatMul)
        and node not in fed
        and simple(node)
        and all(len(source.shape) == 2 for source in node.inputs)
    )


def _factors(node: Node, inputs: Sequence[Node], inner: Collection[Node]) -> list[Node]:
    """Return the matrices of the chain that ends in `node`, from left to right."""
    factors: list[Node] = []
    for old, new in zip(node.inputs, inputs, strict=True):
        factors += _factors(old, new.inputs, inner) if old in inner else [new]
    return factors


def _products(node: Node, inner: Collection[Node]) -> list[tuple[int, int, int]]:
    """Return the sides of all products in the chain that ends in `node`, as it is."""
    a, b = node.inputs
    sides = [(size_of(a.shape[0]), size_of(a.shape[1]), size_of(b.shape[1]))]
    for source in node.inputs:
        sides += _products(source, inner) if source in inner else []
    return sides


def _seconds(
    sizes: Sequence[int], split: dict[tuple[int, int], int], i: int, j: int, like: Node
) -> float:
    """Return the predicted seconds of a stretch of the chain in the order of `split`."""
    if i == j:
        return 0.0
    k = split[i, j]
    own = machine().matmul_s(sizes[i], sizes[k + 1], sizes[j + 1], like.dtype)
    left, right = _seconds(sizes, split, i, k, like), _seconds(sizes, split, k + 1, j, like)
    return own + left + right


def size_of(size: int | None) -> int:
    """Return a size of an axis, or what counts as one where it is not known."""
    return UNKNOWN_SIZE if size is None else size
