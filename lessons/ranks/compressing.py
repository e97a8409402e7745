"""Ways of averaging gradients with fewer bytes, made of the functions that a lab asks for."""

from collections.abc import Callable, Sequence
from typing import Any

import torch


class Compressor:
    """One way of averaging gradients, with the memory that it needs.

    `kind` is "plain", "fp16", "top 1 %", "rank 1", or "forgets": top-k whose memory is cleared in
    each step. The first three arguments do the work; their arguments are those of the lab.
    """

    def __init__(
        self,
        fp16: Callable[..., Any],
        top_k: Callable[..., Any],
        low_rank: Callable[..., Any],
        kind: str,
        grads: Sequence[Any],
    ) -> None:
        self.fp16, self.top_k, self.low_rank, self.kind = fp16, top_k, low_rank, kind
        self.left_out = [torch.zeros_like(grad) for grad in grads]
        draw = torch.Generator().manual_seed(0)
        self.q = [torch.randn(g.shape[-1], 1, generator=draw).to(g.device) for g in grads]

    def average(self, comm: Any, index: int, grad: Any) -> Any:
        """Return the average over the ranks of gradient `index`."""
        memory, k = self.left_out[index], max(1, grad.numel() // 100)
        if self.kind == "fp16":
            return self.fp16(comm, grad.reshape(-1)).view(grad.shape)
        if self.kind == "forgets":
            memory.zero_()
        if self.kind in ("top 1 %", "forgets"):
            return self.top_k(comm, grad.reshape(-1), memory.view(-1), k).view(grad.shape)
        if self.kind == "rank 1" and grad.dim() == 2:
            average, self.q[index] = self.low_rank(comm, grad, self.q[index], memory)
            return average
        return comm.all_reduce(grad, algorithm="ring") / comm.size

    def average_all(self, comm: Any, grads: Sequence[Any]) -> list[Any]:
        """Return the averages of all gradients."""
        return [self.average(comm, index, grad) for index, grad in enumerate(grads)]


def errors_of_means(
    comm: Any, low_rank: Callable[..., Any], matrix: Any, steps: int = 100
) -> list[float]:
    """Return how far the mean of the averages so far is from `matrix`, relatively, by step."""
    q, left_out = torch.ones(matrix.shape[1], 1), torch.zeros_like(matrix)
    total, off = torch.zeros_like(matrix), []
    for step in range(steps):
        average, q = low_rank(comm, matrix, q, left_out)
        total = total + average
        off.append(((total / (step + 1) - matrix).norm() / matrix.norm()).item())
    return off
