"""One stage of a pipeline on its rank: micro-batches that have gone forward and not yet back.

A backward may come in two halves. The gradient of the input is what the stage before waits for;
those of the weights can fill its waiting time. Where a weight meets the way from output to input
there is a node of the autograd graph; the first half goes that way alone and keeps what arrives at
each such node, the second goes from each of them to its own weights, and computes nothing twice.

May import: torch, autograd_graph.
Sources: Narayanan et al., PipeDream, SOSP 2019, for weight versions; Qi et al., Zero Bubble
Pipeline Parallelism, ICLR 2024, for the halves.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node

from ddp_lab.data_parallel.torch.autograd_graph import reachable


class Received(torch.autograd.Function):
    """What a stage is given, in the same memory: no leaf, so its first layer may work in place."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class Stage:
    """A module, and what its backward will need."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self._micro_batches: dict[int, tuple[Tensor, Tensor]] = {}  # input and output
        self._weight_halves: dict[int, Callable[[], None]] = {}

    @property
    def activations(self) -> int:
        """How many micro-batches' activations are kept."""
        return len(self._micro_batches) + len(self._weight_halves)

    def clear(self) -> None:
        """Forget all micro-batches."""
        self._micro_batches.clear()
        self._weight_halves.clear()

    def forward(self, m: int, x: Tensor, finish: Callable[[Tensor], Tensor]) -> Tensor:
        """Return `finish` of the module's output; at the last stage that is the loss."""
        y = finish(self._run(m, Received.apply(x)))  # type: ignore[no-untyped-call]
        self._micro_batches[m] = x, y
        return y.detach()

    def backward(self, m: int, grad: Tensor | None) -> Tensor | None:
        """Add to the weights' gradients; return that of the input, None where it needs none."""
        x, y = self._micro_batches.pop(m)
        _backward(y, grad)
        return torch.zeros_like(x) if x.requires_grad and x.grad is None else x.grad

    def input_half(self, m: int, grad: Tensor | None) -> Tensor | None:
        """Return the gradient of the input; nothing waits for it where the input needs none."""
        x, y = self._micro_batches.pop(m)
        if not x.requires_grad:
            self._weight_halves[m] = partial(_backward, y, grad)
            return None
        x_grad, self._weight_halves[m] = input_half(y, x, grad)
        return x_grad

    def weight_half(self, m: int) -> None:
        """Add to the weights' gradients what `input_half` left out."""
        self._weight_halves.pop(m)()

    def _run(self, m: int, x: Tensor) -> Any:
        return self.module(x)


def _backward(y: Tensor, grad: Tensor | None) -> None:
    if y.requires_grad:
        torch.autograd.backward(y, grad)


class VersionedStage(Stage):
    """PipeDream's stage: its weights change after each backward, which uses its forward's own.

    `weight_versions` is the most versions that were kept at a time, the newest included.
    """

    def __init__(self, module: nn.Module, optimizer: Any) -> None:
        super().__init__(module)
        self.weight_versions = 1
        self._optimizer = optimizer
        self._used: dict[int, dict[str, Tensor]] = {}  # by micro-batch: the weights of its forward
        self._newest: dict[str, Tensor] | None = None  # copies, None until a forward needs them

    def clear(self) -> None:
        """Forget all micro-batches and copies; somebody else may change the weights meanwhile."""
        super().clear()
        self._used.clear()
        self._newest = None
        self.weight_versions = 1

    def backward(self, m: int, grad: Tensor | None) -> Tensor | None:
        """Do a backward with the weights of its forward, then let the optimizer step."""
        x_grad = super().backward(m, grad)
        used = self._used.pop(m)
        for name, param in self.module.named_parameters():
            param.grad, used[name].grad = used[name].grad, None
        self._optimizer.step()
        self._newest = None
        self._count()
        return x_grad

    def _run(self, m: int, x: Tensor) -> Any:
        if self._newest is None:
            self._newest = {
                name: param.detach().clone().requires_grad_(param.requires_grad)
                for name, param in self.module.named_parameters()
            }
        self._used[m] = self._newest
        self._count()
        return torch.func.functional_call(self.module, self._used[m], (x,))

    def _count(self) -> None:
        versions = {id(weights) for weights in self._used.values()} | {id(self._newest)}
        self.weight_versions = max(self.weight_versions, len(versions))


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
    nodes = reachable([root])
    users: dict[Node, list[Node]] = {}
    for node in nodes:
        for child, _ in node.next_functions:
            users.setdefault(child, []).append(node)
    waiting = [node for node in nodes if getattr(node, "variable", None) is x]
    on_way = dict.fromkeys(waiting)
    while waiting:
        for user in users.get(waiting.pop(), ()):
            if user not in on_way:
                on_way[user] = None
                waiting.append(user)
    return on_way


def _weights(roots: Iterable[Node | None], besides: Tensor) -> list[Tensor]:
    """Return the leaves that can be reached from `roots`, other than `besides`."""
    leaves = (getattr(node, "variable", None) for node in reachable(roots))
    return [leaf for leaf in leaves if leaf is not None and leaf is not besides]
