"""A torch process group whose collectives are those of a `Communicator`.

The methods are the ones that torch calls, by its names and with its arguments; the older names of
some of them stand beside the newer ones.
"""

import hashlib
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.futures import Future

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument, OutOfSharedMemory
from ddp_lab.handle import Crew, Handle, Worker
from ddp_lab.torch_backend.eager import eager
from ddp_lab.torch_backend.future import Name, name_of_call
from ddp_lab.torch_backend.monitored_barrier import monitored_barrier
from ddp_lab.torch_backend.work import Gathered, Received, Result, Running, fill, fill_all
from ddp_lab.transport import header as headers

# torch's own signatures are overloaded, and differ between its versions.
TorchGroup: Any = dist.ProcessGroup
create_work: Any = torch._C._distributed_c10d._create_work_from_future  # type: ignore[attr-defined]

LANES = 2  # of a group over several hosts

ALGORITHMS: dict[str, str] = {}


def algorithm_of(collective: str) -> str:
    """Return the algorithm that this process uses for a collective."""
    return ALGORITHMS.get(collective, "auto")


def operation_of(op: Any) -> str:
    """Return our name of a torch reduction.

    Raises:
        InvalidArgument: it has none, as PREMUL_SUM.
    """
    names = {
        dist.ReduceOp.SUM: "sum",
        dist.ReduceOp.AVG: "avg",
        dist.ReduceOp.PRODUCT: "prod",
        dist.ReduceOp.MIN: "min",
        dist.ReduceOp.MAX: "max",
        dist.ReduceOp.BAND: "band",
        dist.ReduceOp.BOR: "bor",
        dist.ReduceOp.BXOR: "bxor",
    }
    for known, name in names.items():
        if op == known:
            return name
    raise InvalidArgument(
        f"ddp_lab backend: unknown reduction: got {op}, expected one of "
        f"{', '.join(names.values())}."
    )


class Lane:
    """A thread that runs collectives one after another, as a communicator of their own.

    A group of one host has one. Over a link there are two that take turns: the link carries one
    collective while the next is added up inside the hosts, and is never idle between them.
    """

    def __init__(self, comm: Communicator, name: str) -> None:
        self.comm = comm
        self.worker = Worker(f"ddp_lab group {name}")
        self.last = Handle()  # of the last collective that was left to the thread
        self.last.finish()


