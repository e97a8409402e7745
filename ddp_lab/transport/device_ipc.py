"""Processes that share GPUs: tensors by CUDA IPC, everything else by the transport beneath.

    launch(fn, 4, transport="cuda_ipc")           # rank r on GPU r modulo their number

A tensor is copied on the sender's device, and a handle to the copy travels; the receiver opens it,
copies it to its own device, over NVLink or PCIe where that is another one, and lets it go. Handles
are torch's (`torch.multiprocessing`), in pickles between processes that one launch has started.
The same code runs on the device "cpu", where handles are those of shared files, and that is where
it is tested; on CUDA it has not been run yet. Timings are those of peer copies plus a handle each.
"""

import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import torch
from torch.multiprocessing import reductions, set_sharing_strategy

from ddp_lab.device_array import DeviceArray, HoldsTensors, synchronize
from ddp_lab.transport.base import NDArray, Probes, Transport, Work

HANDLE = b"\x01"  # begins the header of a message that is a handle; headers are printable text


class IpcTransport(HoldsTensors, Transport, Probes):
    """One rank's end: `host` carries handles, headers and NumPy arrays."""

    def __init__(self, host: Any, device: torch.device) -> None:
        reductions.init_reductions()  # type: ignore[no-untyped-call]
        if device.type == "cpu":
            share: Any = set_sharing_strategy
            share("file_system")  # by names, which any process can open
        self.rank: int = host.rank
        self.size: int = host.size
        self.board = host.board
        self.device = device
        self.host = host

    def isend(self, array: Any, dst: int, *, channel: int = 0, header: bytes = b"") -> Work:
        if isinstance(array, DeviceArray):
            copy = array.tensor.clone()
            synchronize(self.device)
            handle = bytes(ForkingPickler.dumps(copy))
            array, header = np.frombuffer(handle, np.uint8), HANDLE + header
        work: Work = self.host.isend(array, dst, channel=channel, header=header)
        return work

    def irecv(self, src: int, *, channel: int = 0, buffer: Any = None) -> "IpcReceive":
        return IpcReceive(self, self.host.irecv(src, channel=channel))

    def probe(self, src: int, channel: int) -> bool:
        waits: bool = self.host.probe(src, channel)
        return waits

    def close(self) -> None:
        self.host.close()


class IpcReceive:
    """A receive, before and after its message came."""

    def __init__(self, transport: IpcTransport, work: Work) -> None:
        self.header = b""
        self._transport = transport
        self._work = work
        self._array: Any = None

    def wait(self, timeout_s: float | None = None) -> Any:
        """Return the array."""
        if self._array is None:
            array: Any = self._work.wait(timeout_s)
            self.header = self._work.header
            if self.header.startswith(HANDLE):
                self.header = self.header.removeprefix(HANDLE)
                array = self._open(array)
            self._array = array
        return self._array

    def _open(self, handle: NDArray) -> DeviceArray:
        theirs = pickle.loads(handle.tobytes())
        mine = torch.empty_like(theirs, device=self._transport.device).copy_(theirs)
        synchronize(self._transport.device)  # `theirs` is let go of here
        return DeviceArray(mine)

    def test(self) -> bool:
        """Return whether `wait` would return at once."""
        return self._array is not None or self._work.test()
