"""Start ranks, collect their results, end all at the first failure and say which it was."""

import importlib.util
import inspect
from collections.abc import Callable
from typing import Any

from ddp_lab.arguments import check_count, check_name, is_cost, time_limit
from ddp_lab.errors import InvalidArgument
from ddp_lab.extras import describe_missing
from ddp_lab.launch.results import Results
from ddp_lab.launch.threads import LinkedThreadWorld, run_threads
from ddp_lab.transport.links.link import Hosts, Link, equal_hosts
from ddp_lab.transport.threads import ThreadWorld

PROCESSES = ("shm", "tcp", "gloo", "nccl", "cuda_ipc")
TRANSPORTS = ("shm", "tcp", "threads", "gloo", "nccl", "cuda_ipc", "cuda")
NEEDS = {  # a package that is not NumPy: its extra, and the transports that need it
    "cloudpickle": ("lab", PROCESSES),
    "torch": ("torch", ("gloo", "nccl", "cuda_ipc", "cuda")),
}

LAZY = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)


def launch(
    fn: Callable[..., Any],
    world_size: int,
    *args: Any,
    transport: str | ThreadWorld = "shm",
    timeout_s: float = 300.0,
    record: bool = False,
    hosts: int = 1,
    link: Link | None = None,
    cluster: Any = None,
) -> Results:
    """Call `fn(comm, *args)` on each of `world_size` ranks and return their results in order.

    Args:
        fn: any function, one defined in a notebook too.
        transport: `"shm"`, `"tcp"` or `"gloo"`, with a process a rank; `"threads"`, which share
            globals and so torch's random numbers (give each rank a `torch.Generator`); or a world
            of threads of your own, such as `TurnWorld(world_size, seed)`,
            `SimWorld(world_size, link)` or `DeviceWorld(world_size, device)`. On GPUs: `"nccl"`, a
            process and a GPU a rank; `"cuda_ipc"`, processes that may share GPUs; `"cuda"`, NCCL
            where there are GPUs enough, else virtual ranks on one.
        timeout_s: how long the run may take, from when all ranks have begun.
        record: keep every message; see `Results.traffic` and `Results.trace`.
        hosts: the ranks lie on so many hosts, in equal runs of neighbours, and share memory only
            inside of one (`transport` "shm" or "threads").
        link: what joins the hosts, in real seconds: each has one interface, full duplex, which
            its ranks share. None is TCP on this machine, as fast as it goes.
        cluster: the address of a Dask scheduler, or its `distributed.Client`: a rank takes the
            place of a thread of its workers, in a process of its own. Ranks of one host share
            memory, hosts are joined by TCP.
    Raises:
        RankFailed: a rank raised or was killed; names the first guilty one, with its traceback.
        RankTimeout: the time is over; says who waits for whom, and where.
    """
    world_size = _check_call(fn, world_size)
    timeout_s = time_limit("launch", timeout_s)
    places = equal_hosts(world_size, hosts)
    _check_hosts(places, link, transport)
    if cluster is not None:
        if transport != "shm" or len(places) > 1 or link is not None:
            raise InvalidArgument(
                f"launch: a cluster has hosts and links of its own: got transport={transport!r}, "
                f"hosts={hosts}, link={link}. Leave these out."
            )
        from ddp_lab.launch.cluster import launch_on_cluster

        return launch_on_cluster(fn, world_size, args, timeout_s, record, cluster)
    if not isinstance(transport, ThreadWorld):
        transport = _available(transport, world_size)
    if transport == "threads":
        linked = None if link is None else LinkedThreadWorld(world_size, places, link)
        transport = linked or ThreadWorld(world_size)
    if isinstance(transport, ThreadWorld):
        return _launch_world(fn, world_size, args, transport, timeout_s, record)
    from ddp_lab.launch.processes import launch_processes

    return launch_processes(fn, world_size, args, transport, timeout_s, record, places, link)


def _check_call(fn: Any, world_size: Any) -> int:
    """Return the number of ranks."""
    if not callable(fn):
        raise InvalidArgument(
            f"launch: not a function: got {fn!r}, expected fn(comm, *args). Pass the function."
        )
    if any(is_lazy(fn) for is_lazy in LAZY):
        raise InvalidArgument(
            f"launch: a call of the function does not run it: got {fn!r}, which is async or "
            "yields, expected a plain one. Pass lambda comm: asyncio.run(fn(comm)), or list(...)."
        )
    check_count("launch", "ranks", world_size)
    return int(world_size)


def _available(transport: Any, world_size: int) -> str | ThreadWorld:
    """Return what a transport's name comes to on this machine."""
    check_name("launch", "transport", transport, TRANSPORTS)
    for module, (extra, users) in NEEDS.items():
        if transport in users and importlib.util.find_spec(module) is None:
            raise InvalidArgument(describe_missing("launch", extra, f"No module named {module!r}"))
    if transport not in ("cuda", "nccl", "cuda_ipc"):
        return str(transport)
    import torch

    return on_gpus(transport, world_size, torch.cuda.device_count())


def _check_hosts(hosts: Hosts, link: Link | None, transport: str | ThreadWorld) -> None:
    """Refuse what no link can be between."""
    if link is not None and not (isinstance(link, Link) and is_cost(link.alpha, link.beta)):
        raise InvalidArgument(
            f"launch: no such link: got {link!r}, expected Link(alpha, beta) in seconds a message "
            "and seconds a byte, 0 or more. Link(1e-3, 1 / 50e6) is 1 ms and 50 MB/s."
        )
    if len(hosts) == 1 and link is None:
        return
    if transport not in ("shm", "threads") or (transport == "threads" and link is None):
        raise InvalidArgument(
            f"launch: hosts are joined by a link, or processes by TCP: got transport={transport!r} "
            f"with hosts={len(hosts)} and link={link}. Use transport='shm', or give a link."
        )


def on_gpus(transport: str, world_size: int, count: int) -> str | ThreadWorld:
    """Return what carries so many ranks on `count` GPUs.

    Raises:
        InvalidArgument: there are none, or not one for each rank, which NCCL wants.
    """
    if not count or (transport == "nccl" and count < world_size):
        instead = "'cuda', whose ranks may share one" if count else "'shm'"
        raise InvalidArgument(
            f"launch: not enough GPUs for {transport!r}: got {count}, expected "
            f"{world_size if transport == 'nccl' else 1} or more. Use transport={instead}, "
            "or DeviceWorld(world_size, 'cpu') for the same code on the CPU."
        )
    if transport != "cuda":
        return transport
    if count >= world_size:
        return "nccl"
    from ddp_lab.transport.device import DeviceWorld

    return DeviceWorld(world_size, "cuda")


def _launch_world(
    fn: Callable[..., Any],
    world_size: int,
    args: tuple[Any, ...],
    world: ThreadWorld,
    timeout_s: float,
    record: bool,
) -> Results:
    if world.size != world_size:
        raise InvalidArgument(
            f"launch: the world has another size: got {world.size}, expected {world_size}. "
            "Make a new world for each run."
        )
    return run_threads(fn, world, args, timeout_s, record)
