"""A torch process group whose collectives are those of a `Communicator`.

The methods are the ones that torch calls, by its names and with its arguments; the older names of
some of them stand beside the newer ones.
"""

import itertools
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd.profiler import record_function
from torch.futures import Future

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument, OutOfSharedMemory
from ddp_lab.torch_backend.call_order import CallOrder, context_of
from ddp_lab.torch_backend.eager import eager
from ddp_lab.torch_backend.monitored_barrier import monitored_barrier
from ddp_lab.torch_backend.overloads import collective, operation_name
from ddp_lab.torch_backend.rendezvous import Roster
from ddp_lab.torch_backend.tensor_collectives import (
    algorithm_of,
    broadcast_in_place,
    can_write_directly,
    exchange_uneven,
    gather_all,
    gather_flat,
    only_tensor,
    part_a_rank,
    reduce_at_root,
    reduce_in_place,
    require_one_per_rank,
    rows_by_rank,
    scatter_sum,
)
from ddp_lab.torch_backend.work import Gathered, Limit, Received, fill, fill_all

# torch's own signatures are overloaded, and differ between its versions.
TorchGroup: Any = dist.ProcessGroup
create_work: Any = torch._C._distributed_c10d._create_work_from_future  # type: ignore[attr-defined]


OPERATIONS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "avg",
    dist.ReduceOp.PRODUCT: "prod",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.BAND: "band",
    dist.ReduceOp.BOR: "bor",
    dist.ReduceOp.BXOR: "bxor",
}


def operation_of(op: Any) -> str:
    """Return our name of a torch reduction.

    Raises:
        InvalidArgument: it has none, as PREMUL_SUM.
    """
    kind = getattr(op, "op", op)  # PREMUL_SUM holds a factor besides
    if kind not in OPERATIONS:
        raise InvalidArgument(
            f"ddp_lab backend: unknown reduction: got {kind}, expected one of "
            f"{', '.join(OPERATIONS.values())}. Scale the tensor before a sum."
        )
    return OPERATIONS[kind]


