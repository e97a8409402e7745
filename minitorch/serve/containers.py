"""Containers from the front's side: started, watched, killed, started again. The only starter.

    starting -> ready <-> busy -> dead -> (back-off) -> starting

A container is dead when its socket closes, and is killed when a batch takes longer than `hang_ms`.
Its queries go back to the dispatcher at once; the restart waits, twice as long after each failure.

May import: clock, dispatch, container, wire; pyzmq, inside functions.
"""

import asyncio
import contextlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minitorch.errors import ContainerDied, ModelFailed, ServeError
from minitorch.extras import missing
from minitorch.serve.batching import Controller
from minitorch.serve.clock import Clock, Timer
from minitorch.serve.dispatch import Dispatcher, Lane, Query
from minitorch.serve.wire import Errors, Kind, pack_array, unpack_results

FIRST_WAIT_MS, LONGEST_WAIT_MS = 50.0, 5_000.0
START_MS = 120_000.0  # to start and to load the model
END_S = 5.0
PROGRAM = "import sys; sys.path[:] = {!r}; from minitorch.serve.container import main; main()"


class Hub:
    """The front's socket: frames to containers and from them, by identity.

    An identity is 16 random bytes that only its container is told: on Linux the address is in the
    abstract namespace, which leaves no file behind, but which every user of the machine can reach.
    """

    def __init__(self) -> None:
        try:
            import zmq
        except ImportError as error:
            raise ModuleNotFoundError(missing("Server", "serve", error)) from error
        self._zmq = zmq
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if sys.platform == "linux":
            self.address = f"ipc://@minitorch-serve-{secrets.token_hex(16)}"
        else:
            self._folder = tempfile.TemporaryDirectory()
            self.address = f"ipc://{Path(self._folder.name) / 'front'}"
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.setsockopt(zmq.SNDHWM, 0)
        self._socket.bind(self.address)
        self._fd = int(self._socket.getsockopt(zmq.FD))
        self.hears: dict[bytes, Callable[[list[bytes]], None]] = {}
        self.loop = asyncio.get_running_loop()
        self.loop.add_reader(self._fd, self._read)

    def send(self, identity: bytes, frames: list[bytes]) -> None:
        """Send to a container; one that is gone is found out by its socket."""
        with contextlib.suppress(self._zmq.ZMQError):
            self._socket.send_multipart([identity, *frames], self._zmq.DONTWAIT, copy=False)
        self.loop.call_soon(self._read)  # sending may have used up the signal that there is more

    def _read(self) -> None:
        while not self._socket.closed:
            try:
                identity, *frames = self._socket.recv_multipart(self._zmq.DONTWAIT)
            except self._zmq.Again:
                return
            hear = self.hears.get(identity)
            if hear is not None and frames:
                hear(frames)

    def close(self) -> None:
        """Close the socket and what belongs to it."""
        self.loop.remove_reader(self._fd)
        self._context.destroy(linger=0)
        if self._folder is not None:
            self._folder.cleanup()


