"""Ranks that nobody watches over find out themselves when one of them is gone."""

import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ddp_lab
from ddp_lab.transport.board import FAILED, RETURNED, Entry, MemoryBoard, inspect
from ddp_lab.transport.tcp.local_board import LocalBoard, hear
from ddp_lab.transport.tcp.tcp import TcpTransport

TCP = """
    import os, signal, sys
    import numpy as np
    import ddp_lab

    comm = ddp_lab.init()
    comm.barrier()
    try:
        if comm.rank == 1:
            how = sys.argv[1]
            if how == "raises":
                raise KeyError("lost")
            elif how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            sys.exit(3)  # of which its interpreter tells nobody
        comm.all_reduce(np.zeros(4), algorithm="ring")
    except ddp_lab.RankLost as error:
        print(error)
        sys.exit(3)
"""


def run_ranks(
    python: Any, program: str, size: int, *arguments: object, **environment: str
) -> list[str]:
    """Return what each rank of a program printed."""
    shared = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1"} | environment
    environments = [{**shared, "RANK": str(rank)} for rank in range(size)]
    return [r.output for r in python(program, *[arguments] * size, environments=environments)]


@pytest.mark.parametrize(
    ("how", "says", "because"),
    [
        ("raises", "rank 1 has failed (KeyError: 'lost')", "KeyError: 'lost'"),
        ("killed", "rank 1 has failed (connection closed", "connection closed"),
        ("ends", "rank 1 has ended", ""),
    ],
)
def test_ranks_joined_by_tcp_are_told_who_is_gone_and_why(
    python: Any, how: str, says: str, because: str, port: str
) -> None:
    first, _, third, fourth = run_ranks(python, TCP, 4, how, MASTER_PORT=port)
    assert says in third
    for output in (first, third, fourth):  # rank 3 waits for one that gave up because of rank 1
        assert "still waits for it" in output or "could not send to it" in output
        assert because in output


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("raises", "rank 1 has failed (KeyError: 'lost')"),
        ("ends", "rank 1 has ended"),
    ],
)
def test_ranks_of_torchrun_that_share_memory_are_told_too(
    python: Any, how: str, says: str, port: str
) -> None:
    outputs = run_ranks(python, TCP, 2, how, MASTER_PORT=port, TORCHELASTIC_RUN_ID="run")
    assert says in outputs[0]


CHAIN = """
    import sys
    import torch
    import torch.distributed as dist
    import ddp_lab.torch_backend

    rank, ends = int(sys.argv[2]), sys.argv[3] == "ends"
    dist.init_process_group(
        "ddp_lab", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=4
    )
    dist.barrier()
    if rank == 3:
        raise KeyError("lost")
    try:
        dist.recv(torch.ones(1), rank + 1)
    except ddp_lab.RankLost:
        if rank != 2 or not ends:
            raise
"""


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("raises", "rank 1 has failed (RankLost: rank 3 has failed (KeyError: 'lost')): rank 0"),
        ("ends", "rank 2 has ended (rank 3 was the first to fail: KeyError: 'lost')): rank 0"),
    ],
)
def test_what_ended_the_first_of_a_chain_of_ranks_is_said_once(
    python: Any, tmp_path: Path, how: str, says: str
) -> None:
    ranks = python(CHAIN, *((tmp_path / "store", rank, how) for rank in range(4)))
    assert says in ranks[0].errors
    assert ranks[0].errors.count("KeyError") == 1


C10D = """
    import os, signal, sys
    import numpy as np
    import torch.distributed as dist
    import ddp_lab
    from ddp_lab.transport.c10d.c10d import C10dTransport

    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=2)
    comm = ddp_lab.Communicator(C10dTransport())
    try:  # rank 0 may still be in the barrier when rank 1 dies
        comm.barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            comm.all_reduce(np.zeros(4), algorithm="ring")
    except ddp_lab.RankLost as error:
        print(error.rank, "rank 1 is gone" in str(error), flush=True)
        os._exit(3)
"""


