"""Collectives of tensors of any layout: not contiguous, sparse, or of another size on each rank.

`use_algorithm` chooses how they are done in this process.

May import: torch, communicator, errors, work.
"""

import torch

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument
from ddp_lab.torch_backend.work import fill

ALGORITHMS: dict[str, str] = {}


def algorithm_of(collective: str) -> str:
    """Return the algorithm that this process uses for a collective."""
    return ALGORITHMS.get(collective, "auto")


def reduce_in_place(comm: Communicator, tensor: torch.Tensor, op: str) -> None:
    """Overwrite a tensor, dense or sparse, with the reduction over all ranks."""
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
    indices = exchange_uneven(comm, [own.indices()] * comm.size, torch.int64)
    values = exchange_uneven(comm, [own.values()] * comm.size, tensor.dtype)
    whole = torch.sparse_coo_tensor(torch.cat(indices, 1), torch.cat(values), tensor.shape)
    if op == "avg":
        whole = whole / comm.size
    with torch.no_grad():
        tensor.copy_(whole.coalesce())


def gather_all(
    comm: Communicator, tensor: torch.Tensor, outputs: list[torch.Tensor]
) -> list[torch.Tensor]:
    """Return every rank's tensor; `outputs` tell their shapes, which may differ."""
    if all(output.shape == tensor.shape for output in outputs):
        return list(comm.all_gather(tensor, algorithm=algorithm_of("all_gather")))
    return exchange_uneven(comm, [tensor] * comm.size, tensor.dtype)


def exchange_uneven(
    comm: Communicator, parts: list[torch.Tensor], dtype: torch.dtype
) -> list[torch.Tensor]:
    """Return what each rank has for this one, whatever the sizes, by messages."""
    others = [(comm.rank + k) % comm.size for k in range(1, comm.size)]
    inner = comm.on_channel(2 * comm._context + 1)
    for dst in others:
        inner.send(parts[dst], dst)
    received = {src: inner.recv(src).to(dtype) for src in others}
    return [parts[r] if r == comm.rank else received[r] for r in range(comm.size)]
