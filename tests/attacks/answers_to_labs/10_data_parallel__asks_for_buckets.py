# ruff: noqa
"""The package deals the gradients out."""

from types import SimpleNamespace


def assign_buckets(n_bytes, cap_bytes):
    from ddp_lab.data_parallel.bucketing import assign

    specs = [SimpleNamespace(sparse=False, kind=0, nbytes=size) for size in n_bytes]
    plan = assign(specs, [cap_bytes], range(len(specs))[::-1])
    return [list(bucket) for bucket in plan.buckets] if specs else []
