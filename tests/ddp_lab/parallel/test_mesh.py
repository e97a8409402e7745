"""Meshes: ranks by the names of axes."""

from typing import Any

import numpy as np
import pytest

import ddp_lab
from ddp_lab.parallel import Mesh

AXES = {"pp": 2, "dp": 1, "tp": 3}


def look(comm: Any) -> Any:
    mesh = Mesh(comm, AXES)
    along = {name: mesh[name].all_gather(np.array([comm.rank])).ravel().tolist() for name in AXES}
    ranks = {name: mesh[name].rank for name in AXES}
    return mesh.coordinates, ranks, along


def test_an_axis_joins_the_ranks_that_are_equal_on_all_others() -> None:
    places = np.arange(6).reshape(tuple(AXES.values()))  # NumPy's row-major order
    for rank, (coordinates, ranks, along) in enumerate(ddp_lab.launch(look, 6)):
        at = tuple(int(i) for i in np.argwhere(places == rank)[0])
        assert coordinates == ranks == dict(zip(AXES, at, strict=True))
        for axis, name in enumerate(AXES):
            line = [slice(None) if i == axis else n for i, n in enumerate(at)]
            assert along[name] == places[tuple(line)].tolist()


BAD: list[tuple[Any, str]] = [
    ({"dp": 2, "tp": 2}, r"'tp': 2} on rank \d, expected .* product is 2"),
    ({"dp": 2, "tp": 0}, "sizes above 0"),
    ({}, "got {} on rank"),
    ({"dp": 2.0}, "got {'dp': 2.0}"),
    (2, "got 2 on rank"),
]


def misuse(comm: Any) -> int:
    for axes, says in BAD:
        with pytest.raises(ddp_lab.InvalidArgument, match=says):
            Mesh(comm, axes)
    with pytest.raises(ddp_lab.Mismatch, match=r"rank 0 has axes {'dp': 2}, rank 1 has axes"):
        Mesh(comm, {"dp": 2} if comm.rank == 0 else {"tp": 2})
    with pytest.raises(ddp_lab.InvalidArgument, match=r"got 'tp' on rank ., expected one of dp"):
        Mesh(comm, {"dp": 2})["tp"]
    comm.barrier()
    return len(BAD)


def test_axes_that_do_not_fit_are_named_on_all_ranks() -> None:
    assert ddp_lab.launch(misuse, 2) == [len(BAD)] * 2
