"""Virtual ranks: threads that share one device, each with a stream of its own.

    launch(fn, 4, transport=DeviceWorld(4, "cuda"))

For one GPU where a course wants several. Tensors stay on the device: a send copies on the sender's
stream and records an event, the receiver's stream waits for it, and no copy goes through the host.
NumPy arrays travel as between any threads. The same code runs on the device "cpu", whose streams
do nothing, and that is where it is tested; on CUDA it has not been run yet. Timings are of one
device that all ranks share: they say nothing about several.

CUDA runs the backwards of all threads on one engine thread a device. A hook there that waited for
a peer would wait for ever, so every rank's thread runs its own backward.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ddp_lab.device_array import DeviceArray, HoldsTensors, keep_for, synchronize
from ddp_lab.errors import InvalidArgument
from ddp_lab.transport.base import SENT, NDArray, Receive, Sent
from ddp_lab.transport.threads import ThreadTransport, ThreadWorld


class DeviceWorld(ThreadWorld):
    """Virtual ranks on one device, such as "cuda", "cuda:1" or "cpu".

    Raises:
        InvalidArgument: the device is not here.
    """

    def __init__(self, size: int, device: str | torch.device = "cuda") -> None:
        super().__init__(size)
        self.device = available(device)
        self.module = torch.get_device_module(self.device)
        with self._on_device():
            self.streams = [self.module.Stream() for _ in range(size)]
            self.side_streams = [self.module.Stream() for _ in range(size)]  # of asynchronous calls

    def transport(self, rank: int) -> "DeviceTransport":
        return DeviceTransport(self, rank)

    @contextmanager
    def _on_device(self) -> Iterator[None]:
        """Make the device the current one, where there may be several."""
        if self.device.index is None:
            yield
            return
        with self.module.device(self.device):
            yield

    @contextmanager
    def running(self, rank: int) -> Iterator[None]:
        """Put a rank's thread on its stream, and its backward on this thread."""
        with (
            self._on_device(),
            self.module.stream(self.streams[rank]),
            torch.autograd.set_multithreading_enabled(False),
        ):
            yield
            synchronize(self.device)

    def beside(self, rank: int, job: Callable[[], Any]) -> Callable[[], Any]:
        """Return `job` for a thread beside the rank's: after what the rank has queued until now.

        When it returns, its work on the device is done, so that whoever waits for it in whatever
        stream sees the result; and its memory is not taken again before the rank's stream has
        done what it is doing with it.
        """
        before = self.module.Event()
        before.record(self.module.current_stream())

        def run() -> Any:
            side = self.side_streams[rank]
            with self._on_device(), self.module.stream(side):
                side.wait_event(before)
                result = job()
                keep_for(self.streams[rank], result)
                done = self.module.Event()
                done.record(side)
                done.synchronize()
                return result

        return run


class DeviceTransport(HoldsTensors, ThreadTransport):
    """One rank's end of a `DeviceWorld`."""

    _world: DeviceWorld

    def __init__(self, world: DeviceWorld, rank: int) -> None:
        super().__init__(world, rank)
        self.device = world.device

    def beside(self, job: Callable[[], Any]) -> Callable[[], Any]:
        return self._world.beside(self.rank, job)

    def isend(self, array: Any, dst: int, *, channel: int = 0, header: bytes = b"") -> Sent:
        """Send a copy, made in the order of this thread's stream."""
        if not isinstance(array, DeviceArray):
            return super().isend(array, dst, channel=channel, header=header)
        copy, ready = array.copy(), self._world.module.Event()
        ready.record(self._world.module.current_stream())
        self._world.post(self.rank, dst, channel, copy, header, ready)  # type: ignore[arg-type]
        return SENT

    def irecv(
        self, src: int, *, channel: int = 0, buffer: NDArray | None = None
    ) -> "DeviceReceive":
        return DeviceReceive(self._world, src, self.rank, channel, buffer)


class DeviceReceive(Receive):
    """A receive whose array is used in the order of the stream of whoever waits for it."""

    _keeper: DeviceWorld

    def wait(self, timeout_s: float | None = None) -> Any:
        self._keeper.wait(self, timeout_s)
        if isinstance(self._array, DeviceArray) and self.note is not None:
            stream = self._keeper.module.current_stream()
            stream.wait_event(self.note)
            keep_for(stream, self._array.tensor)
            self.note = None
        return super().wait(timeout_s)


@functools.cache
def available(device: str | torch.device) -> torch.device:
    """Return the device, once it is known to be here.

    Raises:
        InvalidArgument: it is not.
    """
    try:
        chosen = torch.device(device)
        torch.empty(1, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidArgument(
            f"DeviceWorld: no such device here: got {device!r} ({reason}), expected cpu or a "
            "device that torch can use. See torch.accelerator.is_available()."
        ) from error
    return chosen
