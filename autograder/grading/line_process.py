"""Helper processes of ours that answer a JSON line with a JSON line, and a pool of them.

Each runs a module of this package, with one thread per numerical library, in a directory of its
own; it ends when its input closes, so nothing is left when its owner dies.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
GOODBYE_S = 5.0  # how long it may take to end once its input has closed


class ProcessEnded(Exception):
    """The process ended instead of answering; the message is what it wrote last."""


class LineProcess:
    """`python -m module *arguments`, asked one thing at a time."""

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="autograder-")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed by close()
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=self._directory.name,
            env=_environment(),
            start_new_session=True,  # Ctrl-C is for its owner, which then ends it
        )

    def ask(self, request: dict[str, Any], timeout_s: float | None = None) -> dict[str, Any]:
        """Return the answer to `request`.

        Raises:
            ProcessEnded: it ended, or was ended after `timeout_s`.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        timer = threading.Timer(timeout_s, self.kill) if timeout_s else None
        if timer is not None:
            timer.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(json.dumps(request) + "\n")
                self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:
            if timer is not None:
                timer.cancel()
        if not line.endswith("\n"):
            raise ProcessEnded(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        return answer

    @property
    def ended(self) -> bool:
        """Whether the process is over."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """End it and what it has started at once; whoever waits for its answer is told.

        A child that a check left behind holds the pipe of answers open.
        """
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # it has a session of its own

    def close(self) -> None:
        """Let it end; end it where it does not."""
        with contextlib.suppress(BrokenPipeError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(GOODBYE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()
        self._directory.cleanup()

    def _last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace").strip()
        return text.splitlines()[-1] if text else f"exit status {code}"


class LinePool:
    """Up to `most` processes, started when one is wanted and none idle; safe between threads."""

    def __init__(self, start: Callable[[], LineProcess], most: int) -> None:
        self._start = start
        self._started: list[LineProcess] = []
        self._idle: queue.SimpleQueue[LineProcess | None] = queue.SimpleQueue()
        for _ in range(most):
            self._idle.put(None)

    def ask(self, request: dict[str, Any], timeout_s: float | None = None) -> dict[str, Any]:
        """Return the answer of a process that has nothing else to do; waits for one.

        Raises:
            ProcessEnded: it ended, or was ended after `timeout_s`; another takes its place.
        """
        process = self._idle.get()
        try:
            if process is None:
                process = self._start()
                self._started.append(process)
            answer = process.ask(request, timeout_s)
        except BaseException as error:
            self._idle.put(None)
            if process is not None:
                self._started.remove(process)
                if not isinstance(error, ProcessEnded):
                    process.kill()  # its answer to this must not be taken for the next one's
                process.close()
            raise
        self._idle.put(process)
        return answer

    @property
    def running(self) -> int:
        """How many processes there are now."""
        return sum(not process.ended for process in self._started)

    def kill(self) -> None:
        """End all processes at once; whoever waits for an answer is told."""
        for process in list(self._started):
            process.kill()

    def close(self) -> None:
        """Let all processes end; call it when nobody asks any more."""
        while self._started:
            self._started.pop().close()


def _environment() -> dict[str, str]:
    home = str(Path(__file__).parents[2])
    path = os.pathsep.join([home, *filter(None, [os.getenv("PYTHONPATH")])])
    return {**os.environ, **dict.fromkeys(_ONE_THREAD, "1"), "PYTHONPATH": path}
