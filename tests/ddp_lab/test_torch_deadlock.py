"""Ranks of torch's that wait for each other for ever are told at once, and only these are."""

import re
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import sys, threading
from datetime import timedelta
import torch
import torch.distributed as dist
import ddp_lab.torch_backend

store, rank, case = sys.argv[1], int(sys.argv[2]), sys.argv[3]
dist.init_process_group(
    "ddp_lab", init_method=f"file://{store}", rank=rank, world_size=2,
    timeout=timedelta(seconds=60),
)
other, x, seven = 1 - rank, torch.zeros(1), torch.full((1,), 7.0)
never = threading.Event()  # a wait for it ends after longer than many looks

def call_back():
    future = dist.all_reduce(x, async_op=True).get_future()
    future.then(lambda _: never.wait(0.1)).wait()

def send_late():
    never.wait(1.0)
    dist.send(seven, other)

def receive_and_answer():
    dist.recv(x, other)
    dist.send(x, other)

def send_from_a_thread():
    sender = threading.Thread(target=send_late)
    sender.start()
    dist.recv(x, other)
    sender.join()

def send_from_a_callback():
    dist.all_reduce(x, async_op=True).get_future().then(lambda _: send_late())
    dist.recv(x, other)

def send_while_a_work_waits():
    work = dist.all_reduce(torch.ones(1), async_op=True)
    send_late()
    work.wait()
    dist.recv(x, other)

def receive_in_a_thread():
    heard = threading.Thread(target=dist.recv, args=(x, other))
    heard.start()
    send_late()
    heard.join()

def give_up():
    work = dist.irecv(x, other)
    try:
        work.wait(timedelta(seconds=0.5))
    except ddp_lab.RankTimeout as error:
        assert not isinstance(error, ddp_lab.Deadlock)
    dist.send(seven, other)
    work.wait()

def give_up_a_collective():
    options = dist.BarrierOptions()
    options.timeout, options.asyncOp = timedelta(seconds=0.5), False
    try:
        dist.group.WORLD.barrier(options).wait()
    except ddp_lab.RankTimeout as error:
        assert not isinstance(error, ddp_lab.Deadlock)
    dist.send(seven, other)
    dist.recv(x, other)

def wrap(hook=lambda _: None):
    dist._DEFAULT_FIRST_BUCKET_BYTES = 1  # a bucket for each parameter
    options = {"bucket_cap_mb": 1e-6, "find_unused_parameters": True}
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1), **options)
    model.module.weight.register_hook(hook)  # the bias is under way then
    return lambda: model(torch.ones(1, 2)).sum().backward()

def send_at_the_end():
    queue = torch.autograd.Variable._execution_engine.queue_callback
    wrap(lambda _: queue(send_late))()
    dist.recv(x, other)

def receive_before_a_step():
    step = wrap()
    receive_and_answer()
    step()

receive = lambda: dist.recv(x, other)
work = lambda: dist.all_reduce(x, async_op=True).wait()
future = lambda: dist.all_reduce(x, async_op=True).get_future()
CASES = {
    "both receive": (receive, receive),
    "one receives": (dist.barrier, receive),
    "one waits for a work": (receive, work),
    "one waits for a future": (receive, lambda: future().wait()),
    "one waits for a callback": (receive, lambda: future().then(torch.futures.Future.value).wait()),
    "after a callback": (lambda: (call_back(), receive()),) * 2,
    "a thread sends": (send_from_a_thread, receive_and_answer),
    "a thread receives": (receive_in_a_thread, receive_and_answer),
    "a callback sends": (
        send_from_a_callback, lambda: (dist.all_reduce(x), receive_and_answer())
    ),
    "a work waits": (
        send_while_a_work_waits,
        lambda: (receive(), dist.all_reduce(torch.ones(1)), dist.send(x, other)),
    ),
    "a backward": (lambda: wrap()(), lambda: (wrap(), receive())),
    "a backward sends": (send_at_the_end, receive_before_a_step),
    "own limits": (give_up, give_up),
    "an own limit": (give_up_a_collective, receive_and_answer),
}
CASES[case][rank]()
print(x.item())
"""


def run(python: Any, folder: Path, case: str) -> Any:
    (folder / "train.py").write_text(PROGRAM)
    return python(folder / "train.py", *((folder / "store", rank, case) for rank in range(2)))


@pytest.mark.parametrize(
    "case",
    [
        "both receive",
        "one receives",
        "one waits for a work",
        "one waits for a future",
        "one waits for a callback",
        "after a callback",
        "a backward",
    ],
)
def test_a_circle_is_told_whatever_the_timeout_of_the_group(
    case: str, python: Any, tmp_path: Path
) -> None:
    first, second = run(python, tmp_path, case)
    assert "Deadlock: " in first.errors
    assert "rank 0 waits for rank 1 in " in first.errors
    waits_in = "all_reduce" if "waits for" in case else "recv"
    assert f"rank 1 waits for rank 0 in {waits_in} at " in first.errors
    # torch's C++ has an exception of its own for what a backward pass raises
    assert re.search(r"rank 0 has failed \((RuntimeError: .*)?Deadlock: ", second.errors)


GROUPS = """
import sys
from datetime import timedelta
import torch
import torch.distributed as dist
import ddp_lab.torch_backend

store, rank = sys.argv[1], int(sys.argv[2])
dist.init_process_group(
    "ddp_lab", init_method=f"file://{store}", rank=rank, world_size=3,
    timeout=timedelta(seconds=60),
)
last, x = dist.new_group([1, 2]), torch.zeros(1)
for _ in range(3):
    if rank > 0:
        dist.all_reduce(x, group=last)
    dist.barrier()
if rank == 1:
    dist.all_reduce(x, group=last)
if rank == 2:
    dist.recv(x, 1)
dist.barrier()
"""


def test_a_circle_over_two_groups_is_told(python: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(GROUPS)
    ranks = [(tmp_path / "store", rank) for rank in range(3)]
    _, first, second = python(tmp_path / "train.py", *ranks)
    assert "Deadlock: " in first.errors
    assert "rank 1 waits for rank 2 in all_reduce at " in first.errors
    assert "rank 2 waits for rank 1 in recv at " in first.errors
    assert "has failed (Deadlock: " in second.errors


@pytest.mark.parametrize(
    "case",
    [
        "a thread sends",
        "a thread receives",
        "a callback sends",
        "a work waits",
        "a backward sends",
        "own limits",
        "an own limit",
    ],
)
def test_who_may_still_send_is_in_no_circle(case: str, python: Any, tmp_path: Path) -> None:
    for ended in run(python, tmp_path, case):
        assert (ended.status, ended.output) == (0, "7.0\n"), ended
