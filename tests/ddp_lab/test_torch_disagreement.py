"""Ranks of torch's that disagree, or wait in vain, are told what, where and of whom."""

import re
from typing import Any

import pytest

PROGRAM = """
import sys
from datetime import timedelta
import torch
import torch.distributed as dist
import ddp_lab.torch_backend

store, rank, part = sys.argv[1], int(sys.argv[2]), sys.argv[3]
dist.init_process_group("ddp_lab", init_method=f"file://{store}", rank=rank, world_size=2)
soon = dist.new_group()
# set late: making the group has the same limit, and may take longer
dist.distributed_c10d._set_pg_timeout(timedelta(seconds=4), soon)
other, both = 1 - rank, [torch.zeros(2), torch.zeros(2)]
integers, long = torch.zeros(2, dtype=torch.int32), torch.zeros(3)
half = torch.zeros(4, dtype=torch.bfloat16)

CASES = {
    "another size": lambda: (dist.isend(long, other), dist.recv(both[0], other)),
    "another dtype": lambda: (dist.isend(long[:2] + 2.7, other), dist.recv(integers, other)),
    "another part": lambda: dist.all_to_all(both, [long, long]),
    "scattered": lambda: dist.scatter(both[0], [long, long] if rank == 0 else None),
    "too few": lambda: dist.all_gather(both[:1], both[0]),
    "too many": lambda: dist.reduce_scatter(both[0], [*both, both[0]]),
    "rows": lambda: dist.all_to_all_single(torch.zeros(3), torch.zeros(3)),
    "deprecated": lambda: dist.all_gather_into_tensor(torch.zeros(6 - 2 * rank), long[rank:]),
    "whole": lambda: dist.all_gather_into_tensor(torch.zeros(7), long),
    "parts": lambda: dist.reduce_scatter_tensor(both[0], long),
    "dtypes": lambda: dist.reduce_scatter_tensor(integers, torch.zeros(4)),
    "bits": lambda: dist.all_reduce(half, dist.ReduceOp.BAND),
    "factor": lambda: dist.all_reduce(both[0], dist._make_nccl_premul_sum(2.0)),
    "rows in lists": lambda: dist.all_reduce(torch.eye(2).to_sparse_csr()),
    "exchange": lambda: (
        dist.all_to_all_single(torch.zeros(2), long[:2]) if rank == 0 else dist.gather(long[:1])
    ),
    "sizes": lambda: dist.all_gather([both[0], long] if rank == 0 else both, both[1]),
    "both receive": lambda: dist.irecv(both[0], other, group=soon).wait(timedelta(seconds=1)),
    "nobody sends": lambda: dist.recv(both[0], group=soon),
}
# a collective that has failed leaves the group unfit for another
LAST = "deprecated", "exchange", "sizes"
for name, case in CASES.items():
    if part != (name if name in LAST else "whole"):
        continue
    try:
        case()
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {error}")
    if part == "whole":
        dist.monitored_barrier()
if rank == 0 and part == "whole":  # the other ends
    try:
        dist.recv(both[0])
    except ddp_lab.RankLost as error:
        print("ended:", error)
"""
LINE = {  # where each case stands
    name: number
    for number, line in enumerate(PROGRAM.splitlines(), 1)
    for name in re.findall(r'^    "(.*?)": lambda', line)
}


@pytest.fixture(scope="module")
def said(python: Any, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return what each rank printed."""
    folder = tmp_path_factory.mktemp("disagree")
    (folder / "train.py").write_text(PROGRAM)
    output = ["", ""]
    for part in ("whole", "deprecated", "exchange", "sizes"):
        ranks = [(folder / part, rank, part) for rank in range(2)]
        for rank, ended in enumerate(python(folder / "train.py", *ranks)):
            assert ended.status == 0, ended
            output[rank] += ended.output
    return output


@pytest.mark.parametrize(
    ("case", "facts"),
    [
        ("another size", "Mismatch: recv: what rank {other} sent at {line} does not fit: got "
         "torch.float32 (3,), expected torch.float32 (2,)"),
        ("another dtype", "Mismatch: recv: what rank {other} sent at {line} does not fit: got "
         "torch.float32 (2,), expected torch.int32 (2,)"),
        ("another part", "Mismatch: all_to_all: what rank 0 has for this one does not fit: got "
         "torch.float32 (3,), expected torch.float32 (2,)"),
        ("scattered", "Mismatch: scatter: the part of rank 0 does not fit"),
        ("too few", "InvalidArgument: all_gather: one tensor a rank: got a list of 1, expected 2"),
        ("too many", "InvalidArgument: reduce_scatter: one tensor a rank: got a list of 3"),
        ("rows", "InvalidArgument: all_to_all_single: the rows of the first axis do not go to the "
         "ranks: got 3 rows in parts of [1, 1]"),
        ("deprecated", "(3,) at {line}"),
        ("whole", "InvalidArgument: all_gather: one part a rank: got (7,) for 2 parts of (3,), "
         "expected 6 elements"),
        ("parts", "InvalidArgument: reduce_scatter: one part a rank: got (3,) for 2 parts of (2,)"),
        ("dtypes", "InvalidArgument: reduce_scatter: input and output differ in dtype: got "
         "torch.float32 for the whole, torch.int32 for a part, expected one dtype"),
        ("sizes", "has parts of several sizes at {line}"),
        ("factor", "unknown reduction: got RedOpType.PREMUL_SUM, expected one of sum, avg"),
        ("rows in lists", "not a dense tensor with values: got layout torch.sparse_csr"),
        ("bits", "got bfloat16, expected integers or bool"),
        ("both receive", "RankTimeout: recv at {line}: the timeout has passed: rank {rank} waited "
         "for rank {other}"),
        ("nobody sends", "RankTimeout: recv: no rank sent anything for 4.0 s"),
    ],
)  # fmt: skip
def test_a_mistake_between_ranks_is_told(case: str, facts: str, said: list[str]) -> None:
    for rank, output in enumerate(said):
        line = next(line for line in output.splitlines() if line.startswith(f"{case}: "))
        place = f"train.py:{LINE[case]}"
        expected = facts.format(rank=rank, other=1 - rank, line=place)
        assert expected in re.sub(r"/\S*/train.py", "train.py", line)


def test_parts_are_not_taken_from_the_messages_of_another_collective(said: list[str]) -> None:
    expected = (
        "exchange: Mismatch: all_to_all: ranks disagree on the operation: rank 0 has all_to_all"
    )
    assert any(line.startswith(expected) for line in said[0].splitlines())


def test_who_waits_for_anybody_is_told_that_all_others_have_ended(said: list[str]) -> None:
    assert "ended: recv: all other ranks have ended" in said[0]
