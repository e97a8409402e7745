"""Schedules equal torch's own tables, and tables that cannot run are refused."""

import importlib
import itertools
from unittest import mock

import pytest

from ddp_lab.parallel.pipeline.schedules import orders_of, schedule

CLASSES = {
    "interleaved_1f1b": "ScheduleInterleaved1F1B",
    "zero_bubble": "ScheduleInterleavedZeroBubble",
}


def table_of_torch(name: str, ranks: int, microbatches: int, chunks: int) -> list[list[str]]:
    """Return torch's table, without the idle slots that it draws."""
    stage = mock.Mock(group_rank=0, group_size=ranks, num_stages=ranks * chunks, submod=None)
    # half a second, which a process that only collects these tests need not spend
    torchs = importlib.import_module("torch.distributed.pipelining.schedules")
    order = getattr(torchs, CLASSES[name])([stage] * chunks, microbatches).pipeline_order
    return [[str(action) for action in order[rank] if action] for rank in range(ranks)]


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_tables_are_those_of_torch_and_refused_where_torch_refuses(name: str, ranks: int) -> None:
    for microbatches, chunks in itertools.product(range(1, 17), (1, 2, 3)):
        try:
            expected = table_of_torch(name, ranks, microbatches, chunks)
        except ValueError:
            with pytest.raises(ValueError, match="needs rounds of one size"):
                schedule(name, ranks, microbatches, chunks)
        else:
            assert schedule(name, ranks, microbatches, chunks) == expected


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "pipedream", *CLASSES])
def test_every_table_does_all_work_once_and_waits_for_nothing_that_does_not_come(name: str) -> None:
    for ranks, microbatches, chunks in itertools.product((1, 2, 3, 4), (1, 2, 4, 12), (1, 2, 3)):
        if chunks == 1 or name in CLASSES:
            orders_of(schedule(name, ranks, microbatches, chunks), ranks, microbatches, chunks)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ([["0F0", "0B0"], ["1B0", "1F0"]], "wait for each other: rank 0 waits at 0B0 for 1I0; "),
        ([["0F0", "0B0"], ["1F0"]], "rank 1 does not do its work once: 1B0 is missing"),
        ([["0F0", "0B0", "0B0"], ["1F0", "1B0"]], "rank 0 .* once: 0B0 is too much"),
        ([["0F0", "0B0"], ["1F0", "0B0"]], "rank 1 .* once: 0B0 is too much"),
        ([["0F0", "0I0"], ["1F0", "1B0"]], "rank 0 .* once: 0W0 is missing"),
        ([["0F0", "0B0"]], "one list a rank: got 1 lists, expected 2"),
        ([["0F0", "0X0"], ["1F0", "1B0"]], "no such action: got '0X0'"),
        ([["0F0", 3], ["1F0", "1B0"]], "no such action: got 3"),
    ],
)
def test_a_table_that_cannot_run_is_refused(table, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        orders_of(table, 2, 1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("1f1b", 2, 2, 2), "1f1b has one stage a rank: got chunks=2"),
        (("zero_bubble", 2, 5), "got microbatches=5 for 2 rounds .* Take microbatches=4"),
        (("1f1b", 2, True), "no such number of microbatches: got True"),
        (("1f1b", 2, 2, 0), "no such number of chunks: got 0"),
    ],
)
def test_numbers_that_make_no_schedule_are_refused(arguments, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        schedule(*arguments)
