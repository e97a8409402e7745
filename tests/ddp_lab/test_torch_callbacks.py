"""Callbacks of futures over the backend: they may wait for whatever else is under way."""

import textwrap
from pathlib import Path
from typing import Any

import pytest

START = """
    import sys, threading
    from datetime import timedelta
    import torch
    import torch.distributed as dist
    import ddp_lab
    import ddp_lab.torch_backend

    store, rank, timeout_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    dist.init_process_group(
        "ddp_lab", init_method=f"file://{store}", rank=rank, world_size=2,
        timeout=timedelta(seconds=timeout_s),
    )

    def start(value):
        return dist.all_reduce(torch.full((3,), float(value)), async_op=True)

    def summed(value):
        return start(value).get_future().wait()[0][0].item()
"""
NESTED = {  # what the callback waits for: a collective of its own, or one that is already under way
    "its own": """
        first = start(1).get_future()
        second = first.then(lambda done: (done.value()[0][0].item(), summed(10), summed(100)))
        assert second.then(lambda done: (*done.value(), summed(1000))).wait() == (2, 20, 200, 2000)
    """,
    "another, called before": """
        one, later = start(1), start(10).get_future()
        first = one.get_future().then(lambda _: later.wait()[0][0].item())
        assert first.wait() == 20
    """,
    "another's callback": """
        one, other = start(1), start(10)
        later = other.get_future().then(lambda _: summed(100))
        first = one.get_future().then(lambda _: later.wait())
        assert first.wait() == 200
    """,
    "many at a time": """
        chains = [
            start(k).get_future().then(lambda _, k=k: summed(10 * k)).then(
                lambda done: done.value() + summed(1)
            )
            for k in range(50)
        ]
        assert [chain.wait() for chain in chains] == [20 * k + 2 for k in range(50)]
    """,
    # One rank finds the future complete and runs the callback at once, the other does not.
    "its own, out of step": """
        work = start(1)
        other = start(2)
        if rank == 0:
            work.wait()
            other.wait()
        inner = work.get_future().then(lambda _: summed(10))
        last = start(3)
        assert inner.wait() == 20 and last.get_future().wait()[0][0].item() == 6
    """,
    "a collective of another group": """
        group = dist.new_group([0, 1])
        def outer(_):
            tensor = torch.ones(2)
            dist.all_reduce(tensor, group=group)
            dist.broadcast(tensor, 0)
            return tensor[0].item()
        assert start(1).get_future().then(outer).wait() == 2
    """,
    "nothing, before a work that is profiled ends": """
        from ddp_lab.torch_backend import process_group
        seen, plain = [], process_group.record_function
        class Slow(plain):
            def _call_end_callbacks_on_future(self, future):
                wait = lambda _: (threading.Event().wait(0.2), seen.append("ended"))
                return super()._call_end_callbacks_on_future(future.then(wait))
        process_group.record_function = Slow
        with torch.autograd.profiler.profile():
            start(1).wait()  # an event that ended later would be written where none is any more
            assert seen == ["ended"]
        process_group.record_function = plain
    """,
    "nothing, and is told of an error": """
        def fails(_):
            raise KeyError("lost")
        future = start(1).get_future().then(fails).then(lambda done: done.value())
        try:
            future.wait()
        except KeyError as error:
            assert error.args == ("lost",)
        else:
            raise AssertionError("no error")
    """,
}
LAST = """
    dist.destroy_process_group()
    print("done")
"""


def run(python: Any, folder: Path, body: str, timeout_s: float = 100) -> list[str]:
    """Return what two ranks printed."""
    program = "".join(map(textwrap.dedent, (START, body, LAST)))
    ended = python(program, *((folder / "store", rank, timeout_s) for rank in range(2)))
    return [rank.output + rank.errors for rank in ended]


@pytest.fixture(scope="module")
def nested(python: Any, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return what two ranks print who run one body after the other."""
    parts = [
        textwrap.dedent(body) + f"print({what!r}, flush=True)\n" for what, body in NESTED.items()
    ]
    return run(python, tmp_path_factory.mktemp("nested"), "".join(parts))


@pytest.mark.parametrize("what", NESTED)
def test_a_callback_waits_for(what: str, nested: list[str]) -> None:
    for output in nested:
        assert f"{what}\n" in output, output


def test_a_wait_in_a_callback_ends_with_the_timeout(python: Any, tmp_path: Path) -> None:
    body = """
        future = start(1).get_future()
        if rank == 0:  # the other never calls what the callback waits for
            try:
                future.then(lambda _: summed(1)).wait()
            except ddp_lab.RankTimeout as error:
                print("timeout has passed" in str(error))
            dist.distributed_c10d._get_default_store().set("over", "1")
        else:
            dist.distributed_c10d._get_default_store().get("over")
    """
    assert run(python, tmp_path, body, timeout_s=2) == ["True\ndone\n", "done\n"]


def test_ending_a_group_waits_for_what_nobody_waited_for(python: Any, tmp_path: Path) -> None:
    body = """
        tensor, seen = torch.ones(3), []
        dist.all_reduce(tensor, async_op=True)
        for k in range(5):
            start(k).get_future().then(lambda _, k=k: seen.append(summed(k)))
        dist.destroy_process_group()
        assert tensor.tolist() == [2.0] * 3 and sorted(seen) == [0, 2, 4, 6, 8]
        dist.init_process_group("gloo", init_method=f"file://{store}2", rank=rank, world_size=2)
        dist.barrier()  # a rank that ended at once would leave the other half connected
    """
    assert run(python, tmp_path, body) == ["done\n"] * 2


def test_a_callback_may_end_its_group(python: Any, tmp_path: Path) -> None:
    body = """
        ended = start(1).get_future().then(lambda _: dist.destroy_process_group())
        ended.wait()
        dist.init_process_group("gloo", init_method=f"file://{store}2", rank=rank, world_size=2)
        dist.barrier()  # a rank that ended at once would leave the other half connected
    """
    assert run(python, tmp_path, body) == ["done\n"] * 2


def test_a_failed_collective_reaches_a_hook_of_torchs_own_data_parallel(
    python: Any, tmp_path: Path
) -> None:
    body = """
        import os, signal
        from torch.nn.parallel import DistributedDataParallel
        net = DistributedDataParallel(torch.nn.Linear(2, 2))
        net(torch.ones(1, 2)).sum().backward()
        loss = net(torch.ones(1, 2)).sum()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            loss.backward()
        except RuntimeError as error:
            print("its process ended" in str(error))
    """
    assert run(python, tmp_path, body)[0] == "True\ndone\n"
