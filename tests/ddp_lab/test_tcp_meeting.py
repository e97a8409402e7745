"""How ranks meet over TCP, and what becomes of those who are none of them."""

import socket
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ddp_lab import InvalidArgument, RankLost, RankTimeout
from ddp_lab.transport.tcp import tcp
from ddp_lab.transport.tcp.meeting import HELLO, HELLO_S, MAGIC, connect, listen

SECRET = b"of this job"
STRANGERS = {
    "a browser": (b"GET / HTTP/1.1\r\n\r\n", "does not speak as a rank does"),
    "another job": (HELLO.pack(MAGIC, b"of another", 2, 1, 0), "its secret is not ours"),
    "a huge frame": (tcp.FRAME.pack(0, 0, 1 << 40, 0), "does not speak as a rank does"),
    "a second rank 0": (HELLO.pack(MAGIC, SECRET.ljust(16, b"\0"), 2, 0, 0), "rank 0 is here"),
}


def knock(address, words: bytes = b"") -> socket.socket:
    link = socket.create_connection(address)
    link.sendall(words)
    return link


def run(rank: int, size: int, listener: socket.socket, **options):
    own = listener if rank == 0 else None
    master = "127.0.0.1", listener.getsockname()[1]
    return connect(rank, size, master, own, secret=SECRET, **options)


def test_strangers_delay_nobody_and_are_named(caplog: pytest.LogCaptureFixture) -> None:
    listener = listen(("127.0.0.1", 0))
    address = listener.getsockname()
    silent = [knock(address) for _ in range(20)]  # they say nothing, and stay
    others = [knock(address, words) for words, _ in STRANGERS.values()]
    halting = knock(address, MAGIC[:3])
    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(lambda rank: run(rank, 2, listener, timeout_s=60.0), range(2)))
    assert HELLO_S * len(silent) > 60.0  # or waiting for each in turn would do
    ends[1].isend(np.arange(3), 0)
    assert ends[0].irecv(1).wait().tolist() == [0, 1, 2]
    for _, why in STRANGERS.values():
        assert why in caplog.text
    for link in (*silent, *others, halting, *ends):
        link.close()