class ProcessGroup(TorchGroup):  # type: ignore[misc]
    """A group of ranks over a `Communicator`."""

    def __init__(self, comm: Communicator, timeout_s: float) -> None:
        super().__init__(comm.rank, comm.size)
        self.comm = comm
        self._timeout_s = timeout_s
        self._group_name = ""
        self._calls = itertools.count()
        self._barriers = itertools.count()
        self._lanes = [
            Lane(comm if n == 0 else comm.aside(_context_of(("lane", n))), f"{comm.rank}.{n}")
            for n in range(LANES if len(comm.hosts) > 1 else 1)
        ]
        self._crew = Crew(f"ddp_lab callbacks {comm.rank}/{comm.size}")

    def getBackendName(self) -> str:
        """Return the name under which this backend is registered."""
        return "ddp_lab"

    def name(self) -> str:
        """Return the same."""
        return "ddp_lab"

    def setGroupName(self, name: str) -> None:
        """Keep the name that torch gives to the group."""
        self._group_name = name

    def getGroupName(self) -> str:
        """Return the name that torch gave to the group."""
        return self._group_name

    _set_group_name = setGroupName
    group_name = property(getGroupName)

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def _submit(self, job: Callable[[Communicator], Any], result: Any, opts: Any = None) -> Any:
        """Run `job` behind all earlier ones; return torch's work for it.

        Who waits at once anyway (`asyncOp` is false) runs it itself, if nobody is ahead. What a
        callback calls passes by all others; see `torch_future`.
        """
        name = name_of_call()
        number = 0 if name else next(self._calls)
        lane = self._lanes[number % len(self._lanes)]
        comm = self.comm.aside(_context_of(name)) if name else lane.comm
        waits = not getattr(opts, "asyncOp", True)

        def run() -> None:
            with self._limited():
                job(comm)

        handle = Handle()
        if waits and (name or not lane.worker.busy):
            handle.run(run)
        else:
            site = headers.call_site()  # a thread of ours has no line of the program's

            def run_there() -> None:
                headers.stand_at(site)
                run()

            if name:
                self._crew.run(lambda: handle.run(run_there))
            else:
                handle = lane.last = lane.worker.submit(run_there)
        if not isinstance(result, Result):
            result = Result(result)
        return Running(handle, result, name or (self._group_name, number), self._crew)

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Have what this thread waits for end with the group's timeout."""
        board = self.comm._board
        if board is None:
            yield
            return
        board.allow(self._timeout_s)
        try:
            yield
        finally:
            board.allow(float("inf"))

    def empty(self, numel: int, dtype: torch.dtype) -> torch.Tensor:
        """Return a flat tensor that collectives read and write where it lies, if there is room."""
        try:
            flat: torch.Tensor = self.comm.empty((numel,), dtype)
        except OutOfSharedMemory:
            return torch.empty(numel, dtype=dtype)
        return flat

    @eager
    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> Any:
        """Reduce each tensor over all ranks, in place."""
        op = operation_of(opts.reduceOp if opts is not None else dist.ReduceOp.SUM)

        def job(comm: Communicator) -> None:
            for tensor in tensors:
                _reduce_in_place(comm, tensor, op)

        return self._submit(job, tensors, opts)

    @eager
    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any = None) -> Any:
        """Reduce several tensors."""
        return self.allreduce(tensors, opts)

    @eager
    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        """Copy the root's tensor to every rank."""
        root = opts.rootRank

        def job(comm: Communicator) -> None:
            algorithm = algorithm_of("broadcast")
            for tensor in tensors:
                got = comm.broadcast(tensor, root, algorithm=algorithm)
                if comm.rank != root:
                    fill(tensor, got)

        return self._submit(job, tensors, opts)

    @eager
    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        """Reduce at the root, in place."""
        op, root = operation_of(opts.reduceOp), opts.rootRank

        def job(comm: Communicator) -> None:
            for tensor in tensors:
                got = comm.reduce(tensor, root, op=op, algorithm=algorithm_of("reduce"))
                if got is not None:
                    fill(tensor, got)

        return self._submit(job, tensors, opts)

    @eager
    def allgather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None
    ) -> Any:
        """Fill `outputs[i][r]` with rank r's `inputs[i]`."""

        def job(comm: Communicator) -> None:
            for output, tensor in zip(outputs, inputs, strict=True):
                fill_all(output, _gathered(comm, tensor, output))

        return self._submit(job, Gathered(outputs), opts)

    @eager
    def allgather_coalesced(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None
    ) -> Any:
        """Fill `outputs[r][i]` with rank r's `inputs[i]`."""
        by_input = [list(row) for row in zip(*outputs, strict=True)]
        return self.allgather(by_input, inputs, opts)

    @eager
    def all_gather_single(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None
    ) -> Any:
        """Fill `output` with all ranks' tensors, one after the other."""
        return self._submit(
            lambda comm: fill(output, comm.all_gather(tensor).reshape(output.shape)),
            [output],
            opts,
        )

    _allgather_base = all_gather_single

    @eager
    def all_gather_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> Any:
        """Gather several tensors, as `all_gather_single` does each."""

        def job(comm: Communicator) -> None:
            for output, tensor in zip(outputs, inputs, strict=True):
                fill(output, comm.all_gather(tensor).reshape(output.shape))

        return self._submit(job, outputs, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    @eager
    def reduce_scatter(
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any
    ) -> Any:
        """Fill `outputs[i]` with the reduction of all ranks' `inputs[i][rank]`."""
        op = operation_of(opts.reduceOp)

        def job(comm: Communicator) -> None:
            for output, parts in zip(outputs, inputs, strict=True):
                if all(part.shape == output.shape for part in parts):
                    fill(output, comm.reduce_scatter(torch.stack(parts), op=op))
                else:
                    flat = torch.cat([part.reshape(-1) for part in parts])
                    sizes = [part.numel() for part in parts]
                    mine = comm.all_reduce(flat, op=op).split(sizes)[comm.rank]
                    fill(output, mine.reshape(output.shape))

        return self._submit(job, outputs, opts)

    @eager
    def reduce_scatter_single(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None
    ) -> Any:
        """Fill `output` with this rank's part of the reduction of `tensor`."""
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    _reduce_scatter_base = reduce_scatter_single

    @eager
    def reduce_scatter_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> Any:
        """Reduce and scatter several tensors."""
        op = operation_of(opts.reduceOp if opts is not None else dist.ReduceOp.SUM)

        def job(comm: Communicator) -> None:
            for output, tensor in zip(outputs, inputs, strict=True):
                rows = tensor.reshape(comm.size, -1)
                fill(output, comm.reduce_scatter(rows, op=op).reshape(output.shape))

        return self._submit(job, outputs, opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    @eager
    def gather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any
    ) -> Any:
        """Fill `outputs[i][r]` at the root with rank r's `inputs[i]`."""
        root = opts.rootRank

        def job(comm: Communicator) -> None:
            for i, tensor in enumerate(inputs):
                rows = comm.gather(tensor, root, algorithm=algorithm_of("gather"))
                if rows is not None:
                    fill_all(outputs[i], list(rows))

        return self._submit(job, outputs, opts)

    @eager
    def scatter(
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any
    ) -> Any:
        """Fill `outputs[i]` with the root's `inputs[i][rank]`."""
        root = opts.rootRank

        def job(comm: Communicator) -> None:
            for i, output in enumerate(outputs):
                parts = inputs[i] if comm.rank == root else None
                fill(output, comm.scatter(parts, root))

        return self._submit(job, outputs, opts)

    @eager
    def alltoall(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> Any:
        """Fill `outputs[r]` with what rank r has for this one."""

        def job(comm: Communicator) -> None:
            dtype = outputs[0].dtype
            fill_all(outputs, _uneven(comm, inputs, dtype))

        return self._submit(job, outputs, opts)

    @eager
    def all_to_all_single(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        output_sizes: list[int],
        input_sizes: list[int],
        opts: Any = None,
    ) -> Any:
        """Exchange rows of the first axis; sizes say how many for whom, equal if empty."""
        size = self.comm.size
        outputs = torch.split(output, output_sizes or [output.shape[0] // size] * size)
        inputs = torch.split(tensor, input_sizes or [tensor.shape[0] // size] * size)
        return self.alltoall(list(outputs), list(inputs), opts)

    alltoall_base = all_to_all_single

    @eager
    def barrier(self, opts: Any = None) -> Any:
        """Complete once every rank has called it."""
        before = [lane.last for lane in self._lanes]

        def job(comm: Communicator) -> None:
            for handle in before:
                handle.exception()  # waits for its end
            comm.barrier()

        return self._submit(job, None, opts)

    @eager
    def monitored_barrier(
        self, timeout: timedelta | float | None = None, wait_all_ranks: bool = False
    ) -> None:
        """Return once every rank has called it; name those that have not in time."""
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        name = ("monitored_barrier", self._group_name, next(self._barriers))
        limit_s = self._timeout_s if seconds is None else seconds
        monitored_barrier(self.comm.aside(_context_of(name)), limit_s, wait_all_ranks)

    @eager
    def send(self, tensors: list[torch.Tensor], dst: int, tag: int) -> Any:
        """Send one tensor."""
        (tensor,) = tensors
        with self._limited():
            self.comm.on_channel(_channel(self.comm, tag)).send(tensor, dst)
        future: Future[Any] = Future()
        future.set_result(tensors)
        return create_work(future)

    @eager
    def recv(self, tensors: list[torch.Tensor], src: int, tag: int) -> Received:
        """Receive into one tensor."""
        (tensor,) = tensors
        comm = self.comm.on_channel(_channel(self.comm, tag))
        return Received(tensor, comm, src)

    @eager
    def recv_anysource(self, tensors: list[torch.Tensor], tag: int) -> Received:
        """Receive into one tensor from whichever rank sends first."""
        (tensor,) = tensors
        return Received(tensor, self.comm.on_channel(_channel(self.comm, tag)), None)

    def shutdown(self) -> None:
        """Release the transport, once what is under way has ended, callbacks too."""
        give_up = time.monotonic() + self._timeout_s
        workers: list[Worker | Crew] = [*(lane.worker for lane in self._lanes), self._crew]
        while any(w.busy for w in workers) and (left_s := give_up - time.monotonic()) > 0:
            for worker in workers:
                worker.finish(left_s)
        self.comm._transport.close()


def _reduce_in_place(comm: Communicator, tensor: torch.Tensor, op: str) -> None:
    algorithm = algorithm_of("all_reduce")
    if tensor.is_sparse:
        _sum_sparse(comm, tensor, op)
    elif tensor.is_contiguous():
        detached = tensor.detach()
        comm.all_reduce(detached, op=op, algorithm=algorithm, out=detached)
    else:
        fill(tensor, comm.all_reduce(tensor, op=op, algorithm=algorithm))


def _sum_sparse(comm: Communicator, tensor: torch.Tensor, op: str) -> None:
    if op not in ("sum", "avg"):
        raise InvalidArgument(
            f"all_reduce: sparse tensors can be added: got {op}, expected sum or avg. "
            "Convert them by to_dense() first."
        )
    own = tensor.detach().coalesce()
    indices = _uneven(comm, [own.indices()] * comm.size, torch.int64)
    values = _uneven(comm, [own.values()] * comm.size, tensor.dtype)
    whole = torch.sparse_coo_tensor(torch.cat(indices, 1), torch.cat(values), tensor.shape)
    if op == "avg":
        whole = whole / comm.size
    with torch.no_grad():
        tensor.copy_(whole.coalesce())


def _gathered(
    comm: Communicator, tensor: torch.Tensor, outputs: list[torch.Tensor]
) -> list[torch.Tensor]:
    if all(output.shape == tensor.shape for output in outputs):
        return list(comm.all_gather(tensor, algorithm=algorithm_of("all_gather")))
    return _uneven(comm, [tensor] * comm.size, tensor.dtype)


def _context_of(name: Name) -> int:
    """Return a context that belongs to the collective of this name alone, far above all others."""
    digest = hashlib.blake2b(repr(name).encode(), digest_size=7).digest()
    return 1 << 60 | int.from_bytes(digest)


def _channel(comm: Communicator, tag: int) -> int:
    """Return the channel of a tag: tags are told apart, as torch has it."""
    return 2 * ((tag << 20) + comm._context)


def _uneven(
    comm: Communicator, parts: list[torch.Tensor], dtype: torch.dtype
) -> list[torch.Tensor]:
    """Return what each rank has for this one, whatever the sizes, by messages."""
    others = [(comm.rank + k) % comm.size for k in range(1, comm.size)]
    inner = comm.on_channel(2 * comm._context + 1)
    for dst in others:
        inner.send(parts[dst], dst)
    got = {src: inner.recv(src) for src in others}
    return [parts[r] if r == comm.rank else got[r].to(dtype) for r in range(comm.size)]
