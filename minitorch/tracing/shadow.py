"""A tensor from outside, or made of plain numbers, that is overwritten with what is not known yet.

`out = zeros(3); out[0] = x.sum()` is such an update. While the trace lasts, a symbol stands for the
tensor (its shadow), and in the tensor itself there is a ghost: a type without numbers, so that
nobody reads the old ones by mistake. Afterwards the numbers are put back, and what the shadow
became is written at each run, if anybody holds the tensor still.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minitorch.arrays import Array, Device, DType
from minitorch.errors import GraphError
from minitorch.tensor import Tensor

if TYPE_CHECKING:
    from minitorch.tracing.symbol import Symbol


@dataclass(frozen=True)
class Ghost:
    """What stands in the place of an array whose numbers only a run can tell."""

    shape: tuple[int, ...]
    dtype: DType
    device: Device

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, *_: object, **__: object) -> Any:
        raise GraphError(
            "trace: a tensor was overwritten with a traced value, and its numbers are asked for: "
            f"got {self.dtype} {self.shape}, expected no use of numbers. Return it and read it "
            "outside, or compute with operators of the library."
        )


@dataclass
class Shadow:
    """A tensor that was overwritten, what it held, and the symbol that stands for it now."""

    tensor: Tensor
    array: Array
    symbol: Symbol

    def put_back(self) -> None:
        """Give the tensor its own numbers again."""
        self.tensor.array = self.array

    def is_held(self, ours: int) -> bool:
        """Tell whether anybody else holds the tensor, besides `ours` references."""
        return sys.getrefcount(self.tensor) > ours + 1  # and the argument of this call
