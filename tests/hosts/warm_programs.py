"""Runs programs of Python on hosts, in forks of one process that has imported torch.

A request on its socket is JSON `{"program": text, "name": str, "arguments": [...], "environment":
{...}, "is_mine": bool}`, with descriptors for the host, for what the program says, and for a line
with its exit status. Ends when the socket closes; what runs on a host ends with that.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import warnings
from functools import partial
from typing import Any, NoReturn

from autograder.sandbox.zygote import collapse_heap
from ddp_lab.launch.hosts.namespaces import FORWARDED, enter
from tests.ddp_lab.warm_python import become, end_early

REQUEST_BYTES = 200_000


def main() -> None:
    gc.disable()
    warnings.simplefilter("ignore")
    for name in ("ddp_lab.torch_backend", "torch.distributed.run"):
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    collapse_heap()  # a way into a host is four forks
    control, statuses = socket.socket(fileno=int(sys.argv[1])), dict[int, int]()
    while True:
        for ready in select.select([control.fileno(), *statuses], [], [])[0]:
            if ready in statuses:
                bury(ready, statuses.pop(ready))
                continue
            data, descriptors, _, _ = socket.recv_fds(control, REQUEST_BYTES, 3)
            if not data:
                return
            host, output, status = descriptors
            child = os.fork()
            if child == 0:
                for other in (control.fileno(), status, *statuses, *statuses.values()):
                    os.close(other)
                start(host, output, **json.loads(data))
            os.close(host)
            os.close(output)
            statuses[os.pidfd_open(child)] = status


def start(
    host: int, output: int, is_mine: bool, environment: dict[str, str], **program: Any
) -> NoReturn:
    """Enter the host, and be the program there."""
    os.setsid()
    for number, stream in enumerate((os.open(os.devnull, os.O_RDONLY), output, output)):
        os.dup2(stream, number)
    os.close(output)
    enter(host, is_mine, partial(run, partial(become, **program, environment=environment)))


def run(program: "partial[None]") -> NoReturn:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    end_early(program)


def bury(pidfd: int, status: int) -> None:
    """Tell how a program has ended: a signal's number counts below zero."""
    ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    assert ended
    code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    with contextlib.suppress(BrokenPipeError):  # nobody wants to know
        os.write(status, b"%d\n" % code)
    os.close(status)
    os.close(pidfd)


if __name__ == "__main__":
    main()
