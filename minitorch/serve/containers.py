"""Containers from the front's side: started, watched, killed, started again. The only starter.

    starting -> ready <-> busy -> dead -> (back-off) -> starting

A container is dead when its socket closes, and is killed when a batch takes longer than `hang_ms`.
Its queries go back to the dispatcher at once; the restart waits, twice as long after each failure.

May import: NumPy, batching, clock, dispatch, errors, extras, wire; cloudpickle, zmq inside
functions.
"""

import asyncio
import contextlib
import os
import secrets
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from minitorch.errors import ArgumentError, ContainerDied, ModelFailed, ServeError
from minitorch.extras import missing
from minitorch.serve.batching import Controller
from minitorch.serve.clock import Call, Timer
from minitorch.serve.dispatch import Dispatcher, Lane, Query
from minitorch.serve.wire import BROKEN, HELLO, READY, RESULTS, pack_array, unpack_results

FIRST_WAIT_MS, LONGEST_WAIT_MS = 50.0, 5_000.0
START_MS = 120_000.0  # to start and to load the model
WINDOW = 4096  # the latencies that quantiles are taken of
COUNTERS = ("served", "late", "failed", "batches", "cache_hits", "restarts")
PROGRAM = "import sys; sys.path[:] = {!r}; from minitorch.serve.container import main; main()"
INSTALLED = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[1]))


def shipped(model: object) -> bytes:
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
            raise ModuleNotFoundError(missing("Server", "serve", error)) from error
        self._zmq = zmq
        self.address = f"ipc://@minitorch-serve-{secrets.token_hex(16)}"
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
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


@dataclass(slots=True)
class Counts:
    """What has happened to one model's queries."""

    served: int = 0  # answered by it in time
    late: int = 0
    failed: int = 0  # on which it raised, or ended
    batches: int = 0
    queries: int = 0  # computed, in all batches
    cache_hits: int = 0  # also of queries that joined an equal one
    restarts: int = 0  # processes that have followed one that ended
    latency_ms: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))

    def as_dict(self) -> dict[str, object]:
        """Return them as `Server.metrics` says them."""
        p50, p99 = np.quantile(self.latency_ms, (0.5, 0.99)) if self.latency_ms else (0.0, 0.0)
        mean = self.queries / self.batches if self.batches else 0.0
        told = {name: getattr(self, name) for name in COUNTERS}
        return told | {"mean_batch": mean, "latency_ms": {"p50": float(p50), "p99": float(p99)}}


@dataclass(eq=False)
class Model:
    """A deployed model: its queue, its containers, what was counted."""

    name: str
    dispatcher: Dispatcher
    make_controller: Callable[[], Controller]
    hang_ms: float
    version: int = 0
    counts: Counts = field(default_factory=Counts)
    containers: "list[Container]" = field(default_factory=list)
    deploying: asyncio.Lock = field(default_factory=asyncio.Lock)

    def replace(self, fresh: "list[Container]") -> None:
        """Have the containers of a new version answer, and the old ones end."""
        old, self.containers = self.containers, fresh
        self.version += 1
        for container in fresh:
            container.join()
        for container in old:
            container.retire()


class Container:
    """One replica of a model: a process, or the wait for the next.

    `ready` is done when the first process is; its exception says why it will never be.
    """

    def __init__(self, model: Model, data: bytes, hub: Hub) -> None:
        self.ready: asyncio.Future[None] = hub.loop.create_future()
        self.is_serving = False  # whether its process takes batches
        self._model, self._name, self._data, self._hub = model, model.name, data, hub
        self._lane = Lane(model.make_controller(), self._run)
        self._is_over = False
        self._wait_ms = FIRST_WAIT_MS
        self._timer: Timer = Call(self._ended)  # of which no clock knows: none yet
        self._lifeline: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        hub.containers.add(self)
        self._start()

    def join(self) -> None:
        """Take batches, where it is ready and of the version that answers."""
        if self.is_serving and self in self._model.containers:
            self._model.dispatcher.add(self._lane)

    def _start(self) -> None:
        self._identity = secrets.token_bytes(16)
        program = [sys.executable, "-c", PROGRAM.format(sys.path), self._hub.address]
        try:
            self._lifeline, theirs = socket.socketpair()
            with theirs:
                self._process = subprocess.Popen(
                    [*program, self._identity.hex()], stdin=theirs.fileno(), start_new_session=True,
                    env={"OMP_NUM_THREADS": "1", **os.environ},  # one core a container
                )  # fmt: skip
        except OSError:  # no process, no descriptor free
            self._ended()
            return
        self._lifeline.setblocking(False)
        self._hub.hears[self._identity] = self._hear
        self._hub.loop.add_reader(self._lifeline, self._ended)
        self._set_timer(START_MS, self._ended)

    def _set_timer(self, in_ms: float, callback: Callable[[], object]) -> None:
        self._timer.cancel()
        clock = self._model.dispatcher.clock
        self._timer = clock.call_at(clock.now_ms() + in_ms, callback)

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
        elif kind == RESULTS and self._lane.batch:
            self._results(frames[1:])

    def _run(self, batch: list[Query]) -> None:
        dtype, shape = batch[0].group
        data = b"".join([query.x for query in batch])
        self._hub.send(self._identity, pack_array(dtype, (len(batch), *shape), data))
        self._set_timer(self._model.hang_ms, self._ended)

    def _results(self, frames: list[bytes]) -> None:
        results, errors, took_ms = unpack_results(*frames)
        self._timer.cancel()
        self._wait_ms = FIRST_WAIT_MS
        batch = self._model.dispatcher.finished(self._lane, took_ms)
        self._model.counts.batches += 1
        self._model.counts.queries += len(batch)
        left = iter(results)
        for at, query in enumerate(batch):
            if at in errors:
                blamed, words = errors[at]
                query.answer(None, ModelFailed(f"predict: {self._name}: {words}", blamed))
            else:
                query.answer(next(left), None)
        if self._is_over:
            self.stop()

    def _ended(self) -> None:
        """Clear up after a process that is gone, or that is to go; start the next one later."""
        self._end_process()
        if not self.ready.done():
            self.ready.set_exception(ModelFailed(f"deploy: {self._name} ended as it started."))
            return
        lane, self._lane = self._lane, Lane(self._model.make_controller(), self._run)
        words = f"predict: the container of {self._name} ended with the query."
        self._model.dispatcher.failed(lane, ContainerDied(words))
        if self._is_over:
            self.stop()
            return
        self._model.counts.restarts += 1
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

    def retire(self) -> None:
        """Take no more batches, and end when the last is done."""
        self._is_over = True
        self._model.dispatcher.remove(self._lane)
        if not self._lane.batch:
            self.stop()

    def stop(self) -> None:
        """End now."""
        self._is_over = True
        self._model.dispatcher.remove(self._lane)
        self._end_process()
        self._hub.containers.discard(self)
        if not self.ready.done():
            self.ready.set_exception(ServeError(f"deploy: {self._name} was stopped as it started."))
        self.ready.exception()  # for nobody else may ask
