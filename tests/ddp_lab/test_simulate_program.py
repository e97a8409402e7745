"""A function of a rank on the virtual clock, held against closed forms."""

from typing import Any

import numpy as np
import pytest

from ddp_lab import simulate
from ddp_lab.errors import InvalidArgument

ALPHA, BETA, GAMMA = 1e-5, 1e-9, 5e-10


def ring_reduce_scatter(comm: Any, x: Any) -> Any:
    chunks = np.split(x.copy(), comm.size)
    for step in range(comm.size - 1):
        comm.send(chunks[(comm.rank - 1 - step) % comm.size], (comm.rank + 1) % comm.size)
        mine = chunks[(comm.rank - 2 - step) % comm.size]
        mine[...] = np.add(comm.recv((comm.rank - 1) % comm.size), mine)
    return chunks[comm.rank]


def in_pieces(comm: Any, x: Any) -> None:
    """Rank 0 sends 8 pieces; rank 1 adds each as it comes."""
    for piece in np.split(x, 8):
        if comm.rank == 0:
            comm.send(piece, 1)
        else:
            np.add(piece, comm.recv(0), out=piece)


@pytest.mark.parametrize("world_size", [1, 2, 5, 8])
@pytest.mark.parametrize("n_bytes", [0, 1000, 2**30])
def test_a_ring_takes_what_its_closed_form_says(world_size: int, n_bytes: int) -> None:
    steps, chunk = world_size - 1, n_bytes / world_size
    right = steps * (ALPHA + chunk * (BETA + GAMMA))
    took = simulate.program(ring_reduce_scatter, n_bytes, world_size, ALPHA, BETA, GAMMA)
    assert took == pytest.approx(right, rel=1e-12)


def test_a_piece_is_added_while_the_next_is_on_its_way() -> None:
    """The link is the slower: 8 messages follow each other, and the last piece is added."""
    took = simulate.program(in_pieces, 2**20, 2, ALPHA, BETA, GAMMA)
    assert took == pytest.approx(8 * ALPHA + 2**20 * BETA + 2**17 * GAMMA, rel=1e-12)


def test_a_run_of_no_ranks_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="0 ranks"):
        simulate.program(in_pieces, 8, 0, ALPHA, BETA)
