"""Ranks with a GPU each, joined by NCCL; the same over gloo for tensors of the CPU.

    launch(fn, 4, transport="nccl")

A message is a head of fixed size and its bytes, both tensors of the device. NCCL knows no tags and
runs what two ranks exchange one after another: so the channel is in the head, and messages to
higher and to lower ranks go by two groups, or two ranks that both send first would wait for each
other for ever. Tested over gloo; over NCCL it has not been run yet. Timings are those of the
backend, plus a head for each message, which the receiver's CPU has to see.
"""

import contextlib
import threading
from collections import deque
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from ddp_lab.device_array import DeviceArray, HoldsTensors, synchronize, torch_dtype
from ddp_lab.transport.base import SENT, Sent, Transport
from ddp_lab.transport.c10d.c10d import HEAD, C10dReceive, pack_head, peer_error, unpack_head
from ddp_lab.transport.description import parse

NUMPY, TENSOR = 0, 1
Message = tuple[Any, bytes]


class DeviceC10dTransport(HoldsTensors, Transport):
    """One rank's end of torch's default group, with tensors of one device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.rank: int = dist.get_rank()
        self.size: int = dist.get_world_size()
        self._up, self._down = dist.new_group(), dist.new_group()
        self._arrived: dict[tuple[int, int], deque[Message]] = {}
        self._wanted: dict[tuple[int, int], deque[C10dReceive]] = {}
        self._locks = [threading.Lock() for _ in range(self.size)]
        self._sends: deque[tuple[Any, Tensor]] = deque()  # torch wants them alive till then

    def isend(self, array: Any, dst: int, *, channel: int = 0, header: bytes = b"") -> Sent:
        kind = TENSOR if isinstance(array, DeviceArray) else NUMPY
        copy = array.copy()
        if dst == self.rank:
            self._arrived.setdefault((dst, channel), deque()).append((copy, header))
            return SENT
        raw = copy.tensor if kind == TENSOR else torch.from_numpy(copy.reshape(-1).view(np.uint8))
        head = torch.from_numpy(pack_head(copy, header, channel, kind)).to(self.device)
        group = self._up if dst > self.rank else self._down
        for tensor in [head, _bytes(raw).to(self.device)] if copy.nbytes else [head]:
            try:
                work = dist.isend(tensor, group=group, group_dst=dst)
            except RuntimeError as error:
                raise peer_error("send", self.rank, dst, error) from error
            self._sends.append((work, tensor))
        while self._sends and self._sends[0][0].is_completed():
            self._sends.popleft()
        return SENT

    def irecv(self, src: int, *, channel: int = 0, buffer: Any = None) -> "C10dReceive":
        receive = C10dReceive(self, src, channel)
        self._wanted.setdefault((src, channel), deque()).append(receive)
        return receive

    def take_until(self, receive: "C10dReceive") -> None:
        """Receive from a rank, whatever the channel, until `receive` has its message."""
        with self._locks[receive.src]:
            while not receive.done:
                key = receive.src, receive.channel
                arrived = self._arrived.setdefault(key, deque())
                while arrived and not receive.done:
                    self._wanted[key].popleft().accept(*arrived.popleft())
                if not receive.done:
                    channel, message = self._take(receive.src)
                    self._arrived.setdefault((receive.src, channel), deque()).append(message)

    def _take(self, src: int) -> tuple[int, Message]:
        head = torch.empty(HEAD, dtype=torch.uint8, device=self.device)
        self._recv(head, src)
        header, description, channel, kind = unpack_head(head.cpu().numpy())
        dtype, shape = parse(description)
        tensor = torch.empty(shape, dtype=torch_dtype(dtype), device=self.device)
        if tensor.numel():
            self._recv(_bytes(tensor), src)
        if kind == TENSOR:
            return channel, (DeviceArray(tensor), header)
        raw = _bytes(tensor).cpu().numpy()
        return channel, (raw.view(dtype).reshape(shape), header)

    def _recv(self, tensor: Tensor, src: int) -> None:
        group = self._up if src < self.rank else self._down
        try:
            dist.recv(tensor, group=group, group_src=src)
        except RuntimeError as error:
            raise peer_error("recv", self.rank, src, error) from error

    def close(self) -> None:
        while self._sends:
            self._sends.popleft()[0].wait()
        synchronize(self.device)

    def leave(self) -> None:
        """Return once all ranks are about to end: a connection that closes loses messages."""
        with contextlib.suppress(RuntimeError):  # another rank has failed, and is reported
            self.close()
            dist.barrier()


def _bytes(tensor: Tensor) -> Tensor:
    """Return the bytes of a contiguous tensor, over the same memory."""
    return tensor.reshape(-1).view(torch.uint8)
