"""A pretended device: a stage of a model keeps it busy for so long, on the wall clock.

Its rank sleeps meanwhile, as one sleeps that waits for a GPU; so four of them fit on two cores.
"""

from time import sleep
from typing import Any

import torch


class _Busy(torch.autograd.Function):
    """Nothing, which takes its time both ways."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, forward_s: float, backward_s: float) -> torch.Tensor:
        sleep(forward_s)
        ctx.backward_s = backward_s
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        sleep(ctx.backward_s)
        return grads[0], None, None


class OnDevice(torch.nn.Module):
    """A stage on a device of its own, which a micro-batch keeps busy for so many seconds."""

    def __init__(self, stage: torch.nn.Module, forward_s: float, backward_s: float) -> None:
        super().__init__()
        self.stage, self.forward_s, self.backward_s = stage, forward_s, backward_s

    def forward(self, x: torch.Tensor) -> Any:
        """Return what the stage makes of `x`, after `forward_s`."""
        return _Busy.apply(self.stage(x), self.forward_s, self.backward_s)  # type: ignore[no-untyped-call]
