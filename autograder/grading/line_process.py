"""Processes of ours that answer a JSON line with a JSON line: both ends of the wire.

Each is a Python of its own with one thread per numerical library, in a directory of its own; it
ends when its input closes, so nothing is left when its owner dies. Who is asked when is the
business of `autograder.grading.pool`.

The directory lasts as long as its owner, however that ends (`Scratch`). An owner holds a lock on a
file in it, which the system releases when the owner is gone, by `kill -9` too. Whoever makes the
first folder of a process removes those whose lock nobody holds. A folder gets its name only once it
is locked, so one without a lock has no owner.
"""

import contextlib
import functools
import json
import math
import os
import select
import selectors
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from autograder.locks import hold

_PREFIX = "autograder-"
_LOCK = ".owner"
_NEW = ".autograder-"  # until it is locked
_USER = os.getuid() if hasattr(os, "getuid") else 0
_YOUNG_S = 60.0  # what has no lock yet may be about to get it


class Scratch:
    """A folder in the temporary directory, until `close` or the end of this process."""

    def __init__(self) -> None:
        remove_abandoned(tempfile.gettempdir())
        new = Path(tempfile.mkdtemp(prefix=_NEW))
        self._lock = os.open(new / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        hold(self._lock)
        self.path = new.rename(new.with_name(new.name.removeprefix(".")))

    def close(self) -> None:
        """Remove the folder and all in it; a second call does nothing."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


@functools.lru_cache  # once a process and place
def remove_abandoned(place: str) -> None:
    """Remove this user's folders in `place` whose owners are gone."""
    for path in (*Path(place).glob(f"{_PREFIX}*"), *Path(place).glob(f"{_NEW}*")):
        try:
            status = path.lstat()
            ours = stat.S_ISDIR(status.st_mode) and status.st_uid == _USER
            if ours and _is_abandoned(path, time.time() - status.st_mtime):
                shutil.rmtree(path, ignore_errors=True)
        except OSError:  # gone meanwhile, or not to be looked at
            continue


def _is_abandoned(path: Path, age_s: float) -> bool:
    try:
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:  # of a release without locks, or about to be locked
        return age_s > _YOUNG_S and not any(path.iterdir())
    try:
        hold(lock)
    except OSError:
        return False
    finally:
        os.close(lock)
    return not path.name.startswith(_NEW) or age_s > _YOUNG_S


_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
GOODBYE_S = 5.0  # how long it may take to end once its input, or its output, has closed
_WIND_UP_S = 2.0  # how long it may work on when its owner is gone; less than the owner waits
_LOOK_S = 1.0  # how often to see whether it is over, where a child of its holds the answers open
_POLL_S = 0.005
_CHUNK = 1 << 16  # a pipe holds no more

Request = Mapping[str, Any]
Answer = dict[str, Any]


class ProcessEnded(Exception):
    """The process has ended and there is no answer; the message is what it wrote last.

    `status` is its exit status, None where there was no process to ask; `ours` says that we ended
    it, and `overran` that this was for its time.
    """

    def __init__(
        self, message: str, *, status: int | None = None, ours: bool = True, overran: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.ours = ours
        self.overran = overran


class JobRefused(ProcessEnded):
    """The process answered that it cannot do it, and was ended; the message is its reason.

    `kind` is the class of the error that it met; `fatal` says that no other job can be done either.
    """

    def __init__(self, message: str, kind: str, *, fatal: bool) -> None:
        super().__init__(message)
        self.kind = kind
        self.fatal = fatal


class LineProcess:
    """`python *arguments`, asked one thing at a time.

    What it writes to its error output is kept for its last words, or with `shown` joins ours.
    """

    def __init__(self, arguments: Sequence[str], *, shown: bool = False) -> None:
        self._directory = Scratch()
        self._errors = None if shown else tempfile.TemporaryFile()  # noqa: SIM115  # see close()
        self._ours = False  # we have ended it
        self._reaping = threading.Lock()
        home = str(Path(__file__).parents[2])
        path = os.pathsep.join([home, *filter(None, [os.getenv("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            cwd=self._directory.path,
            env={**os.environ, **dict.fromkeys(_ONE_THREAD, "1"), "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for its owner, which then ends it
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        os.set_blocking(self._input.fileno(), False)

    def ask(self, request: Request, timeout_s: float | None = None) -> Answer:
        """Return the answer to `request`.

        Raises:
            ProcessEnded: it ended, or was ended after `timeout_s` or for nonsense.
        """
        line = json.dumps(request).encode() + b"\n"
        try:
            answer: Answer = json.loads(self._exchange(line, timeout_s))
        except TimeoutError as error:
            self.kill()
            raise self._end(overran=True) from error
        except (EOFError, ValueError) as error:
            raise self._end() from error
        if self._errors is not None:  # a long life has much to say; only its end is of interest
            self._errors.seek(0)
            self._errors.truncate()
        return answer

    def _exchange(self, line: bytes, timeout_s: float | None) -> bytes:
        """Write a line and return the one that comes back."""
        ends = math.inf if timeout_s is None else time.monotonic() + timeout_s
        unsent, received = memoryview(line), bytearray()
        with selectors.DefaultSelector() as ready:
            ready.register(self._input, selectors.EVENT_WRITE)
            ready.register(self._output, selectors.EVENT_READ)
            while not received.endswith(b"\n"):
                left = ends - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                is_readable = ready.select(min(left, _LOOK_S))
                if not is_readable and self.ended:  # and a child that it left holds its output open
                    raise EOFError
                for key, _ in is_readable:
                    if key.fileobj is self._output:
                        received += self._read()
                    elif not (unsent := unsent[self._write(unsent) :]):
                        ready.unregister(self._input)
        return bytes(received)

    def _read(self) -> bytes:
        part = os.read(self._output.fileno(), _CHUNK)
        if not part:
            raise EOFError
        return part

    def _write(self, unsent: memoryview) -> int:
        try:
            return os.write(self._input.fileno(), unsent)
        except BrokenPipeError:  # it has no reader any more; what it said last is still to be read
            return len(unsent)

    @property
    def ended(self) -> bool:
        """Whether the process is over."""
        if self._process.returncode is not None:
            return True
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT  # not reaped: its number stays its own
        return os.waitid(os.P_PID, self._process.pid, how) is not None

    def kill(self) -> None:
        """End it and what it has started at once; whoever waits for its answer is told.

        A child that a check left behind holds the pipe of answers open.
        """
        with self._reaping:
            if self._process.returncode is None:
                self._ours |= not self.ended
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)  # it has a session of its own

    def close(self) -> None:
        """Ask the process to end, and kill it where it does not."""
        self._input.close()
        self._reap()
        self._output.close()
        if self._errors is not None:
            self._errors.close()
        self._directory.close()

    def _reap(self) -> int:
        """Return its exit status, and leave nothing that it has started."""
        ends = time.monotonic() + GOODBYE_S
        while not self.ended and time.monotonic() < ends:
            time.sleep(_POLL_S)
        self.kill()
        with self._reaping:
            return self._process.wait()

    def _end(self, *, overran: bool = False) -> ProcessEnded:
        """Return how it ended, which it does soon: its output has closed, or it was killed."""
        status = self._reap()
        text = ""
        if self._errors is not None:
            self._errors.seek(0)
            text = self._errors.read().decode(errors="replace").strip()
        last_words = text.splitlines()[-1] if text else f"exit status {status}"
        return ProcessEnded(last_words, status=status, ours=self._ours, overran=overran)


def refusal(error: Exception | str, *, fatal: bool) -> Answer:
    """Return the answer that says why there is none."""
    kind = "" if isinstance(error, str) else type(error).__name__
    return {"refused": str(error), "kind": kind, "fatal": fatal}


class Serving:
    """The process's end: answers each line of its input until that closes.

    What is printed meanwhile goes to the error output: it must not be taken for an answer.
    """

    def __init__(self) -> None:
        self._answers = os.dup(1)
        os.dup2(2, 1)

    def run(self, answer: Callable[[Request], Answer]) -> None:
        """Answer every line by `answer`."""
        for line in sys.stdin:
            self.send(answer(json.loads(line)))

    def send(self, answer: Answer) -> None:
        """Write an answer."""
        unsent = memoryview(json.dumps(answer).encode() + b"\n")
        try:
            while unsent:
                unsent = unsent[os.write(self._answers, unsent) :]
        except BrokenPipeError:
            os._exit(1)  # the owner is gone

    def end_with_owner(self) -> None:
        """End even in the middle of an answer once the input has closed: the owner is gone."""
        threading.Thread(target=_outlive_owner, daemon=True).start()


def _outlive_owner() -> None:
    closed = select.poll()
    closed.register(0, 0)  # nothing but that the other end has hung up
    closed.poll()
    time.sleep(_WIND_UP_S)
    os._exit(1)  # it hangs
