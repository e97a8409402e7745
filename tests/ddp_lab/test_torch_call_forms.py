"""Programs that call the process group itself get from this backend what gloo gives them."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import ddp_lab

PROGRAM = """
import sys
from datetime import timedelta
import torch
import torch.distributed as dist
import ddp_lab.torch_backend

backend, store, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=2)
pg, other, soon, MAX = dist.group.WORLD, 1 - rank, timedelta(seconds=60), dist.ReduceOp.MAX

def own(more=0.0):
    return torch.arange(4.0) + 10 * rank + more

def zeros(n=4):
    return torch.zeros(n)

def both():
    return [zeros(), zeros()]

def at(root, value):
    return value if rank == root else []

sent = [].append  # gloo loses a message whose work is dropped

CASES = {  # each is given tensors and calls the group
    "all_reduce": [
        lambda t=own(): (t, pg.allreduce([t])),
        lambda t=own(): (t, pg.allreduce(t)),
        lambda t=own(): (t, pg.allreduce([t], MAX)),
        lambda t=own(): (t, pg.allreduce(t, op=MAX, timeout=soon)),
        lambda t=own(): (t, pg.allreduce(tensors=[t])),
        lambda t=own(): (t, pg.allreduce_coalesced([t])),
    ],
    "broadcast": [
        lambda t=own(): (t, pg.broadcast(t, 1)),
        lambda t=own(): (t, pg.broadcast(t, root=1, timeout=soon)),
        lambda t=own(): (t, pg.broadcast([t])),
    ],
    "reduce": [
        lambda t=own(): (at(1, t), pg.reduce(t, 1)),
        lambda t=own(): (at(1, t), pg.reduce(t, 1, MAX)),
    ],
    "all_gather": [
        lambda t=both(): (t, pg.allgather([t], [own()])),
        lambda t=both(): (t, pg.allgather(input_tensor=own(), output_tensors=t)),
        lambda t=both(): (t, pg.allgather(t, own(), soon)),
        lambda t=both(): (t, pg.allgather_coalesced([[part] for part in t], [own()])),
        lambda t=[own(), zeros()]: (t, pg.allgather([t], [t[0]])),
        lambda t=list(torch.zeros(4, 2).T): (t, pg.allgather([t], [own()])),
        lambda t=zeros(8): (t, pg._allgather_base(t, own())),
        lambda t=zeros(8): (t, pg.allgather_into_tensor_coalesced([t], [own()])),
    ],
    "gather": [
        lambda t=both(): (t, pg.gather(at(0, t), own(), 0)),
        lambda t=list(torch.zeros(4, 2).T): (at(1, t), pg.gather(at(1, t), own(), 1)),
        lambda t=both(): (t, pg.gather(at(0, [t]), [own()])),
    ],
    "scatter": [
        lambda t=zeros(): (t, pg.scatter(t, at(1, [own(), own(5)]), 1)),
        lambda t=zeros(): (t, pg.scatter([t], at(0, [[own(), own(5)]]))),
    ],
    "reduce_scatter": [
        lambda t=zeros(): (t, pg.reduce_scatter(t, [own(), own(5)])),
        lambda t=zeros(): (t, pg.reduce_scatter(t, [own(), own(5)], MAX)),
        lambda t=zeros(): (t, pg.reduce_scatter(t, [own().requires_grad_(), own(5)])),
        lambda t=zeros(2): (t, pg._reduce_scatter_base(t, own())),
        lambda t=zeros(2): (t, pg.reduce_scatter_tensor_coalesced([t], [own()])),
    ],
    "all_to_all": [
        lambda t=both(): (t, pg.alltoall(t, [own(), own(5)])),
        lambda t=zeros(): (t, pg.alltoall_base(t, own(), [2, 2], [2, 2])),
        lambda t=zeros(): (
            t,
            pg.alltoall_base(
                input_split_sizes=[], input=own(), output_split_sizes=[], output=t
            ),
        ),
    ],
    "barrier": [lambda: ([], pg.barrier()), lambda: ([], pg.barrier(timeout=soon))],
    "messages": [
        lambda t=zeros(): ([t], sent(pg.send([own()], other, 3)), pg.recv([t], other, 3))[::2],
        lambda t=zeros(): (
            [t],
            sent(pg.send([own()], dstRank=other, tag=4)),
            pg.recv([t], srcRank=other, tag=4),
        )[::2],
    ],
}
for name, cases in CASES.items():
    for number, case in enumerate(cases):
        tensors, work = case()
        work.wait()
        print(name, number, [torch.as_tensor(t).tolist() for t in tensors])
for call in (
    lambda: pg.allreduce(),
    lambda: pg.broadcast(own(), 1, soon, 5),
    lambda: pg.allreduce(own(), "max"),
    lambda: pg.send([own(), own()], other, 9),
    lambda: pg.recv([zeros(), zeros()], other, 9),
    lambda: pg.recv_anysource([zeros(), zeros()], 9),
    lambda: pg.send(own(), other, 9),
):
    try:
        call()
    except (TypeError, RuntimeError, ValueError):
        print("refused")
before = pg._get_sequence_number_for_group()
dist.all_reduce(own())
dist.barrier()
print("collectives", pg._get_sequence_number_for_group() - before)
print(type(pg.get_group_store()).__name__)
device = torch.device("cpu")
dist.distributed_c10d._set_pg_timeout(soon)
print(type(pg._get_backend(device)._set_default_timeout(soon)))
dist.barrier()
"""


def test_a_group_is_called_in_all_of_torchs_forms(python: Any, tmp_path: Path) -> None:
    said = {}
    for backend in ("gloo", "ddp_lab"):
        ended = python(PROGRAM, *((backend, tmp_path / backend, rank) for rank in range(2)))
        assert [rank.status for rank in ended] == [0, 0], ended
        said[backend] = [rank.output for rank in ended]
    assert said["ddp_lab"] == said["gloo"]
    assert len(re.findall("refused", said["gloo"][0])) == 7


def test_a_group_has_room_for_tensors_of_gigabytes() -> None:
    from ddp_lab.torch_backend import create

    group = create(dist.HashStore(), 0, 1, timedelta(seconds=60))
    assert group.comm.empty((3 << 30,), torch.uint8).numel() == 3 << 30  # nobody touches it
    group.shutdown()


def all_reduce_expanded(comm: ddp_lab.Communicator, store: str) -> torch.Tensor:
    import ddp_lab.torch_backend  # noqa: F401 - registers the backend, in each rank

    dist.init_process_group("ddp_lab", f"file://{store}", rank=comm.rank, world_size=comm.size)
    gradient = torch.full((1, 4), comm.rank + 1.0).expand(3, 4)  # as that of a sum
    dist.all_reduce(gradient)
    alike = torch.ones(1).expand(2) if comm.rank == 0 else torch.arange(2.0)
    if comm.rank == 0:
        with pytest.raises(RuntimeError, match="single memory location"):
            dist.all_reduce(alike)
    else:
        dist.all_reduce(alike)
    dist.destroy_process_group()
    return gradient


def test_an_expanded_tensor_is_reduced_where_all_its_elements_stay_alike(tmp_path: Path) -> None:
    for gradient in ddp_lab.launch(all_reduce_expanded, 2, str(tmp_path / "store")):
        assert gradient.equal(torch.full((3, 4), 3.0))
