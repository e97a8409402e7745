"""Runs variants of a lab's own solution, a fork each.

`python -m autograder.audit.variant_worker LAB`, started by `variants`.

For the lab's author only: what runs here is ours, so there is no sandbox, but a variant that
hangs, exits or eats memory costs nothing but itself. A request is
`{"cells": [...], "checks": [...], "seed": n, "timeout_s": s}`, an answer `{"results": [...]}`.
"""

import contextlib
import functools
import gc
import importlib
import inspect
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from autograder.authoring.source import load_lab
from autograder.grading.grade import LabGrader
from autograder.grading.line_process import Answer, Request, Serving
from autograder.grading.slicing import Analysed, select_needed, statements_of
from autograder.sandbox.zygote import collapse_heap
from autograder.student.local import LocalStudent
from autograder.student.protocol import COMMUNICATOR
from autograder.student.withheld import withhold

MAX_MEMORY_BYTES = 8 << 30  # address space; torch alone reserves three of them


def main() -> None:
    """Serve variants until the input closes."""
    gc.disable()  # what is imported stays
    ours = load_lab(Path(sys.argv[1]))
    grader = LabGrader(ours, open_student=lambda _: contextlib.nullcontext(LocalStudent()))
    withhold(grader.checks.settings.withheld)
    serving = Serving()
    _preload(grader)
    gc.freeze()
    gc.enable()
    collapse_heap()  # a lab has a hundred variants and more
    serving.run(functools.partial(_trial, grader))


def _preload(grader: LabGrader) -> None:
    """Import what the solution's statements and its ranks import, once, not in every fork."""
    roots = {name for task in grader.tasks for name in task.question.defines}
    for statement in select_needed(grader.solution, roots | grader.names):
        words = statement.text.split()
        if words[0] in ("import", "from"):
            with contextlib.suppress(ImportError):
                importlib.import_module(words[1].split(",")[0])
    with contextlib.suppress(ImportError):
        importlib.import_module(COMMUNICATOR.partition(":")[0])
    for task in grader.tasks[:1]:  # a probe's text is read so: what that compiles and keeps, too
        inspect.getsource(task.check.function)


@functools.cache
def _statements(text: str, number: int) -> tuple[Analysed, ...]:
    """Return the statements of the `number`-th cell: variants differ in one cell, or two."""
    return tuple(statements_of([*[("markdown", "")] * (number - 1), ("code", text)]))


def _trial(grader: LabGrader, request: Request) -> Answer:
    """Return what a forked child finds, or that it was ended."""
    numbered = enumerate(request["cells"], 1)
    statements = [data for number, text in numbered for data in _statements(text, number)]
    imported_before = frozenset(sys.modules)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _run_child(grader, statements, request, writer, imported_before)
    os.close(writer)
    ends = time.monotonic() + request["timeout_s"]
    data = b"".join(_chunks(reader, ends))
    os.close(reader)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        answer = json.loads(data)
    except ValueError:
        return {"results": [], "ended": "by the time limit" if time.monotonic() > ends else "early"}
    _import(answer["imported"])
    return {"results": answer["results"]}


def _import(names: Sequence[str]) -> None:
    """Import what a trial has imported, such as what torch puts off, for all that come after."""
    for name in names:
        with contextlib.suppress(Exception):  # not every name of a module can be imported by it
            importlib.import_module(name)


def _chunks(reader: int, ends: float) -> Iterator[bytes]:
    while (left := ends - time.monotonic()) > 0:
        ready, _, _ = select.select([reader], [], [], left)
        chunk = os.read(reader, 1 << 16) if ready else b""
        if not chunk:
            return
        yield chunk


def _run_child(
    grader: LabGrader,
    statements: Sequence[Analysed],
    request: Request,
    writer: int,
    imported_before: frozenset[str],
) -> None:
    try:
        with contextlib.suppress(ProcessLookupError):
            os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
        quiet = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(quiet, descriptor)
        gc.freeze()  # what was there before any answer is no thief's find
        tasks = [t for t in grader.tasks if t.check.name in request["checks"]]
        results = [asdict(r) for r in grader.run(statements, tasks, request["seed"])[0].values()]
        imported = [name for name in sys.modules if name not in imported_before]
        text = json.dumps({"results": results, "imported": imported}).encode()
        while text:
            text = text[os.write(writer, text) :]
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
