"""NumPy's numbers as arguments: ranks, sizes, hosts and times come out of arrays too."""

import numpy as np

import ddp_lab
from ddp_lab import Link, parallel, simulate


def test_ranks_sizes_and_hosts_may_be_numpys_integers() -> None:
    def rank(comm):
        own, zero = np.int64(comm.rank), np.int64(0)
        first = comm.broadcast(np.full(2, 1.0 + comm.rank), zero)
        layer = parallel.VocabParallelEmbedding(comm, np.int64(4), np.int64(6))
        shapes = comm.empty(np.int64(4)).shape, comm.empty((np.int64(2), 3)).shape
        return first[0], len(comm.hosts), comm.split(own % 2).size, shapes, layer.weight.shape[0]

    hosts, link = np.int64(2), Link(1e-4, 1e-9)
    for result in ddp_lab.launch(rank, np.int64(2), hosts=hosts, link=link):
        assert result == (1.0, 2, 1, ((4,), (2, 3)), 2)


def test_predicted_times_may_be_numpys_numbers() -> None:
    expected = simulate.pipeline("1f1b", 2, 4, 1.0, 2.0)
    assert simulate.pipeline("1f1b", 2, 4, np.float32(1), np.int64(2)) == expected
    assert simulate.pipeline("1f1b", 2, 4, np.ones(2, np.float32), np.full(2, 2.0)) == expected
    steps = [
        simulate.ddp(forward, [1.0, 2.0], [8, 8], 8, lambda n_bytes: 0.5).step_time
        for forward in (1, np.float32(1), np.int64(1), [0.5, 0.5], np.array([0.5, 0.5]))
    ]
    assert len(set(steps)) == 1
