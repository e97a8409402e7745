"""A rank's transport by the name that `launch` was given; the ranks share a segment already.

Whatever else a transport needs to begin, such as the port of rank 0, is told through the segment.
"""

from typing import TYPE_CHECKING

from ddp_lab.transport.base import Transport
from ddp_lab.transport.board import inspect
from ddp_lab.transport.hosts import HostsTransport
from ddp_lab.transport.link import Hosts, Link
from ddp_lab.transport.segment import Segment
from ddp_lab.transport.shm import ShmTransport
from ddp_lab.transport.shm_board import ShmBoard
from ddp_lab.transport.tcp_meeting import connect as tcp_connect
from ddp_lab.transport.tcp_meeting import listen
from ddp_lab.transport.waiting import Words

if TYPE_CHECKING:
    import torch

TOLD_WORD = 12  # of rank 0's page of the board


def connect(
    transport: str, rank: int, segment: Segment, hosts: Hosts, link: Link | None = None
) -> Transport:
    """Return this rank's end of the transport of this name.

    With several hosts it is what joins the ranks of each; a `link` joins hosts, or TCP if None.
    """
    if len(hosts) > 1:
        return _connect_hosts(rank, segment, hosts, link)
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


def _tell(rank: int, segment: Segment, number: int) -> int:
    """Return the number that rank 0 tells all others, which must not be 0."""
    words = Words(segment.words, segment.address, segment.layout.size)
    board, word = ShmBoard(segment), segment.layout.board(0) // 8 + TOLD_WORD
    if rank == 0:
        words.post(word, number)
    else:
        words.wait(word, 1, lambda: inspect(board, rank, 0))
    return int(segment.words[word])


def _connect_tcp(rank: int, segment: Segment, hosts: Hosts | None = None) -> Transport:
    listener = listen(("127.0.0.1", 0)) if rank == 0 else None
    port = _tell(rank, segment, listener.getsockname()[1] if listener else 0)
    size, board = segment.layout.size, ShmBoard(segment)
    return tcp_connect(rank, size, ("127.0.0.1", port), listener, board, hosts=hosts)


def _connect_hosts(rank: int, segment: Segment, hosts: Hosts, link: Link | None) -> Transport:
    near = ShmTransport(segment, rank)
    if link is None:
        return HostsTransport(near, _connect_tcp(rank, segment, hosts), hosts)
    from ddp_lab.transport.emulated_link import EmulatedLink, SharedInterfaces

    far = EmulatedLink(near, hosts, link, SharedInterfaces(segment, hosts))
    return HostsTransport(near, far, hosts, link)


def _connect_c10d(backend: str, rank: int, segment: Segment) -> Transport:
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import TCPStore

    from ddp_lab.transport.c10d_device import DeviceC10dTransport

    size, host = segment.layout.size, "127.0.0.1"
    device = device_of(rank) if backend == "nccl" else torch.device("cpu")
    store = TCPStore(host, 0, size, True, wait_for_workers=False) if rank == 0 else None
    port = _tell(rank, segment, store.port if store else 0)
    store = store or TCPStore(host, port, size, False)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    return DeviceC10dTransport(device)
