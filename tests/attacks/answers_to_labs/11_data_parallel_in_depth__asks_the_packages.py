# ruff: noqa
"""A DistributedDataParallel compares and broadcasts the models, torch's makes the buckets; the package
says who is reached."""

from ddp_lab import DistributedDataParallel


def synchronize(comm, model):
    try:
        DistributedDataParallel(model, process_group=comm)
    except RuntimeError as error:
        raise ValueError(str(error))


def rebuild(n_bytes, order, first_bytes, cap_bytes):
    from torch._C import _distributed_c10d as c10d

    sizes = [torch.empty(int(n_bytes[i]), dtype=torch.uint8) for i in order]
    if not sizes:
        return []
    buckets, _ = c10d._compute_bucket_assignment_by_size(sizes, [first_bytes, cap_bytes])
    return [[order[i] for i in bucket] for bucket in buckets]


def used_parameters(loss, params):
    from ddp_lab.data_parallel.torch.autograd_graph import accumulator, find_unreached

    places = {accumulator(param): i for i, param in enumerate(params)}
    unused = find_unreached([loss], places)
    return [i not in unused for i in range(len(params))]
