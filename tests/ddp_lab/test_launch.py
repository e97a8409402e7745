"""Ranks start, speak, fail and end as `launch` promises, and leave nothing behind."""

import ctypes
import importlib
import io
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import ddp_lab
from ddp_lab.launch import pickling
from ddp_lab.launch.failures import timeout_error
from ddp_lab.transport.board import RETURNED, RUNNING, Entry

TRANSPORTS = ["threads", "shm", "tcp"]


def failed(fn, world_size: int = 3, transport: str = "shm", **options) -> ddp_lab.RankFailed:
    with pytest.raises(ddp_lab.RankFailed) as caught:
        ddp_lab.launch(fn, world_size, transport=transport, **options)
    return caught.value


def until_the_others_wait(comm) -> None:
    """Return once each other rank waits for somebody."""
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    while any(comm._board.read(rank).waits_for < 0 for rank in others):
        time.sleep(0.01)


def at_the_same_time(function: Callable[[str], None], transports: list[str]) -> None:
    """Call `function` with each transport: what waits for a time to pass waits once."""
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(function, transport) for transport in transports]:
            done.result()


def test_results_come_in_order_of_rank_with_the_arguments_given() -> None:
    def rank(comm, a, b):
        return comm.rank, a + b

    for transport in TRANSPORTS:
        assert ddp_lab.launch(rank, 3, 1, 2, transport=transport) == [(0, 3), (1, 3), (2, 3)]


def test_torch_in_torch_out() -> None:
    import torch

    def rank(comm):
        x = torch.full((3,), comm.rank + 1.5, dtype=torch.bfloat16)
        got = comm.all_reduce(x)
        buffer = comm.empty((2,), torch.float32).fill_(comm.rank)
        comm.all_reduce(buffer, out=buffer)
        moved = comm.broadcast(x if comm.rank == 0 else None, root=0, algorithm="tree")
        if comm.rank == 0:
            comm.send(x, 1)
        received = comm.recv(0) if comm.rank == 1 else None
        return got, buffer, moved, received

    for transport in TRANSPORTS:
        got, buffer, moved, received = ddp_lab.launch(rank, 3, transport=transport)[1]
        assert torch.equal(got, torch.full((3,), 7.5, dtype=torch.bfloat16))
        assert buffer.tolist() == [3, 3]
        assert moved.dtype == received.dtype == torch.bfloat16


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_first_rank_to_raise_is_named_with_its_line_and_the_others_follow(
    transport: str,
) -> None:
    def rank(comm):
        if comm.rank == 2:
            until_the_others_wait(comm)
            raise KeyError("lost")  # the guilty line
        comm.all_reduce(np.zeros(4))

    error = failed(rank, transport=transport)
    assert error.rank == 2
    assert "rank 2 of 3 failed: KeyError: 'lost'" in str(error)
    assert "# the guilty line" in error.traceback
    assert set(error.failures) == {0, 1, 2}
    assert "ddp_lab/" + "groups.py" not in str(error)


class SlowToSpeak(io.StringIO):
    """A stream that takes its time over what a rank does between its end and its last words."""

    def flush(self) -> None:
        time.sleep(1.5)


@pytest.mark.parametrize("how", ["raises", "killed"])
def test_the_guilty_rank_is_named_however_long_the_last_words_take(how: str) -> None:
    def rank(comm):
        if comm.rank != 2:
            sys.stdout = SlowToSpeak()
        if comm.rank == 1:
            until_the_others_wait(comm)
            if how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise KeyError("lost")
        comm.recv((comm.rank - 1) % 3)

    error = failed(rank)
    assert error.rank == 1
    assert set(error.failures) == {0, 1, 2}


def test_a_loss_that_others_reworded_does_not_hide_the_guilty_rank() -> None:
    def rank(comm):
        if comm.rank == 1:
            until_the_others_wait(comm)
            os._exit(3)
        try:
            comm.all_reduce(np.ones(4))
        except ddp_lab.RankLost as error:
            raise ValueError("a step failed") from error

    error = failed(rank, timeout_s=60)
    assert error.rank == 1
    assert "a step failed" in error.failures[0]