def test_a_rank_of_a_torch_group_that_is_killed_is_named(python: Any, tmp_path: Path) -> None:
    outputs = run_ranks(python, C10D, 2, tmp_path / "store", GLOO_SOCKET_IFNAME="lo")
    assert outputs == ["1 True\n", ""]


ALIVE = """
    import os, sys, threading
    import numpy as np
    import torch.distributed as dist
    import ddp_lab
    from ddp_lab.transport.c10d import c10d
    from ddp_lab.transport.c10d.c10d import C10dTransport

    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=3)
    if rank == 0:
        c10d.LOOK_S = 90.0  # it notices only as rank 2, which it waits for, has left
    comm = ddp_lab.Communicator(C10dTransport())
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:  # lives on until the others have noticed, as behind a thread that does not end
        comm.barrier()
        threading.Thread(target=lambda: [store.get(f"noticed {r}") for r in (0, 2)]).start()
        if sys.argv[2] == "uncaught":
            raise KeyError("lost")
        try:
            comm.reduce(np.zeros(3), root=7)
        except ValueError:
            pass  # a mistake that was seen before anything was sent: not a failure
        ddp_lab.register_algorithm("all_reduce", "broken", lambda comm, x, op: 1 / 0)
        try:
            comm.all_reduce(np.zeros(4), algorithm="broken")
        except ZeroDivisionError:
            pass
    else:
        try:  # who looks while its last message of the barrier comes is told already
            comm.barrier()
            comm.all_reduce(np.zeros(4), algorithm="ring")
        except ddp_lab.RankLost as error:
            print(error.rank, error, flush=True)
            store.set(f"noticed {rank}", "yes")
"""


@pytest.mark.parametrize(
    ("how", "says"), [("uncaught", "KeyError: 'lost'"), ("caught", "ZeroDivisionError: division")]
)
def test_a_rank_of_a_torch_group_that_raised_but_lives_on_is_named(
    python: Any, tmp_path: Path, how: str, says: str
) -> None:
    outputs = run_ranks(python, ALIVE, 3, tmp_path / "store", how, GLOO_SOCKET_IFNAME="lo")
    for rank in (0, 2):
        assert outputs[rank].startswith("1 "), outputs
        assert f": rank 1 has failed ({says}" in outputs[rank]


def test_the_first_to_fail_is_named_with_those_that_followed() -> None:
    board = LocalBoard(4)
    board.end(3, RETURNED)
    board.end(1, FAILED, "KeyError: 'lost'")
    board.end(2, FAILED, "RankLost: no rank 1")
    board.end(2, FAILED, "again")
    with pytest.raises(ddp_lab.RankLost, match=r"rank 1 has failed \(KeyError: 'lost'\): rank 0"):
        inspect(board, 0, 1)
    with pytest.raises(ddp_lab.RankLost, match="no rank 1; rank 1 was the first to fail: KeyError"):
        inspect(board, 0, 2)
    with pytest.raises(ddp_lab.RankLost, match="rank 3 has returned: "):
        inspect(board, 0, 3)


@pytest.mark.parametrize("board", [LocalBoard, MemoryBoard])
def test_a_rank_that_left_because_of_another_is_not_all_that_is_named(board: Any) -> None:
    seen = board(4)
    hear(seen, 0, 2, "\n3 its process ended")  # it had caught the error, and left with a number
    with pytest.raises(ddp_lab.RankLost) as told:
        inspect(seen, 0, 2)
    cause = "rank 2 has ended (rank 3 was the first to fail: its process ended)"
    assert cause in str(told.value)


def test_a_wait_tells_its_own_line_where_another_thread_of_its_rank_has_waited() -> None:
    board = MemoryBoard(2)
    board.wait(0, -1, b"")  # the other thread's wait is over
    board.end(1, FAILED, "its process ended")
    with pytest.raises(ddp_lab.RankLost, match=r"^recv at \S*launch.py:\d+: rank 1"):
        inspect(board, 0, 1)


