"""A parameter server: some ranks keep the parameters, the others pull them and push gradients.

    ps = ParameterServer(comm, params, optimizer=SGD(0.1), servers=1)
    if ps.is_server:
        ps.serve()
    else:
        for x, y in batches:
            w = ps.pull()
            ps.push(gradients(w, x, y))
        ps.done()
    trained = ps.final()

May import: NumPy, agreement, arrays, communicator, errors, transport, this folder.

Source: Li et al., Scaling Distributed Machine Learning with the Parameter Server, OSDI 2014.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ddp_lab.arrays import to_numpy
from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument
from ddp_lab.parallel.agreement import agree, digest_of
from ddp_lab.parallel.parameter_server.consistency import CONSISTENCIES, Progress
from ddp_lab.parallel.parameter_server.messages import Report
from ddp_lab.parallel.parameter_server.optimizers import Optimizer
from ddp_lab.parallel.parameter_server.pieces import share_out
from ddp_lab.parallel.parameter_server.server import Server
from ddp_lab.parallel.parameter_server.store import Store
from ddp_lab.parallel.parameter_server.worker import Worker, kinds_of
from ddp_lab.transport.base import NDArray

PREVIEW = 3  # elements of an array that a message shows


class ParameterServer:
    """One rank's view of a parameter server; every rank of `comm` makes it at the same time.

    Args:
        comm: the ranks; the first `servers` serve, the others work.
        params: name to array (NumPy or torch), equal on all ranks; not changed.
        optimizer: `SGD`, `Adagrad`, or anything with `step(name, param, grad)` in place; each
            server steps it on its pieces.
        servers: how many ranks serve; arrays are shared out among them, large ones in pieces.
        consistency: "sync": step t applies the mean over all workers' gradients of step t (of
            those not done; an array that a worker's push leaves out has gradient zero there).
            "async": each gradient on arrival. "ssp": the same, and a pull waits while this worker
            is more than `staleness` steps ahead of the slowest.
        staleness: for "ssp" alone.
        backups: for "sync" alone: step t applies the mean of the first `workers - backups`
            gradients of step t; later ones are dropped, and counted.

    A worker that dies ends synchronous and stale-synchronous runs on every rank with its name;
    asynchronous runs go on, and synchronous ones while no more than `backups` have died. A server
    that dies ends every run with its name. A call that is wrong on one rank raises on every rank.
    Raises:
        InvalidArgument: on every rank, an argument that makes no sense on one of them.
        Mismatch: on every rank, an argument or an array in which two ranks differ.
    """

    def __init__(
        self,
        comm: Communicator,
        params: Mapping[str, Any],
        *,
        optimizer: Optimizer,
        servers: int = 1,
        consistency: str = "sync",
        staleness: int = 0,
        backups: int = 0,
    ) -> None:
        options = {
            "consistency": consistency,
            "servers": servers,
            "staleness": staleness,
            "backups": backups,
        }
        agree(
            comm,
            "ParameterServer",
            lambda: _facts(comm, params, optimizer, options),
            step="Make it with equal arguments on every rank; give all the arrays of one, for "
            "example by comm.broadcast",
        )
        own = comm.split(0)
        assert own is not None
        own.tolerate(range(servers, comm.size))
        arrays = _arrays(params)
        pieces = share_out(arrays, servers)
        kinds = kinds_of(params)
        self.is_server = comm.rank < servers
        self._server: Server | None = None
        self._worker: Worker | None = None
        if not self.is_server:
            first_decides = backups > 0 and servers > 1
            self._worker = Worker(own, pieces, kinds, servers, first_decides)
            return
        workers = range(servers, comm.size)
        progress = Progress(consistency, workers, staleness, backups, comm.rank == 0 or not backups)
        mine = optimizer.fresh() if hasattr(optimizer, "fresh") else optimizer
        store = Store(pieces, comm.rank, arrays, kinds, mine)
        self._server = Server(own, store, progress)

    @property
    def report(self) -> Report:
        """What happened so far on this rank."""
        return (self._server or self._as_worker("report")).report

    def serve(self) -> None:
        """Answer the workers until all have called `done`, or died where a run goes on."""
        if self._server is None:
            raise InvalidArgument(
                "serve: this rank is a worker. Call it where ps.is_server is true; a worker "
                "calls pull, push and done."
            )
        self._server.serve()

    def pull(self, names: Iterable[str] | None = None) -> dict[str, Any]:
        """Return the parameters, or those of these names; waits as the consistency says."""
        return self._as_worker("pull").pull(names)

    def push(self, grads: Mapping[str, Any]) -> None:
        """Send the gradients of this worker's step, by name; returns at once.

        A gradient is an array of its parameter's shape, or `(indices, rows)` for some rows, where
        an index may repeat: its rows are added. None, or no entry, is no gradient.
        """
        self._as_worker("push").push(grads)

    def done(self) -> None:
        """Say that this worker pushes nothing more."""
        self._as_worker("done").done()

    def final(self) -> dict[str, Any]:
        """Return the parameters after the end; every rank that is left calls it.

        After a failure that a rank has seen it gives the parameters as they were then.
        """
        return self._server.final() if self._server else self._as_worker("final").final()

    def _as_worker(self, operation: str) -> Worker:
        if self._worker is None:
            raise InvalidArgument(
                f"{operation}: this rank is a server. Call ps.serve() where ps.is_server is true."
            )
        return self._worker


def _facts(
    comm: Communicator, params: Mapping[str, Any], optimizer: Any, options: dict[str, Any]
) -> dict[str, str]:
    """Return what ranks must agree on, by name.

    Raises:
        InvalidArgument: an argument makes no sense; names this rank.
    """
    rank, most = comm.rank, comm.size - 1
    if options["consistency"] not in CONSISTENCIES:
        _refuse(rank, "consistency", options["consistency"], f"one of {', '.join(CONSISTENCIES)}")
    limits = {"servers": (1, most), "staleness": (0, None), "backups": (0, most)}
    for name, (least, greatest) in limits.items():
        value = options[name]
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            _refuse(rank, name, value, "a whole number")
        if name == "backups":
            greatest = most - options["servers"]
        if value < least or (greatest is not None and value > greatest):
            upper = "or more" if greatest is None else f"to {greatest} with {comm.size} ranks"
            _refuse(rank, name, value, f"{least} {upper}")
    if options["backups"] and options["consistency"] != "sync":
        _refuse(rank, "backups", options["backups"], "0 unless consistency='sync'")
    if comm.takes_turns:
        _refuse(
            rank, "comm", comm, "ranks that run at the same time: a server waits for any of them"
        )
    if isinstance(optimizer, type) or not callable(getattr(optimizer, "step", None)):
        _refuse(rank, "optimizer", optimizer, "an object with step(name, param, grad)")
    if not isinstance(params, Mapping) or not params:
        _refuse(rank, "params", params, "a dict of name to array, not empty")
    facts = {name: repr(value) for name, value in options.items()}
    optimizer_text = (
        repr(optimizer) if hasattr(optimizer, "fresh") else type(optimizer).__qualname__
    )
    facts["the optimizer"] = optimizer_text
    return facts | {f"array {name!r}": _describe(x) for name, x in _arrays(params).items()}


def _refuse(rank: int, name: str, value: Any, expected: str) -> None:
    raise InvalidArgument(
        f"ParameterServer: {name} makes no sense: got {value!r:.80} on rank {rank}, expected "
        f"{expected}. Mend this argument."
    )


def _arrays(params: Mapping[str, Any]) -> dict[str, NDArray]:
    return {str(name): to_numpy(x, "ParameterServer")[0] for name, x in params.items()}


def _describe(x: NDArray) -> str:
    some = " ".join(map(str, x.reshape(-1)[:PREVIEW].tolist()))
    return f"{x.dtype} {x.shape} beginning {some} (digest {digest_of(x)})"
