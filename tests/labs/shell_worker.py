"""Runs notebooks' cells in IPython shells, each in a fork of a process that has imported much.

So is the process that forks a lab's ranks, which would import torch anew for each lab.

A line of JSON `{"cells": [...], "directory": path, "backend": of matplotlib}` is answered by a line
`{"said": text, "errors": ["NameError: ..."]}`: what the cells printed and showed, and the error of
each cell that stopped with one. Ends when its input closes.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import sys
from dataclasses import dataclass
from typing import Any

from autograder.sandbox.zygote import collapse_heap

HEAVY = (
    *("torch._dynamo", "torch.profiler", "sklearn.linear_model"),  # with a first optimizer, step
    *("IPython.core.interactiveshell", "IPython.utils.capture", "matplotlib.pyplot"),
    *("matplotlib_inline.backend_inline", "sklearn.datasets", "torch"),
    *("autograder.learner", "minitorch.show", "ddp_lab.show", "ddp_lab.communicator"),
    *("cloudpickle", "ddp_lab.launch.rank_main"),
)


def main() -> None:
    gc.disable()
    for name in HEAVY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    importlib.import_module("pygments.lexers.python").PythonLexer()  # compiles its rules, for all
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a lab's own processes print is no answer
    gc.freeze()  # no fork need look at what is here
    gc.set_threshold(10_000)  # not 700, as for all tests (tests/conftest.py)
    gc.enable()
    collapse_heap()  # a fork each for hundreds of ranks, and none copies what is here page by page
    for line in sys.stdin:
        answers.write(answered(json.loads(line)) + "\n")
        answers.flush()


def answered(request: dict[str, Any]) -> str:
    """Return what a fork says of the cells, when it has ended."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            os.close(reader)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the next request is not for a cell
            lend_zygote()
            text = json.dumps(ran(**request))
            with os.fdopen(writer, "w") as out:
                out.write(text + "\n")
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as found:
        text = found.readline()  # and no further: what a cell left running may hold the pipe
    os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return text.strip() or json.dumps({"said": "", "errors": ["the shell ended"]})


@dataclass(frozen=True)
class Fork:
    """A child of this process, as far as `ddp_lab` asks about the process that forks ranks."""

    pid: int

    def poll(self) -> int | None:
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return None if ended is None else ended.si_status

    def wait(self, timeout: float | None = None) -> int:
        return os.waitpid(self.pid, 0)[1]

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def lend_zygote() -> None:
    """Fork now, while there is one thread, what will fork the ranks; the first launch finds it."""
    from ddp_lab.launch import zygote, zygote_client

    mine, theirs = socket.socketpair(socket.AF_UNIX, zygote_client.SOCKET_KIND)
    pid = os.fork()
    if pid == 0:
        try:
            mine.close()
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            zygote.Zygote(theirs).serve()
        finally:
            os._exit(0)
    theirs.close()
    zygote_client._running = zygote_client.ZygoteProcess(Fork(pid), mine, os.getpid(), True)


def ran(cells: list[str], directory: str, backend: str) -> dict[str, Any]:
    """Run every cell, whatever the one before did."""
    import matplotlib
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from traitlets.config import Config

    matplotlib.use(backend)
    os.chdir(directory)
    sys.path.insert(0, "")
    without_file = Config({"HistoryManager": {"enabled": False}})  # of what cells were run
    shell = InteractiveShell.instance(config=without_file)
    shell._format_exception_for_storage = lambda *_: []  # a second traceback, which nobody reads
    said, errors = [], []
    for text in cells:
        with capture_output() as captured:
            result = shell.run_cell(text, store_history=True)
        shown = [output.data.get("text/plain", "") for output in captured.outputs]
        said += [captured.stdout, *shown]
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            errors.append(f"{type(error).__name__}: {error}")
    return {"said": "\n".join(said), "errors": errors}


if __name__ == "__main__":
    main()