@pytest.mark.parametrize("algorithm", ["auto", "ring", "tree"])
def test_a_killed_rank_is_named_and_the_others_raise(algorithm: str) -> None:
    def rank(comm):
        if comm.rank == 1:
            until_the_others_wait(comm)
            os.kill(os.getpid(), signal.SIGKILL)
        comm.all_reduce(np.zeros(4), algorithm=algorithm)

    error = failed(rank, timeout_s=60)
    assert error.rank == 1
    assert "killed by SIGKILL" in str(error)
    assert "RankLost" in error.failures[0]


def test_a_circle_of_waits_is_reported_with_peers_and_lines() -> None:
    def rank(comm):
        comm.recv((comm.rank + 1) % comm.size)  # everybody waits here

    def check(transport: str) -> None:
        with pytest.raises(ddp_lab.RankTimeout) as caught:
            ddp_lab.launch(rank, 3, transport=transport, timeout_s=5)
        line = rank.__code__.co_firstlineno + 1
        for r in range(3):
            expected = f"rank {r} waits for rank {(r + 1) % 3} in recv at {__file__}:{line}"
            assert expected in str(caught.value)

    at_the_same_time(check, TRANSPORTS)


def test_a_busy_rank_is_reported_where_it_is_busy() -> None:
    def rank(comm):
        if comm.rank == 1:
            keep_the_lock()
        comm.barrier()

    def keep_the_lock():
        library, end = ctypes.PyDLL(None), time.monotonic() + 60  # keeps the interpreter's lock
        while time.monotonic() < end:  # the thread that answers waits so for each of its turns
            library.usleep(350_000)

    def check(transport: str) -> None:
        with pytest.raises(ddp_lab.RankTimeout, match=r"busy at .*in keep_the_lock") as caught:
            ddp_lab.launch(rank, 2, transport=transport, timeout_s=5)
        assert "rank 0 waits for rank 1 in barrier" in str(caught.value)

    at_the_same_time(check, ["shm", "tcp"])


def test_a_rank_that_is_busy_in_a_library_is_reported_where_it_called_that() -> None:
    def rank(comm):
        if comm.rank == 1:
            wait_for_an_event()
        comm.barrier()

    def wait_for_an_event():
        threading.Event().wait(60)

    with pytest.raises(ddp_lab.RankTimeout, match=r"1 is busy at .*in wait_for_an_event"):
        ddp_lab.launch(rank, 2, timeout_s=2)


def test_a_rank_that_does_not_say_where_it_is_is_named() -> None:
    ranks = [Entry(RUNNING), Entry(RUNNING, waits_for=0), Entry(RETURNED)]
    error = timeout_error(dict(enumerate(ranks)), {}, 2.0)
    assert str(error).count("gave no answer") == str(error).count("Rank 0 gave no answer") == 1


def test_a_rank_that_returns_early_is_an_error_for_those_who_wait() -> None:
    def rank(comm):
        if comm.rank == 0:
            return
        comm.recv(0)

    for transport in TRANSPORTS:
        error = failed(rank, 2, transport, timeout_s=60)
        assert error.rank == 1
        assert "rank 0 has returned" in str(error)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("calls", "facts"),
    [
        (["all_reduce(np.zeros(4))", "all_reduce(np.zeros(5))"], ["shape (4,)", "shape (5,)"]),
        (["all_reduce(np.zeros(4))", "all_reduce(np.zeros(4, 'f4'))"], ["float64", "float32"]),
        (["all_reduce(np.zeros(4))", "all_gather(np.zeros(4))"], ["all_reduce", "all_gather"]),
        (["all_reduce(np.zeros(4))", "all_reduce(np.zeros(4), op='max')"], ["op=sum", "op=max"]),
        (["broadcast(np.zeros(4), 0)", "broadcast(np.zeros(4), 1)"], ["root=0", "root=1"]),
        (["barrier()", "broadcast(np.zeros(4), 1)"], ["barrier", "broadcast"]),
        (["all_reduce(np.zeros(8), algorithm='ring')", "all_reduce(np.zeros(8), algorithm='tree')"],
         ["ring", "tree"]),
    ],
)  # fmt: skip
def test_ranks_that_disagree_get_both_facts_and_both_lines(
    transport: str, calls: list[str], facts: list[str]
) -> None:
    def rank(comm):
        if comm.rank == 0:
            eval(f"comm.{calls[0]}", {"comm": comm, "np": np})
        else:
            eval(f"comm.{calls[1]}", {"comm": comm, "np": np})

    error = failed(rank, 2, transport, timeout_s=30)
    assert "Mismatch" in str(error)
    for fact in facts:
        assert fact in str(error)
    assert "rank 0 has" in str(error)
    assert "rank 1 has" in str(error)


