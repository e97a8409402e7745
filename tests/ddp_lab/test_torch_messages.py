"""Messages of torch's between hosts: where they go, and how little is done for one."""

import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from ddp_lab import RankLost
from ddp_lab.communicator import Communicator
from ddp_lab.torch_backend.process_group import ProcessGroup
from ddp_lab.transport.tcp.tcp import TcpTransport

CALLS = 75  # of Python functions, for a send and its receive; what torch does before is not counted


@pytest.fixture
def groups() -> Iterator[list[ProcessGroup]]:
    """Return the groups of two ranks of this process that are joined by TCP."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        second = pool.submit(socket.create_connection, listener.getsockname())
        links = listener.accept()[0], second.result()
    ends = [TcpTransport(rank, {1 - rank: link}) for rank, link in enumerate(links)]
    nothing: Any = None
    yield [ProcessGroup(Communicator(end), 60.0, nothing, nothing) for end in ends]
    with ThreadPoolExecutor(len(ends)) as pool:  # each waits a while for the other's goodbye
        list(pool.map(TcpTransport.close, ends))


def test_who_waits_for_anybody_is_told_of_a_rank_that_has_failed() -> None:
    ours, theirs = socket.socketpair()
    nothing: Any = None
    end = TcpTransport(0, {1: ours}, size=3)  # of rank 2 is nothing heard
    group = ProcessGroup(Communicator(end), 60.0, nothing, nothing)
    theirs.close()
    with pytest.raises(RankLost, match=r"^recv: rank 1 has failed \(connection closed"):
        group.recv_anysource([torch.zeros(1)], 0).wait()
    end.close()


def test_after_a_loss_a_group_says_the_same_and_sends_nothing_more() -> None:
    (ours, theirs), (mine, beside) = socket.socketpair(), socket.socketpair()
    nothing: Any = None
    end = TcpTransport(2, {1: ours, 0: mine})
    group = ProcessGroup(Communicator(end), 60.0, nothing, nothing)
    theirs.close()
    works = [group.reduce_scatter_single(torch.ones(4), torch.ones(12)) for _ in range(2)]
    for work in works:
        with pytest.raises(RankLost, match="rank 1 has failed"):
            work.wait()
    end.close()
    sent = b"".join(iter(lambda: beside.recv(4096), b""))
    beside.close()
    assert sent.count(b"|reduce_scatter") == 1


def test_a_message_takes_few_calls(groups: list[ProcessGroup]) -> None:
    x, y, names = torch.arange(4.0), torch.zeros(4), []

    def exchange() -> None:
        groups[0].send([x], 1, 0).wait()
        groups[1].recv([y], 0, 0).wait()

    exchange()  # names and sizes are looked up once
    sys.setprofile(lambda frame, event, _: names.append(frame) if event == "call" else None)
    exchange()
    sys.setprofile(None)
    assert y.tolist() == x.tolist()
    assert len(names) <= CALLS, [frame.f_code.co_qualname for frame in names]


def test_a_receive_that_is_complete_has_filled_its_tensor(groups: list[ProcessGroup]) -> None:
    x, y = torch.arange(4.0), torch.zeros(4)
    work = groups[1].recv([y], 0, 0)
    groups[0].send([x], 1, 0)
    while not work.is_completed():
        time.sleep(0.001)
    assert y.tolist() == x.tolist()


@pytest.mark.parametrize(
    "y", [torch.zeros(3, 2), torch.zeros(3, 2).T, torch.zeros(6, 2)[:, 0], torch.zeros(6).conj()]
)
def test_a_message_fills_any_tensor_of_its_size(y: Any, groups: list[ProcessGroup]) -> None:
    groups[0].send([torch.arange(6.0).reshape(2, 3)], 1, 5)
    groups[1].recv([y], 0, 5).wait()
    assert y.flatten().tolist() == [0, 1, 2, 3, 4, 5]


def test_who_asks_for_a_message_takes_it_in_himself(groups: list[ProcessGroup]) -> None:
    """So a receive from any rank, and a loop over is_completed(), wait for no other thread."""
    y, end = torch.zeros(4), time.monotonic() + 60
    transport: Any = groups[1].comm._transport
    transport._closed = True  # its thread ends, as if it never came to run
    next(t for t in threading.enumerate() if t.name == "ddp_lab links 1").join()
    transport._closed = False
    groups[0].send([torch.arange(4.0)], 1, 0)
    while not groups[1].comm.probe(0) and time.monotonic() < end:
        time.sleep(0.001)
    work = groups[1].recv_anysource([y], 0)
    work.wait()
    assert (work.source_rank(), y.tolist()) == (0, [0, 1, 2, 3])
    assert time.monotonic() < end