@dataclass(eq=False)
class Container:
    """One replica of a model: a process, or the wait for the next.

    Attributes:
        model: as it is sent to each process.
        done: called with each batch, its results and its errors.
        ready: done when the first process is ready; its exception says why it will never be.
        is_serving: whether its process takes batches.
        restarts: how many processes have followed the first.
    """

    name: str
    model: bytes
    hub: Hub
    clock: Clock
    dispatcher: Dispatcher
    make_controller: Callable[[], Controller]
    hang_ms: float
    done: Callable[[list[Query], list[Any], Errors], None]
    is_serving: bool = False
    restarts: int = 0
    _is_over: bool = False
    _has_joined: bool = False
    _wait_ms: float = FIRST_WAIT_MS
    _timer: Timer | None = None
    _process: "subprocess.Popen[bytes] | None" = None

    def __post_init__(self) -> None:
        self.ready: asyncio.Future[None] = self.hub.loop.create_future()
        self.lane = Lane(self.make_controller(), self._run)
        self._start()

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        return self._process.pid if self._process is not None else None

    @property
    def has_ended(self) -> bool:
        """Whether it has no process and will have none."""
        return self._is_over and self._process is None

    def join(self) -> None:
        """Take batches, from now on and after each restart."""
        self._has_joined = True
        if self.is_serving:
            self.dispatcher.add(self.lane)

    def _start(self) -> None:
        self._identity = secrets.token_bytes(16)
        try:
            self._lifeline, theirs = socket.socketpair()
            with theirs:
                self._spawn(theirs.fileno())
        except OSError:  # no process, no descriptor free
            self._ended()
            return
        self._lifeline.setblocking(False)
        self.hub.hears[self._identity] = self._hear
        self.hub.loop.add_reader(self._lifeline, self._ended)
        self._set_timer(START_MS, self._ended)

    def _spawn(self, lifeline: int) -> None:
        arguments = [self.hub.address, self._identity.hex(), lifeline, os.getpid()]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM.format(sys.path), *map(str, arguments)],
                pass_fds=[lifeline],
                stdin=subprocess.DEVNULL,
                env={"OMP_NUM_THREADS": "1", **os.environ},  # one core a container
                start_new_session=True,
            )
        except OSError:
            self._lifeline.close()
            raise

    def _set_timer(self, in_ms: float, callback: Callable[[], object]) -> None:
        self._cancel_timer()
        self._timer = self.clock.call_at(self.clock.now_ms() + in_ms, callback)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _hear(self, frames: list[bytes]) -> None:
        kind = frames[0]
        if kind == Kind.HELLO:
            self.hub.send(self._identity, [self.model])
        elif kind == Kind.READY:
            self._serve()
        elif kind == Kind.BROKEN and not self.ready.done():
            words = frames[1].decode(errors="replace").strip()
            self.ready.set_exception(ModelFailed(f"deploy: {self.name} cannot be made: {words}"))
        elif kind == Kind.RESULTS and self.lane.batch:
            self._results(frames[1:])

    def _serve(self) -> None:
        self._cancel_timer()
        self.is_serving = True
        if not self.ready.done():
            self.ready.set_result(None)
        elif self._has_joined:
            self.dispatcher.add(self.lane)

    def _run(self, batch: list[Query]) -> None:
        dtype, shape = batch[0].group
        data = b"".join([query.x for query in batch])
        self.hub.send(self._identity, pack_array(dtype, (len(batch), *shape), data))
        self._set_timer(self.hang_ms, self._ended)

    def _results(self, frames: list[bytes]) -> None:
        try:
            results, errors, took_ms = unpack_results(*frames)
            if len(results) + len(errors) != len(self.lane.batch):
                raise ValueError("another number of results")
        except (ValueError, KeyError, TypeError):  # it does not speak as ours do
            self._ended()
            return
        self._cancel_timer()
        self._wait_ms = FIRST_WAIT_MS
        batch = self.dispatcher.finished(self.lane, took_ms)
        self.done(batch, results, errors)
        if self._is_over:
            self.stop()

    def _ended(self) -> None:
        """Clear up after a process that is gone, or that is to go; start the next one later."""
        self._end_process()
        if not self.ready.done():
            words = f"deploy: the container of {self.name} ended as it started."
            self.ready.set_exception(ModelFailed(words))
            return
        lane, self.lane = self.lane, Lane(self.make_controller(), self._run)
        words = f"predict: the container of {self.name} ended with the query."
        self.dispatcher.failed(lane, ContainerDied(words))
        if not self._is_over:
            self.restarts += 1
            self._set_timer(self._wait_ms, self._start)
            self._wait_ms = min(2 * self._wait_ms, LONGEST_WAIT_MS)

    def _end_process(self) -> None:
        self.is_serving = False
        self._cancel_timer()
        if self._process is None:
            return
        self.hub.hears.pop(self._identity, None)
        self.hub.loop.remove_reader(self._lifeline)
        self._lifeline.close()
        process, self._process = self._process, None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, 9)  # what the model has started goes with it
        process.kill()
        process.wait(END_S)

    def retire(self) -> None:
        """Take no more batches, and end when the last is done."""
        self._is_over = True
        self.dispatcher.remove(self.lane)
        if not self.lane.batch:
            self.stop()

    def stop(self) -> None:
        """End now."""
        self._is_over = True
        self.dispatcher.remove(self.lane)
        self._end_process()
        if not self.ready.done():
            self.ready.set_exception(ServeError(f"deploy: {self.name} was stopped as it started."))
        self.ready.exception()  # for nobody else may ask