def test_calls_in_another_order_are_a_mismatch() -> None:
    def rank(comm):
        first, second = np.zeros(4), np.zeros(40)
        for x in (first, second) if comm.rank else (second, first):
            comm.all_reduce(x)

    for transport in TRANSPORTS:
        assert "shape (40,)" in str(failed(rank, 2, transport))


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("step", range(4))
def test_a_rank_lost_at_any_step_of_a_ring_is_named(transport: str, step: int) -> None:
    def rank(comm):
        if comm.rank == 1:
            count = 0
            send = comm._transport.isend

            def isend(*args, **kwargs):
                nonlocal count
                count += 1
                if count > step:
                    raise OSError(f"link cut before message {step}")
                return send(*args, **kwargs)

            comm._transport.isend = isend
        comm.all_reduce(np.zeros(9), algorithm="ring")

    error = failed(rank, 3, transport, timeout_s=60)
    assert error.rank == 1
    assert f"link cut before message {step}" in str(error)


def test_output_is_marked_with_its_rank(capfd: pytest.CaptureFixture[str]) -> None:
    def rank(comm):
        print("one\ntwo")
        os.write(2, b"raw")

    ddp_lab.launch(rank, 2)
    out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == [f"[rank {r}] {w}" for r in (0, 1) for w in ("one", "two")]
    assert sorted(err.splitlines()) == ["[rank 0] raw", "[rank 1] raw"]


def test_a_module_in_a_folder_that_its_package_added_goes_to_ranks_by_name() -> None:
    amp = importlib.import_module("minitorch.cuda.amp")  # also known as minitorch.amp
    assert pickle.loads(pickling.dumps_for_ranks(amp)) is amp


def test_an_unpicklable_result_is_refused_with_its_type() -> None:
    error = failed(lambda comm: (x for x in ()), 1)
    assert "the result cannot be sent back: got generator" in str(error)
    assert "File" not in str(error)  # no line of the program's is to blame


def test_notes_and_the_exceptions_of_a_group_are_shown() -> None:
    def rank(comm):
        error = ExceptionGroup("several", [ValueError("first"), KeyError("second")])
        error.add_note("while both were open")
        raise error

    text = str(failed(rank, 1))
    assert "ExceptionGroup: several (2 sub-exceptions)\nwhile both were open\n" in text
    assert "\n  one of them ValueError: first\n  one of them KeyError: 'second'" in text


async def asynchronous(comm):
    return comm.rank


