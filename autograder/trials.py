"""Variants of a lab's solution tried out by `trial_worker` processes, as many as there are cores.

Used by release (does the starter score? is each mistake caught?) and by audit (is each mutant?).
"""

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from autograder.errors import LabError
from autograder.records import Lab, Outcome

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Variant:
    """The code cells of a notebook, and the checks that it is tried with."""

    cells: tuple[str, ...]
    checks: tuple[str, ...]
    seed: int = 0


@dataclass(frozen=True)
class Verdict:
    """What one check said of a variant; `said` is all of it, for staff."""

    check: str
    outcome: Outcome
    broken: bool
    said: str


@dataclass(frozen=True)
class Trial:
    """What all checks said of a variant; `ended` is why it did not come to an end, or empty."""

    verdicts: tuple[Verdict, ...]
    ended: str = ""

    def of(self, check: str) -> Verdict | None:
        """Return what `check` said, or None where it never came to it."""
        return next((v for v in self.verdicts if v.check == check), None)


class Trials:
    """A pool of workers for one lab; a context manager."""

    def __init__(self, lab: Lab, *, jobs: int | None = None, timeout_s: float = 60.0) -> None:
        self._lab = lab
        self._timeout_s = timeout_s
        self._jobs = jobs or len(os.sched_getaffinity(0))
        self._idle: queue.SimpleQueue[subprocess.Popen[str]] = queue.SimpleQueue()
        self._started: list[subprocess.Popen[str]] = []
        self._lock = threading.Lock()
        self._directory = tempfile.TemporaryDirectory(prefix="autograder-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self._started:
            _close(worker)
        self._directory.cleanup()

    def run(self, variants: Sequence[Variant]) -> list[Trial]:
        """Return what became of each variant, in order."""
        with ThreadPoolExecutor(self._jobs) as pool:
            return list(pool.map(self._run, variants))

    def _run(self, variant: Variant) -> Trial:
        worker = self._take()
        try:
            return self._ask(worker, variant)
        finally:
            self._idle.put(worker)

    def _take(self) -> subprocess.Popen[str]:
        with self._lock:
            if len(self._started) < self._jobs and self._idle.empty():
                worker = _start(self._lab.directory, self._directory.name)
                self._started.append(worker)
                return worker
        return self._idle.get()

    def _ask(self, worker: subprocess.Popen[str], variant: Variant) -> Trial:
        request = {
            "cells": variant.cells,
            "checks": variant.checks,
            "seed": variant.seed,
            "timeout_s": self._timeout_s,
        }
        assert worker.stdin is not None and worker.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            worker.stdin.write(json.dumps(request) + "\n")
            worker.stdin.flush()
        line = worker.stdout.readline()
        if not line:
            text = worker.stderr.read().strip() if worker.stderr else ""
            raise LabError(f"{self._lab.name}: its trial process ended: {text[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return Trial(tuple(_verdicts(answer["results"])), answer.get("ended", ""))


def _verdicts(results: Sequence[dict[str, Any]]) -> Iterator[Verdict]:
    for found in results:
        yield Verdict(found["name"], Outcome(found["outcome"]), found["broken"], found["said"])


def _start(lab: Path, directory: str) -> subprocess.Popen[str]:
    home = str(Path(__file__).parent.parent)
    environment = {**os.environ, **dict.fromkeys(_ONE_THREAD, "1"), "PYTHONHASHSEED": "0"}
    environment["PYTHONPATH"] = os.pathsep.join([home, *filter(None, [os.getenv("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-m", "autograder.trial_worker", str(lab.resolve())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=directory,
        env=environment,
    )


def _close(worker: subprocess.Popen[str]) -> None:
    with contextlib.suppress(BrokenPipeError):
        if worker.stdin is not None:
            worker.stdin.close()
    try:
        worker.wait(5)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()
    for stream in (worker.stdout, worker.stderr):
        if stream is not None:
            stream.close()
