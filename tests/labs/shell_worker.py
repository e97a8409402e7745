"""Runs notebooks' cells in IPython shells, each in a fork of a process that has imported much.

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
import sys
from typing import Any

HEAVY = (
    *("IPython.core.interactiveshell", "IPython.utils.capture", "matplotlib.pyplot"),
    *("matplotlib_inline.backend_inline", "sklearn.datasets", "torch"),
    *("autograder.learner", "minitorch.show", "ddp_lab.show", "ddp_lab.communicator"),
)


def main() -> None:
    for name in HEAVY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    importlib.import_module("pygments.lexers.python").PythonLexer()  # compiles its rules, for all
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a lab's own processes print is no answer
    gc.freeze()  # no fork need look at what is here
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


def ran(cells: list[str], directory: str, backend: str) -> dict[str, Any]:
    """Run every cell, whatever the one before did."""
    import matplotlib
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    matplotlib.use(backend)
    os.chdir(directory)
    sys.path.insert(0, "")
    shell = InteractiveShell.instance()
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
