"""Programs of the command line, each a fork of one process that has imported what they need.

A server's imports take most of its start, and Dask's are as many.
"""

import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from typing import TextIO

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["autograder.cli", "autograder.service.running.server", "distributed.cli.dask_worker"]
)
COMMAND = "from autograder.cli import main; raise SystemExit(main())"
SILENT = "import os; os.dup2(os.open(os.devnull, os.O_WRONLY), 2); "  # nobody reads its errors


def become(code: str, words: list[str], out: Connection, errors: Connection | None) -> None:
    """Be the program, to the end of this process."""
    os.dup2(out.fileno(), 1)
    os.dup2((errors or out).fileno(), 2)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", 1, closefd=False) for number in (1, 2))
    sys.argv = ["-c", *words]
    exec(code, {"__name__": "__main__"})


class Forked:
    """As much of `subprocess.Popen` as tests of such programs need; text comes by lines.

    Runs `code` as `python -c` does. What it says of errors is in `stderr`, or among the rest.
    """

    def __init__(self, code: str, *words: object, apart: bool = False) -> None:
        ends = [FORKS.Pipe(duplex=False) for _ in range(2 if apart else 1)]
        writers = [writer for _, writer in ends]
        arguments = (code, [*map(str, words)], *writers, *[None][apart:])
        self._process = FORKS.Process(target=become, args=arguments)
        self._process.start()
        for writer in writers:
            writer.close()
        self.stdout, *more = (os.fdopen(os.dup(reader.fileno())) for reader, _ in ends)
        self.stderr = more[0] if more else self.stdout
        for reader, _ in ends:
            reader.close()
        assert self._process.pid
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout_s: float | None = None) -> int | None:
        self._process.join(timeout_s)
        return self.returncode

    def communicate(self) -> tuple[str, str]:
        """Return what it has still said, once it has ended."""
        said, problems = (rest_of(stream) for stream in (self.stdout, self.stderr))
        self.wait()
        return said, problems


def rest_of(stream: TextIO) -> str:
    if stream.closed:
        return ""
    with stream:
        return stream.read()
