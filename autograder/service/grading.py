"""Grading in a process of its own, so that what kills the judge does not kill the server.

The server's side. One `ProcessGrader` keeps one process (`grading_process`), gives it a notebook
at a time, and starts another when it died or overran. The process ends when the server does,
however that happens: its standard input closes.
"""

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Protocol

from autograder.records import Report
from autograder.service.errors import GraderDied, GraderKilled

# Signals that nobody sends to themselves by mistake, unlike those of a crash.
_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)

_LAST_STEPS_S = 5.0  # from a process's last output to its end


class Grader(Protocol):
    """Whoever turns a notebook into a report."""

    def grade(self, lab: str, notebook: bytes) -> Report:
        """Return the report on `notebook`.

        Raises:
            GraderDied: there is no report, and it may be the notebook's fault.
            GraderKilled: there is none, and it is not.
            GraderUnable: nor would there be one on any other notebook of this lab.
        """
        ...

    def close(self) -> None:
        """Let go of everything; a `grade` under way in another thread raises `GraderDied`."""
        ...


class ProcessGrader:
    """Grades in a child process. `command` speaks the protocol of `grading_process`."""

    def __init__(self, command: list[str], *, timeout_s: float) -> None:
        self._command = command
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._spent = False  # it has failed, and another is to take its place
        self._closed = False
        self._lock = threading.Lock()  # around the choice of the process
        self._in_use = threading.Lock()  # while a notebook is graded

    @classmethod
    def for_labs(
        cls, labs: Path, *, timeout_s: float, unsandboxed: bool = False
    ) -> "ProcessGrader":
        """Return a grader of the labs in `labs` that gives each submission `timeout_s`."""
        command = [sys.executable, "-m", "autograder.service.grading_process", str(labs)]
        return cls([*command, *["unsandboxed"] * unsandboxed], timeout_s=timeout_s)

    def grade(self, lab: str, notebook: bytes) -> Report:
        """Return the report on `notebook`; see `Grader`."""
        with self._in_use:
            return self._grade(lab, notebook)

    def _grade(self, lab: str, notebook: bytes) -> Report:
        process = self._running()
        out_of_memory = _out_of_memory()
        head = json.dumps({"lab": lab, "size": len(notebook)}).encode() + b"\n"
        try:
            assert process.stdin is not None
            timer = threading.Timer(self._timeout_s, process.kill)  # where it does not read
            timer.start()
            try:
                process.stdin.write(head + notebook)
                process.stdin.flush()
            finally:
                timer.cancel()
            answer = json.loads(self._answer(process))
        except TimeoutError as error:
            raise GraderDied(f"{_ended(process)}: {error}") from error
        except (OSError, ValueError, EOFError) as error:
            raise self._death(process, out_of_memory) from error
        if "error" in answer:
            self._spent = True  # the next begins with nothing of what went wrong here
            raise GraderDied(answer["error"])
        return Report.from_dict(answer["report"])

    def close(self) -> None:
        """End the process; every later `grade` raises `GraderDied`.

        A `grade` under way sees its process die and returns first: closing a pipe that it waits
        on would leave it waiting.
        """
        with self._lock:
            self._closed = True
            process = self._process
        if process is not None:
            process.kill()
            with self._in_use:
                _end(process)

    def _running(self) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._closed:
                raise GraderDied("the server is stopping")
            if self._process is not None and (self._spent or self._process.poll() is not None):
                _end(self._process)
                self._process, self._spent = None, False
            if self._process is None:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,  # Ctrl-C is the server's to handle
                )
            return self._process

    def _answer(self, process: "subprocess.Popen[bytes]") -> bytes:
        """Return the next line of the process.

        Raises:
            EOFError: it ended.
            TimeoutError: `timeout_s` passed; the process has been killed.
        """
        assert process.stdout is not None
        deadline = time.monotonic() + self._timeout_s
        parts: list[bytes] = []
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            while not (parts and parts[-1].endswith(b"\n")):
                if not ready.select(deadline - time.monotonic()):
                    _end(process)
                    raise TimeoutError(f"no answer in {self._timeout_s:.0f} s")
                part = os.read(process.stdout.fileno(), 1 << 16)
                if not part:
                    raise EOFError("the process closed its output")
                parts.append(part)
        return b"".join(parts)

    def _death(self, process: "subprocess.Popen[bytes]", out_of_memory: int | None) -> GraderDied:
        """Return how the process ended.

        A judge that sends itself a signal says so first (`grading_process`), and one that the
        system ended for its memory is counted there: what is left was killed from outside.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):  # it only closed its pipes: our kill
            process.wait(_LAST_STEPS_S)
        outside = process.returncode in _FROM_OUTSIDE and not self._closed
        said = _ended(process)
        if outside and out_of_memory is not None and _out_of_memory() == out_of_memory:
            return GraderKilled(said)
        return GraderDied(said)


def _ended(process: "subprocess.Popen[bytes]") -> str:
    _end(process)
    return f"the grading process ended with status {process.returncode}"


def _out_of_memory() -> int | None:
    """Return how many processes this machine has ended for want of memory, if it says so."""
    try:
        found = re.search(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill, wait, and close the pipes: nothing is left behind."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                continue  # what was still to be written has no reader any more
