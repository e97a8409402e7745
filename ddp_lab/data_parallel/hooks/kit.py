"""What communication hooks do to arrays, whichever library these are of.

`Kit` is for modules of minitorch, `torch_kit.TorchKit` for torch's. What both libraries write
alike (`+`, `@`, `.T`, `x[i]`, `reshape`) is not in it.

May import: NumPy, reduction.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ddp_lab.reduction import divide


class Kit:
    """The operations that libraries name differently, for NumPy arrays."""

    def halve(self, x: Any) -> Any:
        """Return `x` as float16; what is too large for it is infinite."""
        with np.errstate(over="ignore"):
            return x.astype(np.float16)

    def divide(self, x: Any, by: int) -> None:
        """Divide in place."""
        divide(x, by)

    def zeros(self, shape: tuple[int, ...], like: Any) -> Any:
        """Return float64 zeros on the device of `like`."""
        return np.zeros(shape)

    def zeros_like(self, x: Any) -> Any:
        """Return zeros of its shape and dtype."""
        return np.zeros_like(x)

    def normal(self, shape: tuple[int, ...], seed: int, like: Any) -> Any:
        """Return random numbers, alike wherever the seed is, of the dtype of `like`."""
        return np.random.default_rng(seed).normal(size=shape).astype(like.dtype)

    def largest(self, x: Any, count: int) -> Any:
        """Return the positions of the `count` numbers of largest magnitude."""
        return np.argpartition(np.abs(x), x.size - count)[x.size - count :]

    def add_at(self, target: Any, positions: Any, values: Any) -> None:
        """Add to `target` at these positions, which may repeat; all in place."""
        np.add.at(target, positions.astype(np.int64), values.astype(target.dtype))

    def orthonormal(self, x: Any) -> Any:
        """Return an orthonormal basis of the columns of `x`."""
        return np.linalg.qr(x).Q

    def join(self, parts: Sequence[Any]) -> Any:
        """Return the numbers of all parts as one flat array, a copy."""
        return np.concatenate([part.reshape(-1) for part in parts])
