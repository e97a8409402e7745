"""What a recorded run says about itself."""

import math
import time

import numpy as np
import pytest

import ddp_lab
from ddp_lab.launch import threads
from ddp_lab.transport.record import Recorder


def ring(comm):
    return comm.all_reduce(np.ones(12, np.float32), algorithm="ring")


@pytest.mark.parametrize("transport", ["threads", "shm", "tcp"])
def test_every_message_has_its_peer_bytes_operation_and_step(transport: str) -> None:
    trace = ddp_lab.launch(ring, 3, transport=transport, record=True).trace
    assert trace.world_size == 3
    assert len(trace.messages) == 3 * 4
    for message in trace.messages:
        assert message.dst == (message.src + 1) % 3
        assert message.n_bytes == 16
        assert message.op == "all_reduce:ring#0"
        assert message.sent_at <= message.received_at
    mine = sorted((m for m in trace.messages if m.src == 1), key=lambda m: m.step)
    assert [m.step for m in mine] == [0, 1, 2, 3]
    assert [m.sent_at for m in mine] == sorted(m.sent_at for m in mine)
    assert {span.op for span in trace.spans} == {"all_reduce:ring#0"}


def test_the_ranks_of_a_run_count_from_one_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Recorder):
        def __init__(self, *args: object, **options: object) -> None:
            time.sleep(0.05)  # as when the machine is busy between two ranks
            super().__init__(*args, **options)

    monkeypatch.setattr(threads, "Recorder", Slow)
    trace = ddp_lab.launch(ring, 3, transport="threads", record=True).trace
    assert all(message.sent_at <= message.received_at for message in trace.messages)


def test_shared_memory_counts_what_ranks_take_from_each_other() -> None:
    def rank(comm):
        comm.all_reduce(np.ones(8, np.float32), algorithm="one_shot")
        comm.all_reduce(np.ones(9000, np.float32), algorithm="two_shot")

    for traffic in ddp_lab.launch(rank, 3, record=True).traffic:
        assert traffic.bytes_sent == 2 * 32 + 4 * 12000
        assert traffic.messages_sent == 2 + 4


def test_a_message_that_nobody_received_has_no_arrival() -> None:
    def rank(comm):
        if comm.rank == 0:
            comm.send(np.zeros(1), 1)

    (message,) = ddp_lab.launch(rank, 2, transport="threads", record=True).trace.messages
    assert math.isnan(message.received_at)
    assert message.op == "send"


def test_a_run_without_a_record_says_how_to_get_one() -> None:
    run = ddp_lab.launch(ring, 2, transport="threads")
    with pytest.raises(ValueError, match="record=True"):
        _ = run.traffic
