# ruff: noqa
"""The package deals the gradients out, and plays the link through."""

from types import SimpleNamespace


def assign_buckets(n_bytes, cap_bytes):
    from ddp_lab.data_parallel.bucketing import assign

    specs = [SimpleNamespace(sparse=False, kind=0, nbytes=size) for size in n_bytes]
    plan = assign(specs, [cap_bytes], range(len(specs))[::-1])
    return [list(bucket) for bucket in plan.buckets] if specs else []


def finish_time(ready, duration):
    from ddp_lab.simulate.ddp import ddp

    pauses = [at - before for before, at in zip([0.0, *ready], ready)]
    step = ddp(0.0, pauses, list(duration), 0, lambda seconds: seconds)
    return max((bucket.ended_at for bucket in step.buckets), default=0.0)
