"""python -m ddp_lab hosts 2 --rate 400mbit -- torchrun --nproc-per-node 2 train.py

Runs COMMAND once on each of N hosts inside this machine, with MASTER_ADDR, MASTER_PORT, NNODES,
NODE_RANK and GLOO_SOCKET_IFNAME set. torchrun, or python -m torch.distributed.run, also gets
--nnodes, --node-rank, --master-addr and --master-port, unless they are given.

May import: errors, hosts, rank_output.
"""

import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from ddp_lab.errors import HostsRefused, InvalidArgument
from ddp_lab.launch.hosts.hosts import Hosts
from ddp_lab.launch.rank_output import Printer

STOP_S = 10.0  # what COMMAND has to end after Ctrl-C
GRACE_S = 5.0  # what other hosts have to end by themselves after one has failed
READ_BYTES = 1 << 16
TORCHRUN = "torch.distributed.run"
# torchrun's options without a value; what follows any other is its value
TORCHRUN_FLAGS = {"--standalone", "-m", "--module", "--no-python", "--run-path"}
TORCHRUN_FLAGS |= {"--virtual-local-rank"}


class Stopped(BaseException):
    """A signal asked this program to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM raise Stopped."""

    def stop(number: int, _: FrameType | None) -> NoReturn:
        raise Stopped(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_on_hosts(count: str, rate: str | None, latency: str | None, command: list[str]) -> int:
    """Run a command once on each of some hosts; return the exit code.

    That is the first that is not 0, 128 and its number for a signal, 1 where this machine allows
    no hosts, 2 for a wrong argument. After a failure the command is ended on all other hosts,
    unless torchrun is told that it may lose some.
    """
    try:
        command = resolve(command)
        with stop_on_signals(), Hosts(_parse_count(count), rate=rate, latency=latency) as hosts:
            if latency and not hosts.has_latency:
                print("hosts: this kernel has no netem: links have no latency.", file=sys.stderr)
            return Job(hosts, command).run()
    except Stopped as stopped:
        return 128 + stopped.number
    except InvalidArgument as error:
        print(error, file=sys.stderr)
        return 2
    except HostsRefused as error:
        print(error, file=sys.stderr)
        return 1


def _parse_count(count: str) -> int:
    if not re.fullmatch(r"\d{1,9}", count):
        raise InvalidArgument(
            f"hosts: the number of hosts is wrong: got {count!r}, expected a whole number, such as "
            "in `hosts 2 -- hostname`."
        )
    return int(count)


def resolve(command: Sequence[str]) -> list[str]:
    """Return a command with the path of its program, also of one beside this Python.

    Raises:
        InvalidArgument: there is no such program.
    """
    if not command:
        raise InvalidArgument(
            "hosts: no command: got nothing, expected one after --, such as in "
            "`hosts 2 -- torchrun train.py`."
        )
    beside = str(Path(sys.executable).parent)
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), beside])
    if (program := shutil.which(command[0], path=path)) is None:
        raise InvalidArgument(
            f"hosts: there is no such command: got {command[0]!r}, expected a program. Check its "
            "name, or give its path."
        )
    return [program, *command[1:]]


def with_flags(command: list[str], environment: dict[str, str]) -> list[str]:
    """Return a command; where it is torchrun's, with what that needs to know of the hosts.

    Raises:
        InvalidArgument: torchrun is told to stay on one machine.
    """
    if not (words := words_of_torchrun(command)):
        return command
    options = options_of_torchrun(command[words:])
    if "--standalone" in options:
        raise InvalidArgument(
            "hosts: --standalone is for one machine: got it for several hosts. Leave it out."
        )
    flags = {
        "--nnodes": "NNODES",
        "--node-rank": "NODE_RANK",
        "--master-addr": "MASTER_ADDR",
        "--master-port": "MASTER_PORT",
    }
    missing = [
        f"{flag}={environment.get(name)}" for flag, name in flags.items() if flag not in options
    ]
    return [*command[:words], *missing, *command[words:]]


