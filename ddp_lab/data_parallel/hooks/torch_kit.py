"""What communication hooks do to torch tensors, on whatever device.

May import: torch.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


class TorchKit:
    """`kit.Kit` for tensors."""

    def halved(self, x: Tensor) -> Tensor:
        """Return `x` as float16; what is too large for it is infinite."""
        return x.to(torch.float16)

    def put(self, target: Tensor, values: Tensor) -> None:
        """Overwrite `target` with values of any floating dtype and of its size."""
        target.copy_(values.view(target.shape))

    def divide(self, x: Tensor, by: int) -> None:
        """Divide in place."""
        x.div_(by)

    def zeros(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Return float64 zeros on the device of `like`."""
        return torch.zeros(shape, dtype=torch.float64, device=like.device)

    def zeros_like(self, x: Tensor) -> Tensor:
        """Return zeros of its shape and dtype."""
        return torch.zeros_like(x)

    def normal(self, shape: tuple[int, ...], seed: int, like: Tensor) -> Tensor:
        """Return random numbers, alike wherever the seed is, of the dtype of `like`."""
        return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(like)

    def largest(self, x: Tensor, count: int) -> Tensor:
        """Return the positions of the `count` numbers of largest magnitude."""
        return x.abs().topk(count).indices

    def add_at(self, target: Tensor, positions: Tensor, values: Tensor) -> None:
        """Add to `target` at these positions, which may repeat; all in place."""
        target.index_add_(0, positions.long(), values.to(target.dtype))

    def orthonormal(self, x: Tensor) -> Tensor:
        """Return an orthonormal basis of the columns of `x`."""
        basis: Tensor = torch.linalg.qr(x).Q
        return basis

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """Return the numbers of all parts as one flat tensor, a copy."""
        return torch.cat([part.reshape(-1) for part in parts])
