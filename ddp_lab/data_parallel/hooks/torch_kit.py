"""What communication hooks do to torch tensors, on whatever device.

May import: torch, kit.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ddp_lab.data_parallel.hooks.kit import Kit


class TorchKit(Kit):
    """`kit.Kit` for tensors."""

    def halve(self, x: Tensor) -> Tensor:
        return x.to(torch.float16)

    def divide(self, x: Tensor, by: int) -> None:
        x.div_(by)

    def zeros(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=like.device)

    def zeros_like(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)

    def normal(self, shape: tuple[int, ...], seed: int, like: Tensor) -> Tensor:
        return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(like)

    def largest(self, x: Tensor, count: int) -> Tensor:
        return x.abs().topk(count).indices

    def add_at(self, target: Tensor, positions: Tensor, values: Tensor) -> None:
        target.index_add_(0, positions.long(), values.to(target.dtype))

    def orthonormal(self, x: Tensor) -> Tensor:
        basis: Tensor = torch.linalg.qr(x).Q
        return basis

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        return torch.cat([part.reshape(-1) for part in parts])
