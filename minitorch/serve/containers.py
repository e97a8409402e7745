"""Containers from the front's side: started, watched, killed, started again. The only starter.

    starting -> ready <-> busy -> dead -> (back-off) -> starting

A container is dead when its socket closes, and is killed when it is busy for longer than it may be.
What it was busy with is handed back at once; the restart waits, twice as long after each failure.

May import: clock, counts, errors, extras, wire; cloudpickle, zmq inside functions.
"""

import asyncio
import contextlib
import os
import secrets
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from minitorch.errors import ArgumentError, ModelFailed, ServeError
from minitorch.extras import describe_missing
from minitorch.serve.clock import Call, Clock, Timer
from minitorch.serve.counts import Counts
from minitorch.serve.wire import BROKEN, HELLO, READY, RESULTS

FIRST_WAIT_MS, LONGEST_WAIT_MS = 50.0, 5_000.0
START_MS = 120_000.0  # to start and to load the model
PROGRAM = "import sys; sys.path[:] = {!r}; from minitorch.serve.container import main; {}"
INSTALLED = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[1]))


def check_model(name: str, model: object) -> None:
    """Raise ArgumentError where this cannot be a model."""
    if not callable(model) and not hasattr(model, "predict"):
        raise ArgumentError(
            f"deploy: {name}: got {type(model).__name__}, expected a function of a batch, a "
            "function that makes one, a module, or an object with predict."
        )


def pickle_model(model: object) -> bytes:
    """Return the model for a fresh process that has this one's `sys.path`.

    What is of a script, a notebook, or any module that is not installed is sent with its code,
    since the container may not be able to import it; what is installed is sent by name.
    """
    import cloudpickle

    name = getattr(model, "__module__", None) or type(model).__module__
    module = sys.modules.get(name)
    is_installed = (getattr(module, "__file__", None) or sys.prefix).startswith(INSTALLED)
    by_value = not is_installed and name != "__main__"  # to which cloudpickle sees itself
    if by_value:
        cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(model))
    except Exception as error:
        raise ArgumentError(
            f"deploy: the model cannot be pickled: {type(error).__name__}: {error}. Give a factory "
            "that makes it in the container."
        ) from error
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)


class Hub:
    """The front's socket: frames to containers and from them, by identity.

    The address leaves no file behind (Linux's abstract namespace), but every user of the machine
    can reach it: so an identity is 16 random bytes that only its container is told.
    """

    def __init__(self) -> None:
        try:
            import cloudpickle  # noqa: F401 (told now, and not at the first deploy)
            import zmq
        except ImportError as error:
            raise ModuleNotFoundError(describe_missing("Server", "serve", error)) from error
        self._zmq = zmq
        self.address = f"ipc://@minitorch-serve-{secrets.token_hex(16)}"
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        # before bind, which each connection takes it from: one that breaks as the front closes
        # would otherwise wait for ever to send what it holds, and closing would wait for it
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.setsockopt(zmq.SNDHWM, 0)
        self._socket.bind(self.address)
        self._fd = int(self._socket.getsockopt(zmq.FD))
        self.hears: dict[bytes, Callable[[list[bytes]], None]] = {}
        self.containers: set[Container] = set()
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
            if frames and identity in self.hears:
                self.hears[identity](frames)

    def close(self) -> None:
        """End all containers, and close the socket."""
        for container in [*self.containers]:
            container.stop()
        self.loop.remove_reader(self._fd)
        self._context.destroy(linger=0)


class Container(ABC):
    """A process that runs a model, or the wait for the next one.

    What it does for its model a subclass says: it is told of each change, and sends the work.
    `ready` is done when the first process is; its exception says why it will never be.
    """

    program = "main()"  # what its process does, beside `minitorch.serve.container`

    def __init__(self, name: str, data: bytes, hub: Hub, clock: Clock, counts: Counts) -> None:
        self.ready: asyncio.Future[None] = hub.loop.create_future()
        self.is_serving = False  # whether its process takes work
        self._name, self._data, self._hub = name, data, hub
        self._clock, self._counts = clock, counts
        self._is_over = False
        self._wait_ms = FIRST_WAIT_MS
        self._timer: Timer = Call(self._clear_up)  # of which no clock knows: none yet
        self._lifeline: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        hub.containers.add(self)
        self._start()

    @abstractmethod
    def join(self) -> None:
        """Take work, where it is ready and of the version that answers."""

    @abstractmethod
    def _take_results(self, frames: list[bytes]) -> None:
        """Take what the process has answered."""

    @abstractmethod
    def _return_work(self) -> None:
        """Hand back the work with which the process has ended."""

    def _send(self, frames: list[bytes], within_ms: float) -> None:
        """Give the process work; it is killed when that takes longer."""
        self._hub.send(self._identity, frames)
        self._set_timer(within_ms, self._clear_up)

    def _start(self) -> None:
        self._identity = secrets.token_bytes(16)
        code = PROGRAM.format(sys.path, self.program)
        program = [sys.executable, "-c", code, self._hub.address]
        try:
            self._lifeline, theirs = socket.socketpair()
            with theirs:
                self._process = subprocess.Popen(
                    [*program, self._identity.hex()], stdin=theirs.fileno(), start_new_session=True,
                    env={"OMP_NUM_THREADS": "1", **os.environ},  # one core a container
                )  # fmt: skip
        except OSError:  # no process, no descriptor free
            self._clear_up()
            return
        self._lifeline.setblocking(False)
        self._hub.hears[self._identity] = self._hear
        self._hub.loop.add_reader(self._lifeline, self._clear_up)
        self._set_timer(START_MS, self._clear_up)

    def _set_timer(self, in_ms: float, callback: Callable[[], object]) -> None:
        self._timer.cancel()
        self._timer = self._clock.call_at(self._clock.now_ms() + in_ms, callback)

    def _hear(self, frames: list[bytes]) -> None:
        kind = frames[0]
        if kind == HELLO:
            self._hub.send(self._identity, [self._data])
        elif kind == READY:
            self._timer.cancel()
            self.is_serving = True
            if not self.ready.done():
                self.ready.set_result(None)
            self.join()
        elif kind == BROKEN and not self.ready.done():
            words = frames[1].decode(errors="replace").strip()
            self.ready.set_exception(ModelFailed(f"deploy: {self._name} cannot be made: {words}"))
        elif kind == RESULTS:
            self._timer.cancel()
            self._wait_ms = FIRST_WAIT_MS
            self._take_results(frames[1:])

    def _clear_up(self) -> None:
        """Clear up after a process that is gone, or that is to go; start the next one later."""
        self._end_process()
        if not self.ready.done():
            self.ready.set_exception(ModelFailed(f"deploy: {self._name} ended as it started."))
            return
        self._return_work()
        if self._is_over:
            self.stop()
            return
        self._counts.restarts += 1
        self._set_timer(self._wait_ms, self._start)
        self._wait_ms = min(2 * self._wait_ms, LONGEST_WAIT_MS)

    def _end_process(self) -> None:
        self.is_serving = False
        self._timer.cancel()
        self._hub.hears.pop(self._identity, None)
        if self._lifeline is not None:
            self._hub.loop.remove_reader(self._lifeline)
            self._lifeline.close()
            self._lifeline = None
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, 9)  # what the model has started goes with it
        process.kill()
        process.wait(5)

    def stop(self) -> None:
        """End now."""
        self._is_over = True
        self._end_process()
        self._hub.containers.discard(self)
        if not self.ready.done():
            self.ready.set_exception(ServeError(f"deploy: {self._name} was stopped as it started."))
        self.ready.exception()  # for nobody else may ask
