"""DataParallel: one process, several replicas of a torch module, made anew for every batch.

Here to be compared with DistributedDataParallel: parameters, inputs and outputs travel in every
step, and one interpreter lock serves all replicas.

May import: torch.
"""

import copy
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass
class Transfers:
    """Bytes moved by the last step; gradients come back in backward, as many as parameters."""

    scatter: int = 0
    replicate: int = 0
    gather: int = 0

    @property
    def total(self) -> int:
        """All of forward's transfers."""
        return self.scatter + self.replicate + self.gather


class DataParallel(nn.Module):
    """Cuts the batch into parts, runs a replica on each in a thread, joins the outputs.

        model = DataParallel(module, replicas=2)
        loss(model(x), y).backward()        # gradients of all parts add up in `module`

    Args:
        module: any torch module; its buffers are shared and should not change in forward.
        replicas: how many; stand-ins for devices on a machine without any.
    """

    def __init__(self, module: nn.Module, replicas: int = 2) -> None:
        super().__init__()
        if replicas < 1:
            raise ValueError(f"DataParallel: got {replicas} replicas, expected 1 or more.")
        self.module = module
        self.replicas = replicas
        self.transfers = Transfers()

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of all parts of `x`, joined along the first axis."""
        parts = self._scatter(x)
        copies = self._replicate(len(parts))
        outputs = self._run(copies, parts)
        self.transfers.gather = sum(_nbytes(out) for out in outputs[1:])
        return torch.cat(list(outputs))

    def _scatter(self, x: Tensor) -> Sequence[Tensor]:
        parts = x.chunk(self.replicas)
        self.transfers.scatter = sum(_nbytes(part) for part in parts[1:])
        return parts

    def _replicate(self, count: int) -> list[nn.Module]:
        """Return the module and copies of it whose parameters are clones of its own.

        A clone hands its gradient on to the original, and there all of them add up.
        """
        copies = [self.module]
        self.transfers.replicate = 0
        for _ in range(count - 1):
            clones: dict[int, Tensor] = {id(p): p.clone() for p in self.module.parameters()}
            self.transfers.replicate += sum(_nbytes(clone) for clone in clones.values())
            shared = {id(b): b for b in self.module.buffers()}
            copies.append(copy.deepcopy(self.module, {**clones, **shared}))
        return copies

    def _run(self, copies: Sequence[nn.Module], parts: Sequence[Tensor]) -> list[Tensor]:
        grad_enabled = torch.is_grad_enabled()

        def run(replica: nn.Module, part: Tensor) -> Any:
            with torch.set_grad_enabled(grad_enabled):  # the mode belongs to a thread
                return replica(part)

        with ThreadPoolExecutor(len(parts)) as threads:
            return list(threads.map(run, copies, parts))


def _nbytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