def words_of_torchrun(command: Sequence[str]) -> int:
    """Return how many words of a command call torchrun, 0 where it calls something else."""
    if Path(command[0]).name == "torchrun":
        return 1
    return 3 if command[1:3] == ["-m", TORCHRUN] else 0


def may_lose_hosts(command: Sequence[str]) -> bool:
    """Return whether a command goes on without a host: torchrun with a range of --nnodes."""
    words = words_of_torchrun(command)
    options = options_of_torchrun(command[words:]) if words else {}
    return ":" in options.get("--nnodes", "")


def options_of_torchrun(words: Sequence[str]) -> dict[str, str]:
    """Return the options before the script, as they are spelt with dashes, and their values."""
    options: dict[str, str] = {}
    awaits = ""  # the option whose value is the next word
    for word in words:
        if awaits:
            options[awaits], awaits = word, ""
        elif word.startswith("-"):
            name, equals, value = word.partition("=")
            option = name.replace("_", "-")
            options[option] = value
            awaits = "" if equals or option in TORCHRUN_FLAGS else option
        else:
            break
    return options


class Job:
    """A command under way on all hosts."""

    def __init__(self, hosts: Hosts, command: list[str]) -> None:
        self._names = hosts.names
        self._printer = Printer(hosts.names)
        self._selector = selectors.DefaultSelector()
        self._processes: list[subprocess.Popen[bytes]] = []
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        for host in range(len(hosts.names)):
            words = with_flags(command, hosts.environment(host))
            self._watch(host, hosts.start(host, words, **pipes))
        self._running = len(self._processes)
        self._ends_together = not may_lose_hosts(command)
        self._first_failure = 0

    def _watch(self, host: int, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout and process.stderr
        self._processes.append(process)
        self._selector.register(os.pidfd_open(process.pid), selectors.EVENT_READ, process)
        for pipe, stream in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, (host, stream))

    def run(self) -> int:
        """Print what the hosts print until all have ended; return the exit code."""
        try:
            self._listen(float("inf"))
            if self._running:
                self._listen(time.monotonic() + GRACE_S)
            if self._running:
                self._end_others()
        except Stopped as stopped:
            self._signal(stopped.number)
            raise
        finally:
            self._printer.finish()
        return self._first_failure

    def _end_others(self) -> None:
        """End the command where it still runs after it has failed elsewhere."""
        hosts = zip(self._names, self._processes, strict=True)
        alive = ", ".join(name for name, process in hosts if process.poll() is None)
        print(f"hosts: the command has failed: it is ended on {alive}, too.", file=sys.stderr)
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        """Send a signal to all, and print what they say to it."""
        for process in self._processes:
            process.send_signal(number)
        self._listen(time.monotonic() + STOP_S)

    def _listen(self, until: float) -> None:
        """Print until a time, or until all processes have ended, whatever they leave behind.

        Without an end in time it is also the first failure that ends it.
        """
        while self._running and (left_s := until - time.monotonic()) > 0:
            for key, _ in self._selector.select(min(left_s, 60.0)):
                if isinstance(key.data, subprocess.Popen):
                    self._bury(key)
                else:
                    self._take(key)
            if self._first_failure and self._ends_together and until == float("inf"):
                return
        for key in [
            key for key in self._selector.get_map().values() if isinstance(key.data, tuple)
        ]:
            while self._take(key):
                pass

    def _bury(self, key: selectors.SelectorKey) -> None:
        """Take note of a process that has ended."""
        self._selector.unregister(key.fileobj)
        os.close(key.fd)
        self._running -= 1
        code = key.data.wait()
        self._first_failure = self._first_failure or (code if code >= 0 else 128 - code)

    def _take(self, key: selectors.SelectorKey) -> bool:
        """Print what is in a pipe; return False if that is nothing."""
        try:
            data = os.read(key.fd, READ_BYTES)
        except BlockingIOError:
            return False
        if not self._printer.take(key.data[0], data, key.data[1]):
            self._selector.unregister(key.fileobj)
        return bool(data)
