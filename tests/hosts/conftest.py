"""Hosts inside this machine for tests; where it refuses them, tests are skipped with its line."""

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from ddp_lab.errors import HostsRefused
from ddp_lab.launch.hosts import Hosts

ROOT = Path(__file__).parents[2]
WARM_PYTHON = Path(__file__).with_name("warm_programs.py")
LONGEST_S = 240.0  # for what a loaded machine makes of seconds


class Fork:
    """A program that a warm process runs, as far as `Program` asks about it."""

    def __init__(self, stdout: IO[str], status: IO[str]) -> None:
        self.stdout = stdout
        self._status = status

    def wait(self, timeout: float) -> int:
        """Return the exit status, or minus the number of a signal; called once."""
        assert select.select([self._status], [], [], timeout)[0], "the program does not end"
        return int(self._status.readline())

    def close(self) -> None:
        self._status.close()


class WarmPython:
    """Starts programs on hosts that need torch, without seconds of imports for each."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(WARM_PYTHON), str(theirs.fileno())],
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def start(
        self, hosts: Hosts, host: int, words: Sequence[str], environment: Mapping[str, str]
    ) -> Fork:
        request = {
            "program": Path(words[0]).read_text(),
            "name": words[0],
            "arguments": words[1:],
            "environment": {**os.environ, **hosts.environment(host), **environment},
            "is_mine": hosts._is_mine,
        }
        (said, output), (ended, status) = os.pipe(), os.pipe()
        descriptors = [hosts._pidfds[host], output, status]
        socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
        os.close(output)
        os.close(status)
        return Fork(os.fdopen(said), os.fdopen(ended))

    def close(self) -> None:
        self._control.close()
        self._process.wait()


@pytest.fixture(scope="session")
def warm_python() -> Iterator[WarmPython]:
    warm = WarmPython()
    yield warm
    warm.close()


class Program:
    """A program on a host, whose lines are kept as they come."""

    def __init__(self, process: "subprocess.Popen[str] | Fork") -> None:
        self.process = process
        self.lines: list[str] = []
        self._said = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout as pipe:
            for line in pipe:
                with self._said:
                    self.lines.append(line.rstrip("\n"))
                    self._said.notify_all()
        with self._said:
            self.lines.append("")  # nothing more comes: whoever waits looks at how it ended
            self._said.notify_all()

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, words: str) -> str:
        """Return the first line with these words, once it is there."""

        def found() -> str | None:
            over = None if self._reader.is_alive() else ""
            return next((line for line in self.lines if words in line), over)

        with self._said:
            line = self._said.wait_for(lambda: found() is not None and (found(),), LONGEST_S)
        assert line and line[0], self.text
        return str(line[0])

    def end(self) -> int:
        """Return the exit status, once it has ended."""
        status = self.process.wait(LONGEST_S)
        self._reader.join(LONGEST_S)
        return status


@pytest.fixture
def hosts() -> Iterator[Callable[..., Hosts]]:
    """`hosts(count, rate=)` gives that many hosts."""
    made: list[Hosts] = []

    def make(count: int, **options: Any) -> Hosts:
        try:
            made.append(Hosts(count, **options))
        except HostsRefused as refused:
            pytest.skip(str(refused))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def own_tmpdir(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give what a test starts a folder for temporary files of its own: torchrun leaves some."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield


@pytest.fixture
def on(own_tmpdir: None, warm_python: WarmPython) -> Iterator[Callable[..., Program]]:
    """`on(hosts, host, command, environment)` starts a program of Python there.

    A script that imports torch runs in a fork of what has imported it.
    """

    forks: list[Fork] = []

    def start(
        hosts: Hosts, host: int, command: Sequence[object], environment: Mapping[str, str] = {}
    ) -> Program:
        own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment}
        words = list(map(str, command))
        if isinstance(command[0], Path) and "torch" in command[0].read_text():
            forks.append(warm_python.start(hosts, host, words, own))
            return Program(forks[-1])
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return Program(hosts.start(host, [sys.executable, *words], own, text=True, **streams))

    yield start
    for fork in forks:
        fork.close()


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """`script(text)` writes a program."""

    def write(text: str) -> Path:
        path = tmp_path / f"script{len(list(tmp_path.glob('script*')))}.py"
        path.write_text(textwrap.dedent(text))
        return path

    return write


def tool(*words: object) -> "subprocess.Popen[str]":
    """Start `python -m ddp_lab hosts`."""
    return subprocess.Popen(
        [sys.executable, "-m", "ddp_lab", "hosts", *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def run_tool(
    own_tmpdir: None, hosts: Callable[..., Hosts]
) -> Callable[..., "subprocess.Popen[str]"]:
    hosts(1)  # or the test is skipped
    return tool
