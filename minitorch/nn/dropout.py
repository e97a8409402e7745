"""Dropout: elements, or whole channels, set to 0 in training and the rest scaled up."""

from __future__ import annotations

from minitorch.creation import ones
from minitorch.errors import ArgumentError
from minitorch.nn import functional as F
from minitorch.nn.module import Module
from minitorch.tensor import Tensor


class Dropout(Module):
    """In training each element is 0 with probability p, else x / (1 - p); otherwise x.

    Source: Srivastava et al., JMLR 15, 2014.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ArgumentError(f"{type(self).__name__}: got p {p}, expected one in [0, 1].")
        self.p = p
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with elements dropped, in training."""
        return F.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout2d(Dropout):
    """Dropout of whole channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with channels dropped, in training."""
        if not self.training or self.p == 0.0:
            return x
        keep = ones((*x.shape[:-2], 1, 1), dtype=x.dtype, device=x.device)
        return x * F.dropout(keep, self.p, True)
