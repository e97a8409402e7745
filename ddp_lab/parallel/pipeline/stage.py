"""One stage of a pipeline on its rank: micro-batches that have gone forward and not yet back.

May import: torch, backward_halves.
Source: Narayanan et al., PipeDream, SOSP 2019, for weight versions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ddp_lab.parallel.pipeline.backward_halves import input_half


@dataclass
class MicroBatch:
    """A micro-batch that has gone forward: its input and its output."""

    x: Tensor
    y: Tensor


class Stage:
    """A module, and what its backward will need."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self._micro_batches: dict[int, MicroBatch] = {}
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
        y = finish(self._run(m, x))
        self._micro_batches[m] = MicroBatch(x, y)
        return y.detach()

    def backward(self, m: int, grad: Tensor | None) -> Tensor | None:
        """Add to the weights' gradients; return that of the input, None where it needs none."""
        micro_batch = self._micro_batches.pop(m)
        _backward(micro_batch.y, grad)
        x = micro_batch.x
        return torch.zeros_like(x) if x.requires_grad and x.grad is None else x.grad

    def input_half(self, m: int, grad: Tensor | None) -> Tensor | None:
        """Return the gradient of the input; nothing waits for it where the input needs none."""
        micro_batch = self._micro_batches.pop(m)
        if not micro_batch.x.requires_grad:
            self._weight_halves[m] = partial(_backward, micro_batch.y, grad)
            return None
        x_grad, self._weight_halves[m] = input_half(micro_batch.y, micro_batch.x, grad)
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
