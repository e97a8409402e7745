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
def stopped_by_signals() -> Iterator[None]:
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

    That is the first that is not 0 in the order of hosts, 128 and its number for a signal, 1 where
    this machine allows no hosts, 2 for a wrong argument.
    """
    try:
        command = resolve(command)
        with stopped_by_signals(), Hosts(_whole(count), rate=rate, latency=latency) as hosts:
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


def _whole(count: str) -> int:
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
    if Path(command[0]).name == "torchrun":
        words = 1
    elif command[1:3] == ["-m", TORCHRUN]:
        words = 3
    else:
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


def options_of_torchrun(words: Sequence[str]) -> set[str]:
    """Return the options before the script, as they are spelt with dashes."""
    options, is_value = set(), False
    for word in words:
        if is_value:
            is_value = False
        elif word.startswith("-"):
            option, equals, _ = word.replace("_", "-").partition("=")
            options.add(option)
            is_value = not equals and option not in TORCHRUN_FLAGS
        else:
            break
    return options


class Job:
    """A command under way on all hosts."""

    def __init__(self, hosts: Hosts, command: list[str]) -> None:
        self._printer = Printer(hosts.names)
        self._selector = selectors.DefaultSelector()
        self._processes: list[subprocess.Popen[bytes]] = []
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        for host in range(len(hosts.names)):
            words = with_flags(command, hosts.environment(host))
            self._watch(host, hosts.start(host, words, **pipes))
        self._running = len(self._processes)

    def _watch(self, host: int, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout and process.stderr
        self._processes.append(process)
        self._selector.register(os.pidfd_open(process.pid), selectors.EVENT_READ)
        for pipe, stream in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, (host, stream))

    def run(self) -> int:
        """Print what the hosts print until all have ended; return the exit code."""
        try:
            self._listen(float("inf"))
        except Stopped as stopped:
            for process in self._processes:
                process.send_signal(stopped.number)
            self._listen(time.monotonic() + STOP_S)
            raise
        finally:
            self._printer.finish()
        codes = [process.wait() for process in self._processes]
        return next((code if code > 0 else 128 - code for code in codes if code), 0)

    def _listen(self, until: float) -> None:
        """Print until all processes have ended, whatever they leave behind, or until a time."""
        while self._running and (left_s := until - time.monotonic()) > 0:
            for key, _ in self._selector.select(min(left_s, 60.0)):
                if key.data:
                    self._take(key)
                else:
                    self._selector.unregister(key.fileobj)
                    os.close(key.fd)
                    self._running -= 1
        for key in [key for key in self._selector.get_map().values() if key.data]:
            while self._take(key):
                pass

    def _take(self, key: selectors.SelectorKey) -> bool:
        """Print what is in a pipe; return False if that is nothing."""
        try:
            data = os.read(key.fd, READ_BYTES)
        except BlockingIOError:
            return False
        if not self._printer.take(key.data[0], data, key.data[1]):
            self._selector.unregister(key.fileobj)
        return bool(data)
