"""Inside the wall: runs statements and answers the judge's requests, one at a time.

The judge sends `(id, verb, payload)`; the worker answers `(id, status, ...)`:

    (id, "ok", value)                       plain data
    (id, "raised", type, message, trace, where)     the learner's code raised; text only
    (id, "absent", message)                 not attempted

The learner's code shares this process and can say anything in its name. That is allowed for: the
worker holds no expected value, no check and no score, and the judge believes nothing but data.
"""

import contextlib
import ctypes
import importlib
import marshal
import os
import random
import resource
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from autograder.errors import NotAttempted, NotPlainData, StudentError
from autograder.records import Statement
from autograder.sandbox import wire
from autograder.sandbox.endpoint import Endpoint
from autograder.student.local import LocalStudent, notebook_names, probe_function, text_of
from autograder.student.withheld import MARK, refuse_reading, withhold

MAX_TEXT = 20_000  # characters of a message or a traceback
PROBE = "__probe__"
GPU = Path("/dev/nvidiactl")  # is there if any GPU is


def main() -> None:
    """Be pid 1, and the worker its child: `argv` is the descriptor of the socket to the judge.

    Exits as the worker did, or with 128 and the signal that ended it.
    """
    connection = socket.socket(fileno=int(sys.argv[1]))
    child = os.fork()
    if child != 0:
        connection.close()
        how = wait_as_init(child)
        os._exit(how if how >= 0 else 128 - how)
    config = wire.receive(connection)
    apply_limits(config["limits"], user_processes=config["user_processes"])
    serve(connection, config)


def serve(connection: socket.socket, config: Mapping[str, Any]) -> None:
    """Import what `config["preload"]` names, say hello, and answer requests until the end."""
    preload(config["preload"])
    reseed()
    sys.path.insert(0, "")  # a notebook imports what it has written
    worker = Worker(connection)
    worker.answer(0, "ok", os.getpid())
    try:
        while True:
            worker.step()
    except EOFError:  # the judge has hung up
        os._exit(0)


def preload(modules: list[str]) -> None:
    """Import these modules; one that is not there is the learner's `import` to miss.

    What stands in a module, "module:name", is withheld from this process and its copies.
    """
    for name in (name for name in modules if MARK not in name):
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"preload: {name}: {error}", file=sys.stderr)
    names = [name for name in modules if MARK in name]
    if names:
        withhold([*names, "_posixsubprocess:fork_exec"], refuse_reading())


def reseed() -> None:
    """Give this process random numbers of its own: workers of one zygote begin as copies."""
    random.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    torch = sys.modules.get("torch")
    if torch is not None:  # its own `seed` looks for devices, which takes longer than all else here
        (torch.seed if GPU.exists() else torch.default_generator.seed)()


