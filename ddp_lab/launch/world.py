"""The communicator of a process that somebody else started as a rank."""

import hashlib
import os

from ddp_lab.arguments import time_limit
from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument
from ddp_lab.transport.base import Transport
from ddp_lab.transport.tcp.meeting import connect
from ddp_lab.transport.threads import ThreadWorld

_given: Communicator | None = None


def give(comm: Communicator) -> None:
    """Make `comm` what `init` returns; called where ranks are started."""
    global _given
    _given = comm


def init(timeout_s: float = 60.0) -> Communicator:
    """Return this process's communicator; the same one at every call.

    Under `python -m ddp_lab run` it is the one of that run. Under torchrun ranks find each other
    through its store, after a restart too, and share memory where all are on one machine. With
    RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set by hand they are joined by TCP, and only those
    come in whose DDP_LAB_SECRET is the same. Otherwise it is a world of one rank.

    Raises:
        InvalidArgument: some of these variables are missing or no numbers, or no time to wait.
        RankTimeout: the other ranks did not come within `timeout_s`.
    """
    global _given
    timeout_s = time_limit("init", timeout_s)
    if _given is None:
        _given = Communicator(_from_environment(timeout_s))
    return _given


def _from_environment(timeout_s: float) -> Transport:
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    values = {name: os.environ.get(name, "") for name in names}
    if not values["RANK"] and not values["WORLD_SIZE"]:
        return ThreadWorld(1).transport(0)
    try:
        rank, size, port = (int(values[n]) for n in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
    except ValueError as error:
        raise InvalidArgument(
            f"init: the environment does not describe a run: got {values}, expected RANK, "
            "WORLD_SIZE and MASTER_PORT as numbers. Start with torchrun, or set all four."
        ) from error
    if not 0 <= rank < size:
        raise InvalidArgument(
            f"init: no such rank: got RANK={rank}, expected 0 to {size - 1}. "
            "Give each process its own RANK."
        )
    if "TORCHELASTIC_RUN_ID" in os.environ:
        from ddp_lab.torch_backend.rendezvous import join_torchrun

        return join_torchrun(timeout_s)
    word = os.environ.get("DDP_LAB_SECRET", "")
    secret = hashlib.sha256(word.encode()).digest()[:16] if word else b""
    master = values["MASTER_ADDR"] or "127.0.0.1", port
    return connect(rank, size, master, timeout_s=timeout_s, secret=secret)
