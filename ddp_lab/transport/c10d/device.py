"""Ranks with a GPU each, joined by NCCL; the same over gloo for tensors of the CPU.

    launch(fn, 4, transport="nccl")

A message is a head of fixed size and its bytes, both tensors of the device. NCCL knows no tags and
runs what two ranks exchange one after another: so the channel is in the head, and messages to
higher and to lower ranks go by two groups, or two ranks that both send first would wait for each
other for ever. Tested over gloo; over NCCL it has not been run yet. Timings are those of the
backend, plus a head for each message, which the receiver's CPU has to see.
"""

import contextlib
from typing import Any

import torch
import torch.distributed as dist

from ddp_lab.device_array import HoldsTensors, synchronize
from ddp_lab.transport.c10d.c10d import C10dEnd


class DeviceC10dTransport(HoldsTensors, C10dEnd):
    """One rank's end of torch's default group, with tensors of one device."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(None, device)
        self._up, self._down = dist.new_group(), dist.new_group()

    def _way(self, src: int, dst: int, channel: int) -> tuple[Any, int]:
        return self._up if dst > src else self._down, 0

    def close(self) -> None:
        super().close()
        synchronize(self.device)

    def leave(self) -> None:
        """Return once all ranks are about to end: a connection that closes loses messages."""
        with contextlib.suppress(RuntimeError):  # another rank has failed, and is reported
            self.close()
            dist.barrier()
