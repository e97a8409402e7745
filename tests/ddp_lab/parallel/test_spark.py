"""All-reduce as Spark does it: the sum, the messages of its stages, and what is refused."""

import importlib.util

import numpy as np
import pytest
import torch

from ddp_lab import DdpLabError, InvalidArgument, Mismatch, launch
from ddp_lab.parallel import on_spark, spark_all_reduce, tree_aggregate
from ddp_lab.parallel.spark import stages_of


@pytest.mark.parametrize(
    ("partitions", "depth", "left"),
    [
        (4, 2, []),
        (16, 2, [4]),
        (64, 2, [8]),
        (64, 3, [16, 4]),
        (100, 4, [25, 6]),
        (5, 1, []),
        (1, 2, []),
    ],
)
def test_stages_are_sparks(partitions: int, depth: int, left: list[int]) -> None:
    """Worked out by hand from `RDD.treeAggregate`: scale is the depth-th root, rounded up."""
    assert stages_of(partitions, depth) == left


@pytest.mark.parametrize("transport", ["threads", "shm"])
def test_the_driver_alone_has_the_aggregate(transport: str) -> None:
    x = np.arange(5.0)
    ranks = launch(lambda comm: tree_aggregate(comm, x * 10**comm.rank), 5, transport=transport)
    assert ranks[0].tolist() == (x * 11111).tolist()
    assert ranks[1:] == [None] * 4


@pytest.mark.parametrize("partitions", [1, 2, 3, 6, 9])
def test_every_rank_has_the_sum_whatever_the_partitions(partitions: int) -> None:
    def program(comm):
        mine = torch.full((2, 3), 10.0**comm.rank)
        total = spark_all_reduce(comm, mine, partitions)
        return type(total) is torch.Tensor and mine[0, 0] == 10.0**comm.rank, total.numpy()

    for kept, total in launch(program, 6, transport="threads"):
        assert kept
        assert (total == 111111).all()


def test_whole_arrays_go_down_the_tree_and_up_again() -> None:
    """6 ranks, 2 partitions: 4 arrays in the first stage, 1 in the second, 5 back."""
    n_bytes = 800
    run = launch(lambda comm: spark_all_reduce(comm, np.ones(100), 2), 6, record=True)
    sent = [rank.bytes_sent // n_bytes for rank in run.traffic]
    assert sum(sent) == 4 + 1 + 5
    assert sent[1] - 1 in (0, 1, 2)  # its partition's sum, and its part of the broadcast


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda comm: spark_all_reduce(comm, np.ones(2), 2 + comm.rank),
            "partitions: rank 0 has 2, rank 1 has 3",
        ),
        (
            lambda comm: tree_aggregate(comm, np.ones(2 + comm.rank)),
            r"array: rank 0 has float64 \(2,\), rank 1 has .* \(3,\)",
        ),
        (lambda comm: tree_aggregate(comm, np.ones(2), depth=0), "got 0 on rank"),
        (lambda comm: spark_all_reduce(comm, np.ones(2), -1), "got -1 on rank"),
    ],
)
def test_ranks_that_disagree_or_make_no_sense_are_all_told(call, says: str) -> None:
    def program(comm):
        try:
            return call(comm)
        except DdpLabError as error:
            return error

    for error in launch(program, 2, transport="threads"):
        assert isinstance(error, Mismatch | InvalidArgument)
        with pytest.raises(ValueError, match=says):
            raise error


def test_the_real_spark_gives_the_same_or_says_what_is_missing(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # its tasks find this package wherever they run
    arrays = [np.arange(4.0) * 10**i for i in range(5)]
    if importlib.util.find_spec("pyspark") is None:
        with pytest.raises(InvalidArgument, match=r'the extra "spark" is not installed'):
            on_spark(arrays)
    else:
        assert on_spark(arrays, partitions=3).tolist() == sum(arrays).tolist()
