"""The process that grades for the server: `python -m autograder.service.grading_process LABS`.

Reads a line `{"lab": name, "size": n}` and n bytes of notebook, writes a line `{"report": ...}`
or `{"error": "..."}`, and again. It ends at once when its input closes, because then the server
is gone; the sandbox dies with it. Without a second argument "unsandboxed" it grades in bubblewrap
or not at all.
"""

import json
import os
import queue
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from autograder.authoring.source import SOURCE, load_lab
from autograder.errors import AutograderError
from autograder.grading.grade import CHECKS, Grader
from autograder.sandbox.worker_pool import Supply

Requests = queue.SimpleQueue[tuple[str, bytes]]


def main() -> None:
    """Serve requests until the input closes."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a stray print must not be taken for an answer
    requests: Requests = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, requests), daemon=True).start()
    sys.addaudithook(partial(_say_who_kills, answers))
    wall = None if "unsandboxed" in sys.argv[2:] else WALL
    bench = Bench(Path(sys.argv[1]), Supply(wall=wall))
    while True:
        answers.write(json.dumps(bench.answer(*requests.get())).encode() + b"\n")
        answers.flush()


WALL = "bubblewrap"


def _say_who_kills(answers: BinaryIO, event: str, arguments: tuple[Any, ...]) -> None:
    """Answer before this process sends itself a signal: that is no kill from outside."""
    if event in ("os.kill", "os.killpg") and arguments[0] in (0, os.getpid()) and arguments[1]:
        error = {"error": f"the grading process sent itself signal {arguments[1]:d}"}
        answers.write(json.dumps(error).encode() + b"\n")
        answers.flush()


def _read(stream: BinaryIO, requests: Requests) -> None:
    while line := stream.readline():
        head = json.loads(line)
        requests.put((head["lab"], stream.read(head["size"])))
    os._exit(0)


class Bench:
    """The labs of one directory, each made ready once and again when its files change."""

    def __init__(self, labs: Path, source: Supply) -> None:
        self._labs = labs
        self._source = source
        self._ready: dict[str, tuple[tuple[int, ...], Grader]] = {}

    def answer(self, lab: str, notebook: bytes) -> dict[str, Any]:
        """Return the report on a notebook, or the error that prevented it, as plain data."""
        try:
            report = self._grader(self._labs / lab).grade(notebook)
        except (AutograderError, OSError) as error:  # whose fault it is, the queue finds out
            return {"error": f"{type(error).__name__}: {error}"}
        return {"report": report.to_dict()}

    def _grader(self, lab: Path) -> Grader:
        stamp = tuple((lab / name).stat().st_mtime_ns for name in (SOURCE, CHECKS))
        found = self._ready.get(lab.name)
        if found is None or found[0] != stamp:
            found = self._ready[lab.name] = (stamp, Grader(load_lab(lab), source=self._source))
        return found[1]


if __name__ == "__main__":
    main()