class ProcessGroup(TorchGroup):  # type: ignore[misc]
    """A group of ranks over a `Communicator`."""

    def __init__(self, comm: Communicator, timeout_s: float, roster: Roster, store: Any) -> None:
        super().__init__(comm.rank, comm.size)
        self.comm = comm
        self.roster = roster  # what its ranks know of each other
        self._store = store  # through which they met
        self._timeout_s = timeout_s
        self._barriers = itertools.count()
        self._order = CallOrder(comm)
        sent: Future[Any] = Future()
        sent.set_result([])
        self._sent = create_work(sent)  # of every message: it is out when `send` returns

    def getBackendName(self) -> str:
        """Return the name under which this backend is registered."""
        return "ddp_lab"

    name = getBackendName

    def setGroupName(self, name: str) -> None:
        """Keep the name that torch gives to the group."""
        self._order.group_name = name

    def getGroupName(self) -> str:
        """Return the name that torch gave to the group."""
        return self._order.group_name

    def get_group_store(self) -> Any:
        """Return the store through which its ranks met."""
        return self._store

    def _get_sequence_number_for_group(self) -> int:
        """Return how many collectives this rank has called."""
        return self._order.calls

    def _set_sequence_number_for_group(self) -> None:
        """Do nothing: all ranks count from 0."""

    _set_group_name = setGroupName
    group_name = property(getGroupName)

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def _get_backend(self, device: torch.device) -> "ProcessGroup":
        """Return what does the collectives of a device's tensors: this group."""
        if device.type == "cpu":
            return self
        raise RuntimeError(f"ddp_lab backend: tensors of {device} have none: expected cpu.")

    def set_timeout(self, timeout: timedelta) -> None:
        """Let whatever is called from now on end after this time."""
        self._timeout_s = timeout.total_seconds()

    _set_default_timeout = set_timeout

    def _submit_each(
        self, collective: Callable[..., Any], opts: Any, tensors: Any, *lists: Any, **how: Any
    ) -> Any:
        """Submit a job that calls `collective(comm, ...)` at each place of the lists."""

        def job(comm: Communicator) -> None:
            for arguments in zip(*lists, strict=True):
                collective(comm, *arguments, **how)

        return self._submit(job, tensors, opts)

    def _submit(self, job: Callable[[Communicator], Any], tensors: Any, opts: Any) -> Any:
        """Run `job` in its place in the order of calls; return torch's work for it."""
        own_s = opts.timeout.total_seconds()  # below 0: not set
        limit_s = own_s if own_s > 0 else self._timeout_s
        waits = not getattr(opts, "asyncOp", True)
        submit = partial(self._order.submit, job, tensors, waits, limit_s, is_own=own_s > 0)
        if not torch.autograd._profiler_enabled():  # type: ignore[attr-defined]
            return submit()
        ended: Future[Any] = Future()
        with record_function(f"ddp_lab:{operation_name(opts)}") as event:
            event._call_end_callbacks_on_future(ended)
            return submit(at_end=lambda: ended.set_result(None))

    def empty(self, numel: int, dtype: torch.dtype) -> torch.Tensor:
        """Return a flat tensor that collectives read and write where it lies, if there is room."""
        try:
            flat: torch.Tensor = self.comm.empty((numel,), dtype)
        except OutOfSharedMemory:
            return torch.empty(numel, dtype=dtype)
        return flat

    @collective("Allreduce", "op")
    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        """Reduce each tensor over all ranks, in place."""
        op = operation_of(opts.reduceOp)
        return self._submit_each(reduce_in_place, opts, tensors, tensors, op=op)

    @collective("AllreduceCoalesced", "op")
    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        """Reduce several tensors."""
        return self.allreduce(tensors, opts)

    @collective("Broadcast", "root")
    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        """Copy the root's tensor to every rank."""
        root = opts.rootRank
        return self._submit_each(broadcast_in_place, opts, tensors, tensors, root=root)

    @collective("Reduce", "root", "op")
    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        """Reduce at the root, in place."""
        op, root = operation_of(opts.reduceOp), opts.rootRank
        return self._submit_each(reduce_at_root, opts, tensors, tensors, root=root, op=op)

    @collective("Allgather", tensors=2)
    def allgather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any
    ) -> Any:
        """Fill `outputs[i][r]` with rank r's `inputs[i]`."""
        for output in outputs:
            require_one_per_rank("all_gather", output, self.comm.size)
        return self._submit_each(gather_all, opts, Gathered(outputs), inputs, outputs)

    @collective("Allgather", tensors=2)
    def allgather_coalesced(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any
    ) -> Any:
        """Fill `outputs[r][i]` with rank r's `inputs[i]`."""
        by_input = [list(row) for row in zip(*outputs, strict=True)]
        return self.allgather(by_input, inputs, opts)

    @collective("Allgather", tensors=2, in_lists=False)
    def all_gather_single(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any) -> Any:
        """Fill `output` with all ranks' tensors, one after the other."""
        return self.all_gather_single_coalesced([output], [tensor], opts)

    _allgather_base = all_gather_single

    @collective("Allgather", tensors=2)
    def all_gather_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any
    ) -> Any:
        """Gather several tensors, as `all_gather_single` does each."""
        for output, tensor in zip(outputs, inputs, strict=True):
            part_a_rank("all_gather", output, tensor, self.comm.size)
        return self._submit_each(gather_flat, opts, outputs, inputs, outputs)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    @collective("ReduceScatter", "op", tensors=2)
    def reduce_scatter(
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any
    ) -> Any:
        """Fill `outputs[i]` with the reduction of all ranks' `inputs[i][rank]`."""
        op = operation_of(opts.reduceOp)
        for parts in inputs:
            require_one_per_rank("reduce_scatter", parts, self.comm.size)

        def scatter_parts(
            comm: Communicator, parts: list[torch.Tensor], output: torch.Tensor
        ) -> None:
            rows = [part.detach().reshape(-1) for part in parts]
            if all(part.shape == output.shape for part in parts):
                flat = self.empty(comm.size * output.numel(), output.dtype)
                scatter_sum(comm, torch.cat(rows, out=flat), output, op)
            else:
                flat = torch.cat(rows)
                sizes = [part.numel() for part in parts]
                mine = comm.all_reduce(flat, op=op).split(sizes)[comm.rank]
                fill(output, mine.reshape(output.shape))

        return self._submit_each(scatter_parts, opts, outputs, inputs, outputs)

    @collective("ReduceScatter", "op", tensors=2, in_lists=False)
    def reduce_scatter_single(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any) -> Any:
        """Fill `output` with this rank's part of the reduction of `tensor`."""
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    _reduce_scatter_base = reduce_scatter_single

    @collective("ReduceScatter", "op", tensors=2)
    def reduce_scatter_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any
    ) -> Any:
        """Reduce and scatter several tensors."""
        op = operation_of(opts.reduceOp)
        for output, tensor in zip(outputs, inputs, strict=True):
            part_a_rank("reduce_scatter", tensor, output, self.comm.size)
        return self._submit_each(scatter_sum, opts, outputs, inputs, outputs, op=op)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    @collective("Gather", "root", tensors=2)
    def gather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any
    ) -> Any:
        """Fill `outputs[i][r]` at the root with rank r's `inputs[i]`."""
        root = opts.rootRank
        for output in outputs:
            require_one_per_rank("gather", output, self.comm.size)

        def job(comm: Communicator) -> None:
            for i, tensor in enumerate(inputs):
                out = (
                    outputs[i]
                    if comm.rank == root and can_write_directly(outputs[i], tensor)
                    else None
                )
                rows = comm.gather(tensor, root, algorithm=algorithm_of("gather"), out=out)
                if rows is not None and out is None:
                    fill_all(outputs[i], list(rows), "gather")

        return self._submit(job, outputs, opts)

    @collective("Scatter", "root", tensors=2)
    def scatter(
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any
    ) -> Any:
        """Fill `outputs[i]` with the root's `inputs[i][rank]`."""
        root = opts.rootRank

        def job(comm: Communicator) -> None:
            for i, output in enumerate(outputs):
                parts = inputs[i] if comm.rank == root else None
                fill(output, comm.scatter(parts, root), f"scatter: the part of rank {root}")

        return self._submit(job, outputs, opts)

    @collective("AllToAll", tensors=2)
    def alltoall(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any) -> Any:
        """Fill `outputs[r]` with what rank r has for this one."""

        for tensors in (outputs, inputs):
            require_one_per_rank("all_to_all", tensors, self.comm.size)

        def job(comm: Communicator) -> None:
            fill_all(outputs, exchange_uneven(comm, "all_to_all", inputs), "all_to_all")

        return self._submit(job, outputs, opts)

    @collective("AllToAll", tensors=4, in_lists=False)
    def all_to_all_single(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        output_sizes: list[int],
        input_sizes: list[int],
        opts: Any,
    ) -> Any:
        """Exchange rows of the first axis; sizes say how many for whom, equal if empty."""
        outputs = rows_by_rank(output, output_sizes, self.comm.size)
        inputs = rows_by_rank(tensor, input_sizes, self.comm.size)
        return self.alltoall(outputs, inputs, opts)

    alltoall_base = all_to_all_single

    @collective("Barrier", tensors=0)
    def barrier(self, opts: Any) -> Any:
        """Complete once every rank has called it."""
        earlier = self._order.under_way()

        def job(comm: Communicator) -> None:
            for handle in earlier:
                handle.exception()  # waits for its end
            comm.barrier()

        return self._submit(job, None, opts)

    @eager
    def monitored_barrier(
        self, timeout: timedelta | float | None = None, wait_all_ranks: bool = False
    ) -> None:
        """Return once every rank has called it; name those that have not in time."""
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        name = ("monitored_barrier", self.group_name, next(self._barriers))
        limit_s = self._timeout_s if seconds is None else seconds
        monitored_barrier(self.comm.aside(context_of(name)), limit_s, wait_all_ranks)

    @eager
    def send(self, tensors: list[torch.Tensor], dstRank: int, tag: int) -> Any:
        """Send one tensor."""
        tensor = only_tensor("send", tensors)
        with Limit(self.comm, self._timeout_s, is_own=False):
            self._tagged(tag).isend(tensor, dstRank)
        return self._sent

    @eager
    def recv(self, tensors: list[torch.Tensor], srcRank: int, tag: int) -> Received:
        """Receive into one tensor."""
        return Received(only_tensor("recv", tensors), self._tagged(tag), srcRank, self._timeout_s)

    @eager
    def recv_anysource(self, tensors: list[torch.Tensor], tag: int) -> Received:
        """Receive into one tensor from whichever rank sends first."""
        return Received(only_tensor("recv", tensors), self._tagged(tag), None, self._timeout_s)

    def _tagged(self, tag: int) -> Communicator:
        """Return a communicator for messages with this tag: they are told apart, as over gloo."""
        comm = self.comm
        return comm if tag == 0 else comm.on_channel(2 * ((tag << 20) + comm._context))

    def shutdown(self) -> None:
        """Release the transport, once what is under way has ended, callbacks too."""
        self._order.finish(self._timeout_s)
        self.comm._transport.close()
