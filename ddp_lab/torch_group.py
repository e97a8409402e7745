"""A torch process group whose collectives are those of a `Communicator`.

The methods are the ones that torch calls, by its names and with its arguments; the older names of
some of them stand beside the newer ones.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.futures import Future

from ddp_lab.communicator import Communicator
from ddp_lab.errors import InvalidArgument, OutOfSharedMemory
from ddp_lab.handle import Handle, Worker
from ddp_lab.torch_work import Received, Running, fill, fill_all
from ddp_lab.transport.shm_board import ShmBoard

# torch's own signatures are overloaded, and differ between its versions.
TorchGroup: Any = dist.ProcessGroup
create_work: Any = torch._C._distributed_c10d._create_work_from_future  # type: ignore[attr-defined]

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


class ProcessGroup(TorchGroup):  # type: ignore[misc]
    """A group of ranks over a `Communicator`."""

    def __init__(self, comm: Communicator, timeout_s: float) -> None:
        super().__init__(comm.rank, comm.size)
        self.comm = comm
        self._timeout_s = timeout_s
        self._group_name = ""
        self._worker = Worker(f"ddp_lab group {comm.rank}/{comm.size}")

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

    def _submit(self, job: Callable[[], Any], result: Any, opts: Any = None) -> Any:
        """Run `job` behind all earlier ones; return torch's work for it.

        Who waits at once anyway (`asyncOp` is false) runs it itself, if nobody is ahead.
        """
        board = self.comm._board

        def run() -> None:
            if isinstance(board, ShmBoard):
                board.allow(self._timeout_s)
            job()

        if getattr(opts, "asyncOp", True) or self._worker.busy:
            return Running(self._worker.submit(run), result)
        handle = Handle()
        handle.run(run)
        return Running(handle, result)

    def empty(self, numel: int, dtype: torch.dtype) -> torch.Tensor:
        """Return a flat tensor that collectives read and write where it lies, if there is room."""
        try:
            flat: torch.Tensor = self.comm.empty((numel,), dtype)
        except OutOfSharedMemory:
            return torch.empty(numel, dtype=dtype)
        return flat

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> Any:
        """Reduce each tensor over all ranks, in place."""
        op = operation_of(opts.reduceOp if opts is not None else dist.ReduceOp.SUM)

        def job() -> None:
            for tensor in tensors:
                self._reduce_in_place(tensor, op)

        return self._submit(job, tensors, opts)

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any = None) -> Any:
        """Reduce several tensors."""
        return self.allreduce(tensors, opts)

    def _reduce_in_place(self, tensor: torch.Tensor, op: str) -> None:
        algorithm = algorithm_of("all_reduce")
        if tensor.is_contiguous() and not tensor.is_sparse:
            detached = tensor.detach()
            self.comm.all_reduce(detached, op=op, algorithm=algorithm, out=detached)
        else:
            fill(tensor, self.comm.all_reduce(tensor, op=op, algorithm=algorithm))

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        """Copy the root's tensor to every rank."""
        root = opts.rootRank

        def job() -> None:
            algorithm = algorithm_of("broadcast")
            for tensor in tensors:
                got = self.comm.broadcast(tensor, root, algorithm=algorithm)
                if self.comm.rank != root:
                    fill(tensor, got)

        return self._submit(job, tensors, opts)

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        """Reduce at the root, in place."""
        op, root = operation_of(opts.reduceOp), opts.rootRank

        def job() -> None:
            for tensor in tensors:
                got = self.comm.reduce(tensor, root, op=op, algorithm=algorithm_of("reduce"))
                if got is not None:
                    fill(tensor, got)

        return self._submit(job, tensors, opts)

    def allgather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None
    ) -> Any:
        """Fill `outputs[i][r]` with rank r's `inputs[i]`."""

        def job() -> None:
            for output, tensor in zip(outputs, inputs, strict=True):
                fill_all(output, self._gathered(tensor, output))

        return self._submit(job, outputs, opts)

    def _gathered(self, tensor: torch.Tensor, outputs: list[torch.Tensor]) -> list[torch.Tensor]:
        if all(output.shape == tensor.shape for output in outputs):
            return list(self.comm.all_gather(tensor, algorithm=algorithm_of("all_gather")))
        return _uneven(self.comm, [tensor] * self.comm.size, tensor.dtype)

    def allgather_coalesced(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None
    ) -> Any:
        """Fill `outputs[r][i]` with rank r's `inputs[i]`."""
        by_input = [list(row) for row in zip(*outputs, strict=True)]
        return self.allgather(by_input, inputs, opts)

    def all_gather_single(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None
    ) -> Any:
        """Fill `output` with all ranks' tensors, one after the other."""
        return self._submit(
            lambda: fill(output, self.comm.all_gather(tensor).reshape(output.shape)),
            [output],
            opts,
        )

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> Any:
        """Gather several tensors, as `all_gather_single` does each."""

        def job() -> None:
            for output, tensor in zip(outputs, inputs, strict=True):
                fill(output, self.comm.all_gather(tensor).reshape(output.shape))

        return self._submit(job, outputs, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def reduce_scatter(
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any
    ) -> Any:
        """Fill `outputs[i]` with the reduction of all ranks' `inputs[i][rank]`."""
        op = operation_of(opts.reduceOp)

        def job() -> None:
            for output, parts in zip(outputs, inputs, strict=True):
                if all(part.shape == output.shape for part in parts):
                    fill(output, self.comm.reduce_scatter(torch.stack(parts), op=op))
                else:
                    flat = torch.cat([part.reshape(-1) for part in parts])
                    sizes = [part.numel() for part in parts]
                    mine = self.comm.all_reduce(flat, op=op).split(sizes)[self.comm.rank]
                    fill(output, mine.reshape(output.shape))

        return self._submit(job, outputs, opts)

    def reduce_scatter_single(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None
    ) -> Any:
        """Fill `output` with this rank's part of the reduction of `tensor`."""
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> Any:
        """Reduce and scatter several tensors."""
        op = operation_of(opts.reduceOp if opts is not None else dist.ReduceOp.SUM)

        def job() -> None:
            for output, tensor in zip(outputs, inputs, strict=True):
                rows = tensor.reshape(self.comm.size, -1)
                fill(output, self.comm.reduce_scatter(rows, op=op).reshape(output.shape))

        return self._submit(job, outputs, opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def gather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any
    ) -> Any:
        """Fill `outputs[i][r]` at the root with rank r's `inputs[i]`."""
        root = opts.rootRank

        def job() -> None:
            for i, tensor in enumerate(inputs):
                rows = self.comm.gather(tensor, root, algorithm=algorithm_of("gather"))
                if rows is not None:
                    fill_all(outputs[i], list(rows))

        return self._submit(job, outputs, opts)

    def scatter(
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any
    ) -> Any:
        """Fill `outputs[i]` with the root's `inputs[i][rank]`."""
        root = opts.rootRank

        def job() -> None:
            for i, output in enumerate(outputs):
                parts = inputs[i] if self.comm.rank == root else None
                fill(output, self.comm.scatter(parts, root))

        return self._submit(job, outputs, opts)

    def alltoall(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> Any:
        """Fill `outputs[r]` with what rank r has for this one."""

        def job() -> None:
            dtype = outputs[0].dtype
            fill_all(outputs, _uneven(self.comm, inputs, dtype))

        return self._submit(job, outputs, opts)

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

    def barrier(self, opts: Any = None) -> Any:
        """Complete once every rank has called it."""
        return self._submit(self.comm.barrier, None, opts)

    def send(self, tensors: list[torch.Tensor], dst: int, tag: int) -> Any:
        """Send one tensor."""
        (tensor,) = tensors
        channel = _channel(self.comm, tag)
        self.comm.on_channel(channel).send(tensor, dst)
        future: Future[Any] = Future()
        future.set_result(tensors)
        return create_work(future)

    def recv(self, tensors: list[torch.Tensor], src: int, tag: int) -> Received:
        """Receive into one tensor."""
        (tensor,) = tensors
        comm = self.comm.on_channel(_channel(self.comm, tag))
        return Received(tensor, comm, src)

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int) -> Received:
        """Receive into one tensor from whichever rank sends first."""
        (tensor,) = tensors
        return Received(tensor, self.comm.on_channel(_channel(self.comm, tag)), None)

    def shutdown(self) -> None:
        """Release the transport."""
        self.comm._transport.close()


def _channel(comm: Communicator, tag: int) -> int:
    """Return the channel of a tag: tags are told apart, as torch has it."""
    return 2 * ((tag << 20) + comm._context)


def _uneven(
    comm: Communicator, parts: list[torch.Tensor], dtype: torch.dtype
) -> list[torch.Tensor]:
    """Return what each rank has for this one, whatever the sizes: by messages, not meetings."""
    others = [(comm.rank + k) % comm.size for k in range(1, comm.size)]
    inner = comm.on_channel(2 * comm._context + 1)
    for dst in others:
        inner.send(parts[dst], dst)
    got = {src: inner.recv(src) for src in others}
    return [parts[r] if r == comm.rank else got[r].to(dtype) for r in range(comm.size)]
