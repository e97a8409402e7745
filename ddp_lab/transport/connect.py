"""A rank's transport by the name that `launch` was given; the ranks share a segment already.

Whatever else a transport needs to begin, such as the port of rank 0, is told through the segment.
"""

from typing import TYPE_CHECKING

from ddp_lab.transport.base import Transport
from ddp_lab.transport.board import inspect
from ddp_lab.transport.hosts import HostsTransport
from ddp_lab.transport.links.link import Hosts, Link, home_of
from ddp_lab.transport.links.measured_link import measure
from ddp_lab.transport.shm.board import ShmBoard
from ddp_lab.transport.shm.segment import Segment
from ddp_lab.transport.shm.shm import ShmTransport
from ddp_lab.transport.tcp.meeting import connect as tcp_connect
from ddp_lab.transport.tcp.meeting import listen
from ddp_lab.transport.tcp.tcp import TcpTransport
from ddp_lab.transport.waiting import Words

if TYPE_CHECKING:
    import torch

LOOPBACK = "127.0.0.1"
PORT_WORD = 12  # of rank 0's page of the board


def connect(
    transport: str,
    rank: int,
    segment: Segment,
    hosts: Hosts,
    link: Link | None = None,
    master: str = LOOPBACK,
    secret: bytes = b"",
) -> Transport:
    """Return this rank's end of the transport of this name.

    With several hosts it is what joins the ranks of each; a `link` joins hosts, or TCP if None,
    to which only those come in that know the secret. `master` is the address of rank 0's machine.
    """
    if len(hosts) > 1 and link is None:
        return _connect_hosts(rank, segment, hosts, master, secret)
    if len(hosts) > 1 and link is not None:
        return _connect_pretended(rank, segment, hosts, link)
    if transport == "tcp":
        return _connect_tcp(rank, segment)
    if transport in ("gloo", "nccl"):
        return _connect_c10d(transport, rank, segment)
    if transport == "cuda_ipc":
        from ddp_lab.transport.device_ipc import IpcTransport

        return IpcTransport(ShmTransport(segment, rank), device_of(rank))
    return ShmTransport(segment, rank)


def device_of(rank: int) -> "torch.device":
    """Return the GPU of a rank, made the current one: rank modulo their number."""
    import torch

    torch.cuda.set_device(rank % torch.cuda.device_count())
    return torch.device("cuda", torch.cuda.current_device())


def read_port(segment: Segment) -> int:
    """Return the number that rank 0 has told all others, 0 before that."""
    return int(segment.words[segment.layout.board(0) // 8 + PORT_WORD])


def post_port(segment: Segment, number: int) -> None:
    """Tell the ranks of this machine what rank 0 has told on its own."""
    words = Words(segment.words, segment.address, segment.layout.size)
    words.post(segment.layout.board(0) // 8 + PORT_WORD, number)


def share_port(rank: int, segment: Segment, number: int) -> int:
    """Return the number that rank 0 tells all others, which must not be 0."""
    if rank == 0:
        post_port(segment, number)
    else:
        words = Words(segment.words, segment.address, segment.layout.size)
        board, word = ShmBoard(segment), segment.layout.board(0) // 8 + PORT_WORD
        words.wait(word, 1, lambda: inspect(board, rank, 0))
    return read_port(segment)


def _connect_tcp(
    rank: int,
    segment: Segment,
    hosts: Hosts | None = None,
    master: str = LOOPBACK,
    secret: bytes = b"",
) -> TcpTransport:
    listener = listen((LOOPBACK if master == LOOPBACK else "", 0)) if rank == 0 else None
    port = share_port(rank, segment, listener.getsockname()[1] if listener else 0)
    size, board = segment.layout.size, ShmBoard(segment)
    return tcp_connect(rank, size, (master, port), listener, board, secret=secret, hosts=hosts)


def _connect_hosts(
    rank: int, segment: Segment, hosts: Hosts, master: str, secret: bytes
) -> Transport:
    here = segment.layout.size if master == LOOPBACK else len(home_of(rank, hosts))
    near = ShmTransport(segment, rank, here)
    far = _connect_tcp(rank, segment, hosts, master, secret)
    near.look_beyond(far.waits)
    transport = HostsTransport(near, far, hosts)
    transport.link = measure(transport, hosts)
    return transport


def _connect_pretended(rank: int, segment: Segment, hosts: Hosts, link: Link) -> Transport:
    from ddp_lab.transport.links.emulated_link import EmulatedLink
    from ddp_lab.transport.shm.interfaces import of_processes

    near = ShmTransport(segment, rank)
    far = EmulatedLink(near, hosts, link, of_processes(segment, hosts))
    return HostsTransport(near, far, hosts, link)


def _connect_c10d(backend: str, rank: int, segment: Segment) -> Transport:
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import TCPStore

    from ddp_lab.transport.c10d.device import DeviceC10dTransport

    size, host = segment.layout.size, "127.0.0.1"
    device = device_of(rank) if backend == "nccl" else torch.device("cpu")
    store = TCPStore(host, 0, size, True, wait_for_workers=False) if rank == 0 else None
    port = share_port(rank, segment, store.port if store else 0)
    store = store or TCPStore(host, port, size, False)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    return DeviceC10dTransport(device)