class Worker:
    """One learner's namespace and the socket to the judge."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        # The learner's names are those of `__main__`, where pickle and get_type_hints look.
        sys.modules["__main__"] = ModuleType("__main__")
        self.space: dict[str, Any] = sys.modules["__main__"].__dict__
        self.space.update(notebook_names())
        self.student = LocalStudent(self.space)
        self.verbs: dict[str, Callable[..., Any]] = {
            "load": self._load,
            "call": lambda name, args, kwargs: self.student.call(name, *args, **kwargs),
            "value": self.student.value,
            "probe": self._probe,
            "compile": self._compile,
            "rank": self._rank,
        }

    def step(self) -> None:
        """Answer one request."""
        request, verb, payload = wire.receive(self.connection)
        try:
            self.answer(request, "ok", self.verbs[verb](*payload))
        except NotAttempted as error:
            self.answer(request, "absent", text_of(error))
        except StudentError as error:
            described = (error.type_name, error.message, error.traceback, error.where)
            self.answer(request, "raised", *described)
        except (NotPlainData, wire.WireError) as error:
            self.answer(request, "raised", "TypeError", text_of(error), "", "")
        except BaseException as error:  # such as from an exception whose __str__ raises
            self.answer(request, "raised", type(error).__name__, text_of(error), "", "")

    def answer(self, request: int, status: str, *parts: Any) -> None:
        """Send one frame; text is cut to what anyone would read."""
        if status != "ok":
            parts = tuple(_clean(part) for part in parts)
        self.connection.sendall(wire.frame((request, status, *parts)))

    def _load(self, text: str, cell: int, line: int) -> list[str] | None:
        """Run one statement; return None, or the type, message and traceback of what it raised."""
        failures = self.student.load([_statement(text, cell, line)])
        if not failures:
            return None
        failure = failures[0]
        return [_clean(t) for t in (failure.type_name, failure.message, failure.traceback)]

    def _compile(self, statements: list[tuple[str, int, int]]) -> bytes:
        """Return the statements with their code, for ranks, without running any."""
        return marshal.dumps([(s, self.student.compile(_statement(*s))) for s in statements])

    def _probe(self, name: str, text: str, inputs: dict[str, Any]) -> Any:
        self.space[PROBE] = probe_function(name, text, self.space)
        return self.student.call(PROBE, **inputs)

    def _rank(
        self,
        statements: bytes,
        rank: int,
        size: int,
        name: str,
        text: str,
        args: tuple[Any, ...],
        communicator: str,
        steps: bool,
    ) -> Any:
        """Run the learner's function `name`, or the probe in `text`, on one rank.

        The statements, from `_compile`, have all run elsewhere; one that fails here leaves its
        names undefined.
        """
        for statement, code in marshal.loads(statements):
            with contextlib.suppress(BaseException):
                self.student.execute(_statement(*statement), code)
        endpoint = Endpoint(self.connection, rank, size, says_steps=steps)
        make = _resolve(communicator)

        function = probe_function(name, text, self.space) if text else self.space.get(name, ...)
        if function is ...:
            raise NotAttempted(f"{name} is not defined.")
        self.space[PROBE] = lambda: function(make(endpoint), *args)
        try:
            return self.student.call(PROBE)
        finally:
            endpoint.close()


def _resolve(communicator: str) -> Callable[[Endpoint], Any]:
    module, _, name = communicator.partition(":")
    try:
        function: Callable[[Endpoint], Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise StudentError(type(error).__name__, f"{communicator}: {error}") from error
    return function


def _statement(text: str, cell: int, line: int) -> Statement:
    return Statement(text, (), (), cell, line)


def _clean(text: Any) -> str:
    """Return text that travels: of bounded length, without half surrogate pairs."""
    return str(text)[:MAX_TEXT].encode("utf-8", "backslashreplace").decode()


OPEN_FILES = 128
MESSAGE_QUEUE_BYTES = 0
SET_DUMPABLE = 4  # prctl
# NumPy and torch reserve more than they touch; twice the limit lets them, and stops one huge array
# as the MemoryError that it is.
RESERVED_OVER_RESIDENT = 2


def apply_limits(limits: Mapping[str, Any], *, user_processes: int = 0) -> None:
    """Set this process's limits; it cannot raise them again, and its children inherit them.

    Each is per process; what one submission uses in all is watched from outside (`watch`).

    `limits` are the fields of `records.Limits`. `user_processes` is what already counts against
    this user where the kernel counts over all namespaces (before Linux 5.14).
    """
    cpu_s = max(1, round(limits["cpu_s"]))
    wanted = {
        resource.RLIMIT_CPU: cpu_s,
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_DATA: RESERVED_OVER_RESIDENT * limits["memory_bytes"],
        resource.RLIMIT_NPROC: limits["processes"] + user_processes,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MSGQUEUE: MESSAGE_QUEUE_BYTES,
        resource.RLIMIT_MEMLOCK: 0,
    }
    for kind, value in wanted.items():
        ceiling = resource.getrlimit(kind)[1]
        allowed = value if ceiling == resource.RLIM_INFINITY else min(value, ceiling)
        resource.setrlimit(kind, (allowed, allowed))


def wait_as_init(child: int) -> int:
    """Collect every process that ends until `child` does; return its exit status.

    That is negative for a signal. Meanwhile no one may look into this process or write to it,
    though it shares a user with the learner's code.
    """
    ctypes.CDLL(None).prctl(SET_DUMPABLE, 0, 0, 0, 0)
    ended, how = 0, 0
    while ended != child:
        ended, how = os.wait()
    return os.waitstatus_to_exitcode(how)