def test_a_rank_that_ended_in_another_collective_is_said_to_disagree() -> None:
    board = MemoryBoard(2)
    board.enter(0, b"0.0|all_reduce|ring|float32|(4,)|sum\0a:1\0numpy", (0, 1))
    with pytest.raises(ddp_lab.Mismatch):
        board.enter(1, b"0.0|all_reduce|ring|float32|(3,)|sum\0b:2\0numpy", (0, 1))
    board.end(1, RETURNED)
    with pytest.raises(ddp_lab.Mismatch, match=r"rank 1 has shape \(3,\) at b:2"):
        inspect(board, 0, 1)


class Late(LocalBoard):
    """A board whose rank 1 leaves only after rank 0 has looked for it once."""

    leave = staticmethod(lambda: None)

    def read(self, rank: int) -> Entry:
        entry = super().read(rank)
        self.leave()
        return entry


def test_a_send_that_fails_tells_what_the_receiver_said_as_it_left(monkeypatch) -> None:
    mine, theirs = socket.socketpair()
    board = Late(2)
    leaving, sender = TcpTransport(1, {0: theirs}), TcpTransport(0, {1: mine}, board)
    monkeypatch.setattr(sys, "last_value", KeyError("lost"), raising=False)
    mine.shutdown(socket.SHUT_WR)  # so that the send fails before anything is read
    board.leave = leaving.close
    with pytest.raises(ddp_lab.RankLost) as caught:
        sender.isend(np.arange(3), 1)
    assert "send: rank 1 has failed (KeyError: 'lost'): rank 0 could not send" in str(caught.value)
    sender.close()


def test_a_rank_that_gives_up_tells_the_others_who_failed_first() -> None:
    board, sockets = LocalBoard(3), socket.socketpair()
    board.end(1, FAILED, "KeyError: 'lost'")
    leaving = TcpTransport(2, {0: sockets[0]}, board)
    silent, mute = socket.socketpair()
    waiting = TcpTransport(0, {1: silent, 2: sockets[1]})
    leaving.close()
    with pytest.raises(
        ddp_lab.RankLost,
        match=r"rank 2 has ended \(rank 1 was the first to fail: KeyError: 'lost'\)",
    ):
        waiting.irecv(2).wait()
    waiting.close()
    mute.close()


class Hasty(MemoryBoard):
    """A board that says that rank 1 has returned just before its last message is sent."""

    def __init__(self, send) -> None:
        super().__init__(2)
        self.end(1, RETURNED)
        self._send = send

    def read(self, rank: int) -> Entry:
        self._send()
        return super().read(rank)


def test_the_last_message_of_a_rank_that_returned_still_arrives() -> None:
    for sends, closes in ((True, True), (True, False), (False, True)):
        mine, theirs = socket.socketpair()
        sender = TcpTransport(1, {0: theirs})

        def last_words(sender=sender, sends=sends, closes=closes, once=[]):  # noqa: B006
            if sends and not once:
                once.append(sender.isend(np.arange(3), 0))
            if closes:
                sender.close()

        receiver = TcpTransport(0, {1: mine}, Hasty(last_words))
        if sends:
            assert receiver.irecv(1).wait().tolist() == [0, 1, 2]
        else:
            with pytest.raises(ddp_lab.RankLost, match="rank 1 has returned"):
                receiver.irecv(1).wait()
        receiver.close()
        sender.close()


FORKS = """
    import atexit, os, socket
    import numpy as np
    from ddp_lab.transport.tcp.tcp import TcpTransport

    ends = [TcpTransport(r, {1 - r: link}) for r, link in enumerate(socket.socketpair())]
    child = os.fork()
    if child == 0:
        atexit._run_exitfuncs()  # as a child does that ends by sys.exit()
        os._exit(0)
    os.waitpid(child, 0)
    ends[0].isend(np.arange(3), 1)
    print(ends[1].irecv(0).wait())
"""


def test_a_fork_that_ends_does_not_speak_for_its_rank(python: Any) -> None:
    assert python(FORKS, [])[0].output == "[0 1 2]\n"


def test_a_launched_rank_that_is_killed_leaves_the_others_a_name() -> None:
    def rank(comm):
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        comm.barrier()

    with pytest.raises(ddp_lab.RankFailed, match=r"rank 1 of 3 failed.*SIGKILL"):
        ddp_lab.launch(rank, 3, transport="tcp", timeout_s=60)
