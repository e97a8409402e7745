"""Which message headers are free: those that the communicator writes, and no others."""

import json
from typing import Any

import numpy as np
import pytest

from autograder.records import Statement
from autograder.sandbox.host import Sandbox
from autograder.sandbox.network import Headers
from autograder.sandbox.worker_pool import Supply
from autograder.student.protocol import COMMUNICATOR

CELL = "def pass_on(comm, x):\n    comm.send(x, 1)\n    return mine(x)"


@pytest.fixture
def headers() -> Headers:
    return Headers({"<cell 7, line 3>": CELL}, COMMUNICATOR)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"send\0<cell 7, line 3>:2\0numpy",
        b"send\0\0torch",
        b"0.12|all_reduce|recursive_doubling|float64|(4,)|op=sum\0<cell 7, line 3>:3\0numpy",
        b"1.0|all_reduce|mine|int16|()|op=max\0<cell 7, line 3>:1\0numpy",
        b"0.7|barrier|dissemination|?|?|\0<cell 7, line 3>:1\0numpy",
        b"0.8|broadcast|tree|bool|(3, 2)|root=1\0<cell 7, line 3>:1\0numpy",
        b"send\0" + json.__file__.encode() + b":5\0numpy",
    ],
)
def test_what_the_communicator_writes_costs_nothing(headers: Headers, header: bytes) -> None:
    assert headers.cost(header) == 0


@pytest.mark.parametrize(
    "header",
    [
        b"x" * 9,
        b"send\0<cell 7, line 3>:2\0" + b"9" * 64,
        b"send\0<cell 7, line 3>:9\0numpy",
        b"send\0<cell 8, line 3>:1\0numpy",
        b"send\0/no/such/file.py:1\0numpy",
        b"send\0<cell 7, line 3>:2\0numpy\0more",
        b"send send send send send\0\0numpy",
        b"0.1|all_reduce|bm90aGluZw|float64|(4,)|op=sum\0<cell 7, line 3>:2\0numpy",
        b"0.1|all_reduce|ring|float64|(1, 2, 3, 4, 5)|op=sum\0<cell 7, line 3>:2\0numpy",
        b"0.1|all_reduce|ring|float64|(1234567890123,)|op=sum\0<cell 7, line 3>:2\0numpy",
        b"12345678.1|all_reduce|ring|float64|(4,)|op=sum\0<cell 7, line 3>:2\0numpy",
        b"send\0../../etc/passwd:1\0numpy",
        b"\xff\xfe\0\0numpy",
    ],
)
def test_any_other_header_is_counted_whole(headers: Headers, header: bytes) -> None:
    assert headers.cost(header) == len(header)


def every_collective(comm: Any, x: Any) -> None:
    for algorithm in ("ring", "tree", "reference"):
        comm.all_reduce(x, algorithm=algorithm)
    comm.all_gather(x)
    comm.all_to_all(x)
    comm.broadcast(x, root=1)
    comm.barrier()
    comm.split(0).all_reduce(x, async_op=True).wait()
    if comm.rank == 0:
        pass_on(comm, x)  # noqa: F821 - the learner's
    elif comm.rank == 1:
        comm.recv(0)


@pytest.mark.sandbox
def test_bytes_of_a_run_are_those_of_its_arrays() -> None:
    supply = Supply(wall="bubblewrap")
    preload = ("numpy", "ddp_lab.communicator")
    with Sandbox(preload=preload, source=supply) as student:
        student.load([Statement("def mine(x):\n    return x", ("mine",), (), 6, 1)])
        student.load([Statement(CELL, ("pass_on",), (), 7, 3)])
        run = student.ranks(every_collective, 2, [np.ones(2)] * 2)
    supply.close()
    assert run.messages
    assert [m.header for m in run.messages if m.n_bytes != m.array.nbytes] == []