def test_a_rank_that_does_not_come_is_named_with_those_who_came_instead() -> None:
    listener = listen(("127.0.0.1", 0))
    stranger = knock(listener.getsockname(), b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(RankTimeout, match=r"rank 1 did not come.* Turned away: 127.0.0.1:\d+: it"):
        run(0, 2, listener, timeout_s=0.5)
    stranger.close()


def test_hosts_that_disagree_on_the_number_of_ranks_say_so() -> None:
    listener = listen(("127.0.0.1", 0))
    address = listener.getsockname()
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(connect, 1, 3, address, timeout_s=30.0)
        with pytest.raises(InvalidArgument, match=r"rank 1 has 3, this one 2\. Start all with the"):
            connect(0, 2, address, listener, timeout_s=30.0)
        assert isinstance(other.exception(), RankTimeout)


@pytest.mark.parametrize("rank", [0, 1])
def test_two_jobs_on_one_store_say_so(rank: int) -> None:
    from torch.distributed import HashStore

    from ddp_lab.torch_backend.rendezvous import meet

    store = HashStore()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(meet, store, rank, 3, 60.0)
        while not store.check([f"ask/{rank}"]):
            pass
        with pytest.raises(RankTimeout, match="not all ranks came"):
            meet(store, rank, 3, 0.5)  # the other's, which waits for its own
        error = first.exception()
    assert isinstance(error, InvalidArgument)
    assert f"two processes are rank {rank}: two jobs meet on one store" in str(error)


def test_ranks_that_have_met_make_groups_without_meeting_and_miss_who_does_not_come() -> None:
    from torch.distributed import HashStore

    from ddp_lab.torch_backend.rendezvous import Roster, join, meet

    store = HashStore()
    with ThreadPoolExecutor(3) as pool:
        worlds = list(pool.map(lambda rank: meet(store, rank, 3, 60.0), range(3)))
        assert worlds[0] == worlds[1] == worlds[2]
        parts = [worlds[rank].part([2, 0], "a group") for rank in (2, 0)]
        assert parts[0] is not None and parts[0] == parts[1]
        again = worlds[0].part([2, 0], "a group")  # torch gives the name of an ended group again
        assert again is not None and again.name != parts[0].name
        transports = list(pool.map(lambda r: join(store, r, parts[0], 60.0), range(2)))
        sent = transports[0].isend(np.arange(3), 1)
        assert transports[1].irecv(0).wait().tolist() == [0, 1, 2]
        sent.wait()
        alone = [pool.submit(meet, HashStore(), rank, 3, 0.1) for rank in range(2)]
        assert "ranks 1, 2 did not" in str(alone[0].exception())
        assert "rank 0 did not" in str(alone[1].exception())
        two = HashStore()
        for met in [pool.submit(meet, two, rank, 3, 0.5) for rank in range(2)]:
            assert "not all ranks came: ranks 2 did not" in str(met.exception())
    for rank in range(2):
        with pytest.raises(RankTimeout, match=f"not all ranks came: rank {1 - rank} did not"):
            join(store, rank, Roster(f"alone {rank}", "", ["one", "one"], {}), 0.1)
        with pytest.raises(RankTimeout, match=rf"rank {1 - rank} did"):
            join(store, rank, Roster(f"apart {rank}", "", ["one", "two"], {}), 0.1)
    # unlike links are measured by those that use them, who meet for it
    far = Roster("far", "", ["one", "two", "three"], {"one|two": (1e-3, 1e-8)})
    assert far.part([1, 0], "known") is not None and far.part([0, 2], "unknown") is None


def test_ranks_that_make_groups_in_different_orders_never_meet_as_one() -> None:
    from ddp_lab.torch_backend.rendezvous import Roster

    def world() -> Roster:
        return Roster("met", "", ["one"] * 4, {})

    of_rank_0, of_rank_2 = world().part([0, 1], "1"), world().part([2, 3], "1")
    assert of_rank_0 is not None and of_rank_2 is not None
    assert of_rank_0.name != of_rank_2.name


def test_last_words_of_an_error_without_a_message_are_its_name() -> None:
    from ddp_lab.transport.tcp.local_board import last_words

    before = getattr(sys, "last_value", None)
    try:
        sys.last_value = KeyboardInterrupt()
        assert last_words() == b"KeyboardInterrupt"
        sys.last_value = ValueError("first line\nsecond")
        assert last_words() == b"ValueError: first line"
    finally:
        sys.last_value = before


def test_a_port_that_is_taken_is_named() -> None:
    with listen(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidArgument, match=rf"127.0.0.1:{port}: in use by another program"):
            listen(("127.0.0.1", port))
    with pytest.raises(InvalidArgument, match=r"cannot listen at 192.0.2.1:29400"):
        listen(("192.0.2.1", 29400))  # an address of nobody's, for documentation


def test_an_address_where_nobody_listens_is_named() -> None:
    with pytest.raises(RankTimeout, match=r"nobody listens at 127.0.0.1:1: .*MASTER_ADDR"):
        connect(1, 2, ("127.0.0.1", 1), timeout_s=0.2)
    with pytest.raises(RankTimeout, match=r"nobody listens at no.such.host.invalid"):
        connect(1, 2, ("no.such.host.invalid", 1), timeout_s=60.0)


def test_who_does_not_listen_as_a_rank_does_is_named() -> None:
    def answer(web: socket.socket) -> None:
        link, _ = web.accept()
        with link:
            link.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            link.recv(HELLO.size)

    with socket.create_server(("127.0.0.1", 0)) as web, ThreadPoolExecutor(1) as pool:
        pool.submit(answer, web)
        with pytest.raises(RankTimeout, match="rank 0 did not answer as a rank of this job"):
            connect(1, 2, web.getsockname(), timeout_s=30.0)


def test_a_host_that_is_silent_is_lost_to_every_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = listen(("127.0.0.1", 0))
    hosts = ((0,), (1, 2), (3,))
    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(lambda rank: run(rank, 4, listener, hosts=hosts), range(4)))
    gone = {ends[0]._connections[peer].link for peer in (1, 2)}
    monkeypatch.setattr(tcp, "seconds_of_silence", lambda link: 9.5 if link in gone else 0.0)
    monkeypatch.setattr(tcp, "WATCH_S", 0.01)
    with pytest.raises(
        RankLost,
        match=r"rank [12] has failed \(host \S+ \(127.0.0.1\) of ranks 1, 2 is silent: nothing "
        r"heard for 9.5 s\). See whether its machine",
    ):
        ends[0].irecv(3).wait()  # who is alive, and would not be sent anything either
    for end in ends:
        end.close()


def test_a_large_message_both_ways_at_once_needs_no_receiver() -> None:
    """Both send more than the system takes before either receives."""
    listener = listen(("127.0.0.1", 0))
    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(lambda rank: run(rank, 2, listener), range(2)))
        x = np.arange(4_000_000, dtype=np.float64)
        list(pool.map(lambda rank: ends[rank].isend(x + rank, 1 - rank), range(2)))
    for rank in range(2):
        np.testing.assert_array_equal(ends[rank].irecv(1 - rank).wait(), x + 1 - rank)
        ends[rank].close()


def test_a_message_goes_into_the_buffer_that_waits_for_it() -> None:
    listener = listen(("127.0.0.1", 0))
    with ThreadPoolExecutor(2) as pool:
        sender, receiver = pool.map(lambda rank: run(rank, 2, listener), range(2))
    x = np.arange(100_000.0)
    buffer, other = np.zeros_like(x), np.zeros(3)
    works = [receiver.irecv(0, buffer=other), receiver.irecv(0, buffer=buffer)]
    sender.isend(x[:3], 1)
    sender.isend(x, 1)
    assert works[1].wait() is buffer
    assert works[0].wait() is other
    np.testing.assert_array_equal(buffer, x)
    np.testing.assert_array_equal(other, x[:3])
    sender.close()
    receiver.close()
