"""Tuned kernels: a product or a convolution, with the bias and relu behind it, by one kernel.

    relu(x W + b)     relu(conv(x, w) + b)     and either without one of the two, or both

Only where the user has tuned this operator for these sizes, this dtype and this processor, and the
kernel was measured to be faster than NumPy with operands that lie so. The epilogue is then free: it
is done while the tile is in registers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from ...arrays.library import Array, Namespace
from ...arrays.shapes import numel
from ...compile import tuned as table
from ...compile.products import ProductKernel
from ...compile.tasks import ITEM_BYTES, Task
from ...op import Op
from ...ops.elementwise.binary import add
from ...ops.elementwise.rows import operator_of
from ...ops.elementwise.unary import relu
from ...ops.products.convolution import Convolve
from ...ops.products.linalg import Linear, MatMul
from ...ops.shaping.movement import Permute
from ..core.node import Node, UnknownShape
from ..core.order import schedule
from .fused import FusedSequence, Origin
from .rewrite import rebuilt, rewrite, simple, users_of

PRODUCTS = (MatMul, Linear, Convolve)
ADD, RELU = operator_of(add), operator_of(relu)
_Parts = list[tuple[Op, tuple[int, ...]]]


class TunedProduct(FusedSequence):
    """A product or convolution and what follows it, by a kernel that was tuned for it.

    Attributes:
        kernel: what computes NumPy arrays.
        seconds: what it took when it was tuned.
    """

    def __init__(self, parts: _Parts, kernel: ProductKernel, origins: Sequence[Origin]) -> None:
        super().__init__(parts, origins)
        self.kernel = kernel
        times = table.times_of(kernel.task)
        self.seconds = times[0] if times else 0.0

    @property
    def name(self) -> str:
        """The operators' names, last first."""
        return "tuned_" + "_".join(op.name for op, _ in reversed(self.parts))

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return the last part's result."""
        if xp is not np:
            return self._function(xp, *arrays)
        a, b, *bias = arrays
        linear = isinstance(self.parts[0][0], Linear)
        y = self.kernel(
            a.reshape(-1, a.shape[-1]) if linear else a,
            b.T if linear else b,
            *[x.reshape(-1) for x in bias],
        )
        return y.reshape(*a.shape[:-1], -1) if linear else y


def tuned(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches with tuned kernels where there are any that pay."""
    if not table.any_kept():
        return list(fetches)
    chains: dict[Node, _Chain] = {}
    taken: set[Node] = set()
    order = schedule(fetches, fed)
    uses = users_of(order, fetches)
    for node in reversed(order):
        if node in fed or node in taken or not simple(node):
            continue
        chain = _Chain(node)
        if chain.inner_nodes_are_alone(uses, fed) and (kernel := chain.kernel()):
            chains[node], chain.found = chain, kernel
            taken.update(chain.nodes)

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        return chains[node].as_node(inputs) if node in chains else None

    return rewrite(fetches, rule, fed) if chains else list(fetches)


class _Chain:
    """A product and what is done with it, as far as a kernel does that too.

    Attributes:
        nodes: from the last down to the product, where there is one.
        places: for each but the product, which input is the next.
        found: the kernel, once it has been looked for.
    """

    found: ProductKernel

    def __init__(self, end: Node) -> None:
        self.nodes, self.places = [end], list[int]()
        if end.op is RELU:
            self._go_on(0)
        at = self.nodes[-1]
        if at.op is ADD:
            self._go_on(1 if _is_bias(at.inputs[0], at.inputs[1]) else 0)

    def _go_on(self, place: int) -> None:
        self.places.append(place)
        self.nodes.append(self.nodes[-1].inputs[place])

    def inner_nodes_are_alone(self, uses: Mapping[Node, int], fed: Collection[Node]) -> bool:
        """Tell whether nobody sees what is computed on the way."""
        return all(
            simple(n) and uses[n] == 1 and n not in fed and n.device == self.nodes[0].device
            for n in self.nodes[1:]
        )

    def kernel(self) -> ProductKernel | None:
        """Return the kernel, if there is one for these nodes."""
        product, op = self.nodes[-1], self.nodes[-1].op
        if not isinstance(op, PRODUCTS) or any(_unknown(n) for n in product.inputs):
            return None
        adds = [(n, n.inputs[1 - p]) for n, p in zip(self.nodes, self.places, strict=False)
                if n.op is ADD]  # fmt: skip
        biases = [bias for _, bias in adds] + list(product.inputs[2:])
        if len(biases) > 1 or any(not _is_bias(b, product) for _, b in adds):
            return None
        name = "_".join(["bias"] * len(biases) + ["relu"] * (self.nodes[0].op is RELU)) or None
        x, w = product.inputs[:2]
        if isinstance(op, Convolve):
            return op.tuned(x, w, name)  # type: ignore[no-any-return]
        return _kernel_of_product(x, w, isinstance(op, Linear), name)

    def as_node(self, inputs: tuple[Node, ...]) -> Node:
        """Return the node of the whole, given what the last of its nodes now has as inputs."""
        beside: list[Node] = []
        for place in self.places:
            beside += [n for i, n in enumerate(inputs) if i != place]
            inputs = inputs[place].inputs
        product = self.nodes[-1]
        parts: _Parts = [(product.op, tuple(range(len(inputs))))]
        for node, place in zip(self.nodes[-2::-1], self.places[::-1], strict=True):
            inner = (-len(parts),)
            bias = (len(inputs),) * (len(node.inputs) - 1)
            parts.append((node.op, bias + inner if place else inner + bias))
        origins = [(node.name, node.built_at) for node in self.nodes[::-1]]
        return rebuilt(TunedProduct(parts, self.found, origins), *inputs, *beside)


def _kernel_of_product(x: Node, w: Node, linear: bool, name: str | None) -> ProductKernel | None:
    if len(w.shape) != 2 or not (linear or len(x.shape) == 2) or x.dtype != w.dtype:
        return None
    k, n = w.shape[::-1] if linear else w.shape
    m = numel(tuple(x.shape)) // k if k else 0
    if x.dtype.name not in ITEM_BYTES or not m * n * k:
        return None
    turned = "a" * isinstance(x.op, Permute) + "b" * (isinstance(w.op, Permute) != linear)
    return table.kernel_for(Task("matmul", (m, n, k), x.dtype.name), name, turned)


def _is_bias(bias: Node, product: Node) -> bool:
    """Tell whether one number is added to each column, or to each channel of a convolution."""
    if not isinstance(product.op, PRODUCTS) or _unknown(bias) or _unknown(product):
        return False
    conv = isinstance(product.op, Convolve)
    n = product.shape[1 if conv else -1]
    shapes = ((n, 1, 1), (1, n, 1, 1)) if conv else ((n,), (1, n))
    return tuple(bias.shape) in shapes and bias.dtype == product.dtype


def _unknown(node: Node) -> bool:
    return isinstance(node.shape, UnknownShape) or None in node.shape
