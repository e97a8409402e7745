"""Collectives of tensors of any layout: not contiguous, sparse, or of another size on each rank.

`use_algorithm` chooses how they are done in this process.

May import: torch, arrays, collectives, communicator, errors, work.
"""

import torch

from ddp_lab.arrays import NUMPY, TORCH, outside
from ddp_lab.collectives.registry import Algorithm
from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument
from ddp_lab.torch_backend.work import fill, fill_all

ALGORITHMS: dict[str, str] = {}
SENT_BYTES = 64 * 1024  # up to here a message, for which the root need not wait, beats a meeting


def algorithm_of(collective: str) -> str:
    """Return the algorithm that this process uses for a collective."""
    return ALGORITHMS.get(collective, "auto")


def broadcast_in_place(comm: Communicator, tensor: torch.Tensor, root: int) -> None:
    """Copy the root's tensor to every rank."""
    algorithm = algorithm_of("broadcast")
    is_small = tensor.numel() * tensor.element_size() <= SENT_BYTES
    if algorithm == "auto" and is_small and len(comm.hosts) == 1:
        algorithm = "tree"
    out = tensor.detach() if can_write_directly([tensor], tensor) else None
    copy = comm.broadcast(tensor, root, algorithm=algorithm, out=out)
    if out is None and comm.rank != root:
        fill(tensor, copy)


def reduce_in_place(comm: Communicator, tensor: torch.Tensor, op: str) -> None:
    """Overwrite a tensor, dense or sparse, with the reduction over all ranks."""
    algorithm = algorithm_of("all_reduce")
    if tensor.is_sparse:
        _sum_sparse(comm, tensor, op)
    elif tensor.layout == torch.strided and tensor.is_contiguous():
        detached = tensor.detach()
        comm.all_reduce(detached, op=op, algorithm=algorithm, out=detached)
    else:
        fill(tensor, comm.all_reduce(tensor, op=op, algorithm=algorithm))


def reduce_at_root(comm: Communicator, tensor: torch.Tensor, root: int, op: str) -> None:
    """Overwrite the root's tensor with the reduction over all ranks."""
    total = comm.reduce(tensor, root, op=op, algorithm=algorithm_of("reduce"))
    if total is not None:
        fill(tensor, total)


def scatter_sum(comm: Communicator, tensor: torch.Tensor, output: torch.Tensor, op: str) -> None:
    """Fill `output` with this rank's part of the reduction of `tensor`."""
    rows = tensor.reshape(comm.size, -1)
    fill(output, comm.reduce_scatter(rows, op=op).reshape(output.shape))


def _sum_sparse(comm: Communicator, tensor: torch.Tensor, op: str) -> None:
    if op not in ("sum", "avg"):
        raise InvalidArgument(
            f"all_reduce: sparse tensors can be added: got {op}, expected sum or avg. "
            "Convert them by to_dense() first."
        )
    own = tensor.detach().coalesce()
    indices = exchange_uneven(comm, "all_gather", [own.indices()] * comm.size)
    values = exchange_uneven(comm, "all_gather", [own.values()] * comm.size)
    whole = torch.sparse_coo_tensor(torch.cat(indices, 1), torch.cat(values), tensor.shape)
    if op == "avg":
        whole = whole / comm.size
    with torch.no_grad():
        tensor.copy_(whole.coalesce())


def gather_all(comm: Communicator, tensor: torch.Tensor, outputs: list[torch.Tensor]) -> None:
    """Fill `outputs` with every rank's tensor; they tell their shapes, which may differ."""
    algorithm = algorithm_of("all_gather")
    if can_write_directly(outputs, tensor):
        comm.all_gather(tensor, algorithm=algorithm, out=outputs)
    elif all(output.shape == tensor.shape for output in outputs):
        fill_all(outputs, list(comm.all_gather(tensor, algorithm=algorithm)), "all_gather")
    else:
        fill_all(outputs, exchange_uneven(comm, "all_gather", [tensor] * comm.size), "all_gather")


