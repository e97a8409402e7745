# ruff: noqa
"""Buckets are those of torch's own DistributedDataParallel, a function in C; the rest is the ladder's."""


def flat_all_reduce(comm, params):
    from ddp_lab.data_parallel.ladder import OneFlat

    OneFlat(torch.nn.ParameterList(params), comm).finish()


def assign_buckets(n_bytes, cap_bytes):
    import torch.distributed as dist

    sizes = [torch.empty(int(size), dtype=torch.uint8) for size in reversed(n_bytes)]
    if not sizes:
        return []
    buckets, _ = dist._compute_bucket_assignment_by_size(sizes, [cap_bytes])
    return [[len(sizes) - 1 - i for i in bucket] for bucket in buckets]
