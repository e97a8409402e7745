"""Work of each kind that a machine does: it says how much it has done, and does that."""

import numpy as np
import pytest

from lessons.machine import FILE_BYTES, blocks, kinds_of_work, measured_rate, text_file


def test_each_kind_of_work_says_how_much_it_has_done() -> None:
    with kinds_of_work() as kinds:
        amounts = {name: work() for name, work in kinds.items()}
    assert amounts == {
        "disk bytes": FILE_BYTES,
        "memory bytes": 2 * (8 << 23),
        "pipe bytes": 1 << 23,
        "multiplications": 768**3,
        "messages": 200,
        "processes": 1,
        "calls": 20_000,
    }


def test_a_file_comes_whole_however_often_it_is_read() -> None:
    with text_file() as path:
        for _ in range(2):
            assert sum(block.count(b"\n") for block in blocks(path)) == FILE_BYTES // 32


@pytest.mark.parametrize("name", ["messages", "memory bytes"])
def test_a_rate_is_a_positive_number(name: str) -> None:
    assert 0 < measured_rate(name) < np.inf
