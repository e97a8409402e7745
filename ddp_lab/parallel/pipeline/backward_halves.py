"""A backward in two halves: first the gradient of the input, later those of the weights.

The gradient of the input is what the stage before waits for; those of the weights can fill its
waiting time. Where a weight meets the way from output to input there is a node of the autograd
graph; the first half goes that way alone and keeps what arrives at each such node, the second
goes from each of them to its own weights, and computes nothing twice.

May import: torch.
Source: Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

Meeting: TypeAlias = tuple[Node, list[Tensor]]  # a node on the way, and the weights beside it


def input_half(y: Tensor, x: Tensor, grad: Tensor | None) -> tuple[Tensor, Callable[[], None]]:
    """Return the gradient of leaf `x`, and what to call for those of the weights.

    Args:
        y: what was computed from `x`, a scalar where `grad` is None.
        x: a leaf that needs a gradient.
        grad: the gradient of `y`.
    """
    meetings = _meetings(y, x)
    arrived: dict[Node, tuple[Tensor | None, ...]] = {}
    hooks = [
        node.register_prehook(lambda grads, node=node: arrived.update({node: grads}))
        for node, _ in meetings or ()
    ]
    try:
        (x_grad,) = torch.autograd.grad(
            y, [x], grad, retain_graph=True, allow_unused=True, materialize_grads=True
        )
    finally:
        for hook in hooks:
            hook.remove()

    def weight_half() -> None:
        if meetings is None:
            weights = _weights([y.grad_fn], besides=x)
            if weights:
                torch.autograd.backward(y, grad, inputs=weights)
            return
        for node, weights in meetings:
            grads = {i: g for i, g in enumerate(arrived.get(node, ())) if g is not None}
            if grads:
                edges = [GradientEdge(node, i) for i in grads]
                torch.autograd.backward(edges, list(grads.values()), inputs=weights)

    return x_grad, weight_half


def _meetings(y: Tensor, x: Tensor) -> list[Meeting] | None:
    """Return where weights meet the way from `y` to `x`; None where they cannot be told apart.

    That is where `y` does not depend on `x`, or one weight is met twice: its second half goes the
    whole way again.
    """
    on_way = _on_way(y.grad_fn, x)
    if y.grad_fn not in on_way:
        return None
    meetings: list[Meeting] = []
    seen: set[int] = set()
    for node in on_way:
        beside = [child for child, _ in node.next_functions if child not in on_way]
        weights = _weights(beside, besides=x)
        if not seen.isdisjoint(map(id, weights)):
            return None
        seen.update(map(id, weights))
        if weights:
            meetings.append((node, weights))
    return meetings


def _on_way(root: Node | None, x: Tensor) -> dict[Node, None]:
    """Return the nodes from which `x` can be reached."""
    on_way: dict[Node, None] = {}
    if root is None:
        return on_way
    opened: set[Node] = {root}
    stack: list[tuple[Node, Any]] = [(root, iter(root.next_functions))]
    while stack:
        node, children = stack[-1]
        for child, _ in children:
            if child is not None and child not in opened:
                opened.add(child)
                stack.append((child, iter(child.next_functions)))
                break
        else:
            stack.pop()
            below = (child for child, _ in node.next_functions)
            if getattr(node, "variable", None) is x or any(child in on_way for child in below):
                on_way[node] = None
    return on_way


def _weights(roots: Iterable[Node | None], besides: Tensor) -> list[Tensor]:
    """Return the leaves that can be reached from `roots`, other than `besides`."""
    seen: set[Node] = set()
    stack = [root for root in roots if root is not None]
    leaves: list[Tensor] = []
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None and variable is not besides:
            leaves.append(variable)
        stack.extend(child for child, _ in node.next_functions if child is not None)
    return leaves
