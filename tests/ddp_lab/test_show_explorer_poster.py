"""The explorer's still picture: names of any length stand inside it."""

import re

import pytest

import ddp_lab
from ddp_lab.show import CollectivesExplorer, explore

LETTER = 7  # pixels a letter, in 12 px type


@pytest.mark.parametrize("name", ["mine", "my_scatter_and_then_all_gather"])
def test_the_name_of_an_algorithm_ends_inside_the_picture(name: str) -> None:
    ddp_lab.register_algorithm("broadcast", name, lambda comm, x, *, root: comm.broadcast(x, root))
    rows = explore([4], {"broadcast": (name, "reference")})
    poster = CollectivesExplorer(rows, ranks=4).poster()
    (width,) = re.findall(r'<svg[^>]* width="(\d+)"', poster)
    (at,) = re.findall(rf'<text x="([\d.]+)"[^>]*>{name}</text>', poster)
    assert float(at) + LETTER * len(name) <= int(width)
