"""What DistributedDataParallel asks of torch's autograd graph.

May import: torch.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

Node = Any  # torch.autograd.graph.Node; its C++ classes have no common Python base


def accumulator(param: Tensor) -> Node:
    """Return the graph node that adds gradients to `param.grad`.

    Nothing else may keep it alive, so hold on to it for as long as its hooks should fire.
    """
    with torch.enable_grad():
        return param.expand_as(param).grad_fn.next_functions[0][0]  # type: ignore[union-attr]


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in a module's output: containers and dataclasses are looked into."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, Mapping):
        yield from tensors_in(list(value.values()))
    elif is_dataclass(value) and not isinstance(value, type):
        for entry in fields(value):
            yield from tensors_in(getattr(value, entry.name))


def reachable(roots: Iterable[Node | None]) -> dict[Node, None]:
    """Return the nodes to which a path leads from `roots`, these included."""
    seen = dict.fromkeys(root for root in roots if root is not None)
    waiting = list(seen)
    while waiting:
        for child, _ in waiting.pop().next_functions:
            if child is not None and child not in seen:
                seen[child] = None
                waiting.append(child)
    return seen


def find_unreached(outputs: Iterable[Tensor], accumulators: dict[Node, int]) -> list[int]:
    """Return the indices of the accumulators that no path leads to from `outputs`.

    A backward from these outputs will not reach them, so their gradients will never come.
    """
    seen = reachable(t.grad_fn or accumulator(t) for t in outputs if t.requires_grad)
    return [index for node, index in accumulators.items() if node not in seen]


class BackwardEntry(torch.autograd.Function):
    """The identity on a module's outputs; calls `on_backward` when backward comes through.

    It ties all outputs together: once one of them is used in the loss, the parameters behind the
    others are visited too, with undefined gradients, and their hooks fire.
    """

    @staticmethod
    def forward(ctx: Any, on_backward: Callable[[], None], *outputs: Any) -> tuple[Any, ...]:
        ctx.set_materialize_grads(False)
        ctx.on_backward = on_backward
        return tuple(x.clone() if isinstance(x, Tensor) else x for x in outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        ctx.on_backward()
        return (None, *grads)


def through_entry(output: Any, on_backward: Callable[[], None]) -> Any:
    """Return `output` with its differentiable tensors led through a `BackwardEntry`."""
    leaves, structure = torch.utils._pytree.tree_flatten(output)
    passed = BackwardEntry.apply(on_backward, *leaves)  # type: ignore[no-untyped-call]
    merged = [
        before if isinstance(before, Tensor) and before.grad_fn is None else after
        for before, after in zip(leaves, passed, strict=True)
    ]
    return torch.utils._pytree.tree_unflatten(merged, structure)


def when_backward_ends(callback: Callable[[], None]) -> None:
    """Call `callback` at the end of the backward now running (valid only inside a hook)."""
    torch.autograd.Variable._execution_engine.queue_callback(callback)
