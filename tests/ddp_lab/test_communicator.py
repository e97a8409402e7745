"""Collectives over threads against NumPy; what a communicator promises whatever carries it."""

import numpy as np
import pytest

import ddp_lab


@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
@pytest.mark.parametrize("algorithm", ddp_lab.algorithms("all_reduce"))
@pytest.mark.parametrize("count", [0, 1, 7, 1000])
def test_all_reduce_is_the_sum_on_every_rank(world_size: int, algorithm: str, count: int) -> None:
    inputs = np.random.default_rng(0).integers(-9, 9, (world_size, count)).astype(np.float64)

    def rank(comm):
        return comm.all_reduce(inputs[comm.rank], algorithm=algorithm)

    for result in ddp_lab.launch(rank, world_size, transport="threads"):
        np.testing.assert_array_equal(result, inputs.sum(0))


@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_ring_moves_exactly_its_share_of_the_bytes(world_size: int) -> None:
    x = np.ones(60 * world_size, np.float32)
    run = ddp_lab.launch(
        lambda comm: comm.all_reduce(x, algorithm="ring"),
        world_size,
        transport="threads",
        record=True,
    )
    for traffic in run.traffic:
        assert traffic.bytes_sent == 2 * (world_size - 1) * x.nbytes // world_size
        assert traffic.messages_sent == 2 * (world_size - 1)
