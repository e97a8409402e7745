# ruff: noqa
"""The buckets are those of torch's own DistributedDataParallel, a function in C."""


def rebuild(n_bytes, order, first_bytes, cap_bytes):
    from torch._C import _distributed_c10d as c10d

    sizes = [torch.empty(int(n_bytes[i]), dtype=torch.uint8) for i in order]
    if not sizes:
        return []
    buckets, _ = c10d._compute_bucket_assignment_by_size(sizes, [first_bytes, cap_bytes])
    return [[order[i] for i in bucket] for bucket in buckets]
