"""What tests of ranks share."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from ddp_lab.collectives.registry import _REGISTRY, learners

WARM_PYTHON = Path(__file__).with_name("warm_python.py")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def port() -> Iterator[str]:
    """Return a port of 127.0.0.1 for a rank to listen at, which nobody else is given meanwhile."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as who listens there does
        holder.bind(("127.0.0.1", 0))
        yield str(holder.getsockname()[1])


@pytest.fixture(autouse=True)
def learners_algorithms_are_forgotten() -> Iterator[None]:
    """Let no test see an algorithm that another has registered."""
    before = learners()
    yield
    for collective, name, fn in learners():
        if (collective, name, fn) not in before:
            del _REGISTRY[collective][name]


@dataclass(frozen=True)
class Ended:
    """What became of a program: its exit status, minus a signal's number, and what it said."""

    status: int
    output: str
    errors: str


class WarmPython:
    """Runs programs that need torch, without a start of many seconds each."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(
        self,
        program: str | Path,
        *arguments: Sequence[object],
        environments: Sequence[Mapping[str, str]] = (),
    ) -> list[Ended]:
        """Run a program as often as there are lists of arguments, at the same time.

        What it leaves in the folder for temporary files, as torchrun does, goes with the run.
        """
        is_file = isinstance(program, Path)
        text = program.read_text() if isinstance(program, Path) else textwrap.dedent(program)
        more = environments or [{}] * len(arguments)
        with tempfile.TemporaryDirectory() as folder:
            runs = [
                {
                    "arguments": [str(word) for word in words],
                    "environment": {**os.environ, "TMPDIR": folder, **own},
                    "output": f"{folder}/{rank}.out",
                    "errors": f"{folder}/{rank}.err",
                }
                for rank, (words, own) in enumerate(zip(arguments, more, strict=True))
            ]
            name = str(program) if is_file else "-c"
            ended = self._ask({"program": text, "name": name, "runs": runs})
            said = [[Path(str(r[s])).read_text() for s in ("output", "errors")] for r in runs]
        return [Ended(status, *texts) for status, texts in zip(ended, said, strict=True)]

    def _ask(self, request: dict[str, object]) -> list[int]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(WARM_PYTHON)],
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            found: list[int] = json.loads(self._process.stdout.readline())
        except BaseException:  # such as the end of the test's time: the programs end with it
            self.close()
            raise
        return found

    def close(self) -> None:
        """End the process, and the programs that still run."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@pytest.fixture(scope="session")
def python() -> Iterator[Callable[..., list[Ended]]]:
    """`python(program, arguments, ...)` runs it once for each list of arguments, all together."""
    warm = WarmPython()
    yield warm.run
    warm.close()