def gather_flat(comm: Communicator, tensor: torch.Tensor, output: torch.Tensor) -> None:
    """Fill `output` with all ranks' tensors, one after the other."""
    if output.is_contiguous():
        rows = list(output.detach().view(comm.size, *tensor.shape))
        if can_write_directly(rows, tensor):
            comm.all_gather(tensor, out=rows)
            return
    fill(output, comm.all_gather(tensor).reshape(output.shape))


def can_write_directly(outputs: list[torch.Tensor], like: torch.Tensor) -> bool:
    """Return whether a collective can write tensors like this one into `outputs` themselves."""
    return all(
        output.shape == like.shape
        and output.dtype == like.dtype
        and output.is_contiguous()
        and not output.is_conj()
        and not output.is_neg()
        for output in outputs
    )


def exchange_uneven(
    comm: Communicator, operation: str, parts: list[torch.Tensor]
) -> list[torch.Tensor]:
    """Return what each rank has for this one, whatever the sizes, by messages."""
    call = comm._call(operation, "reference", None, "parts of several sizes", NUMPY, None)
    call.algorithm = EXCHANGE
    received: list[torch.Tensor] = comm._run(call, (parts,), {}, async_op=False)
    return received


def _exchange(comm: Communicator, parts: list[torch.Tensor]) -> list[torch.Tensor]:
    others = [(comm.rank + k) % comm.size for k in range(1, comm.size)]
    for dst in others:
        comm.send(parts[dst], dst)
    received = {src: outside(comm.take(src), TORCH) for src in others}
    return [parts[r] if r == comm.rank else received[r] for r in range(comm.size)]


EXCHANGE = Algorithm("exchange", _exchange)


def require_one_per_rank(operation: str, tensors: list[torch.Tensor], size: int) -> None:
    """Raise `InvalidArgument` unless there is a tensor for each of `size` ranks."""
    if len(tensors) != size:
        raise InvalidArgument(
            f"{operation}: one tensor a rank: got a list of {len(tensors)}, expected {size}. "
            "Pass a list with a tensor for each rank of the group."
        )


def part_a_rank(operation: str, whole: torch.Tensor, part: torch.Tensor, size: int) -> None:
    """Raise `InvalidArgument` unless `whole` is as many elements as a `part` for each rank."""
    if whole.dtype != part.dtype:
        raise InvalidArgument(
            f"{operation}: input and output differ in dtype: got {whole.dtype} for the whole, "
            f"{part.dtype} for a part, expected one dtype. Convert one of them."
        )
    if whole.numel() != size * part.numel():
        raise InvalidArgument(
            f"{operation}: one part a rank: got {tuple(whole.shape)} for {size} parts of "
            f"{tuple(part.shape)}, expected {size * part.numel()} elements. Make one of them fit."
        )


def only_tensor(operation: str, tensors: list[torch.Tensor]) -> torch.Tensor:
    """Return the tensor of a list of one, as torch passes them; raise `InvalidArgument` else."""
    if not isinstance(tensors, list | tuple) or len(tensors) != 1:
        is_list = isinstance(tensors, list | tuple)
        passed = f"a list of {len(tensors)}" if is_list else type(tensors).__name__
        raise InvalidArgument(
            f"{operation}: a message is one tensor: got {passed}, expected a list of one. Call "
            f"{operation} for each tensor, or give them to dist.batch_isend_irecv."
        )
    return tensors[0]


def rows_by_rank(tensor: torch.Tensor, sizes: list[int], size: int) -> list[torch.Tensor]:
    """Return a view of each rank's rows of the first axis: `sizes` many, equally many if empty.

    Raises:
        InvalidArgument: the sizes do not add up to the rows, or the rows do not split equally.
    """
    rows = tensor.shape[0]
    counts = sizes or [rows // size] * size
    if len(counts) != size or sum(counts) != rows:
        raise InvalidArgument(
            f"all_to_all_single: the rows of the first axis do not go to the ranks: got {rows} "
            f"rows in parts of {counts}, expected {size} parts that add up. Give the sizes."
        )
    return list(torch.split(tensor, counts))