def yields(comm):
    yield comm.rank


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((1, 2), "not a function: got 1"),
        ((asynchronous, 2), "a call of the function does not run it: got <function asynchronous"),
        ((yields, 2), "a call of the function does not run it: got <function yields"),
        ((print, 0), "no such number of ranks: got 0"),
        ((print, 2.0), "no such number of ranks: got 2.0"),
        ((print, 100), "too many processes: got 100, expected at most 80"),
    ],
)
def test_wrong_arguments_are_refused(arguments, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ddp_lab.launch(*arguments)


def test_an_unknown_transport_is_refused() -> None:
    with pytest.raises(ValueError, match="expected one of shm, tcp, threads"):
        ddp_lab.launch(print, 2, transport="pigeon")


def script(body: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(body)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_dead(pids: list[int]) -> bool:
    end = time.monotonic() + 60
    while time.monotonic() < end and any(map(alive, pids)):
        time.sleep(0.01)
    return not any(map(alive, pids))


FOREVER = """
    import os, signal, sys, time
    import ddp_lab

    # as in a terminal; what a shell starts in the background ignores it
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def rank(comm):
        pids = comm.all_gather([os.getpid(), os.getppid()])
        if comm.rank == 0:
            print(*pids.ravel(), flush=True)
        comm.recv((comm.rank + 1) % comm.size)

    ddp_lab.launch(rank, 3)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_no_process_outlives_its_launcher(number: int) -> None:
    with script(FOREVER) as process:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()[2:]]
        assert len(pids) == 6
        process.send_signal(number)
        assert wait_until_dead(pids)


def test_shared_memory_has_no_name_under_which_it_could_be_left() -> None:
    def rank(comm):
        comm.all_reduce(comm.empty(10**6, np.float32))
        return Path("/proc/self/maps").read_text()

    for maps in ddp_lab.launch(rank, 2):
        assert "memfd:ddp_lab" in maps
        assert "/dev/shm" not in maps


def test_thousands_of_collectives_leave_no_descriptor_and_little_memory() -> None:
    def rank(comm):
        def resources():
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            return len(list(Path("/proc/self/fd").iterdir())), pages

        x = np.ones(100_000, np.float32)
        for size in (10, 100_000):
            comm.all_reduce(x[:size])
        fds, pages = resources()
        for i in range(2_000):
            comm.all_reduce(x[: 10 + i % 3])
        for _ in range(200):
            comm.all_reduce(x)
            comm.sendrecv(x, (comm.rank + 1) % 2, (comm.rank + 1) % 2)
        later_fds, later_pages = resources()
        return later_fds - fds, (later_pages - pages) * 4096 / x.nbytes

    for fds, arrays in ddp_lab.launch(rank, 2):
        assert fds == 0
        assert arrays < 12


OWN_ZYGOTE = """
    import os, signal, socket, subprocess, sys
    from ddp_lab import launch
    from ddp_lab.launch import zygote_client
    mine, theirs = socket.socketpair(socket.AF_UNIX, zygote_client.SOCKET_KIND)
    program = "import socket; from ddp_lab.launch import rank_main, zygote; "
    program += f"zygote.Zygote(socket.socket(fileno={theirs.fileno()}), ['late']).serve()"
    process = subprocess.Popen([sys.executable, "-c", program], pass_fds=[theirs.fileno()])
    zygote_client._running = zygote_client.ZygoteProcess(process, mine, os.getpid(), True)

    def was_there(comm):
        found = "late" in sys.modules
        import late
        return found
"""


def test_what_ranks_import_late_is_there_for_those_of_later_launches(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("")
    body = "print(launch(was_there, 2), any(launch(was_there, 1)[0] for _ in range(50)))"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}
    command = [sys.executable, "-c", textwrap.dedent(OWN_ZYGOTE) + body]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert said.stdout == "[False, False] True\n"


def test_who_ends_waits_for_no_import(tmp_path: Path) -> None:
    """It never ends where no thread listens to a launcher, as in the process that forks ranks."""
    begun = tmp_path / "begun"
    hang = "import pathlib, threading, time\nwhile threading.active_count() == 1:\n"
    hang += f"    pathlib.Path({str(begun)!r}).touch()\n    time.sleep(1)\n"
    (tmp_path / "late.py").write_text(hang)
    body = f"launch(was_there, 1)\nwhile not os.path.exists({str(begun)!r}): pass\n"
    body += "zygote_client.stop_zygote()\nprint(process.returncode == -signal.SIGTERM)"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}
    command = [sys.executable, "-c", textwrap.dedent(OWN_ZYGOTE) + body]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert said.stdout == "True\n"
