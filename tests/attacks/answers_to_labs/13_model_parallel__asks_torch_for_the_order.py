# ruff: noqa
"""Orders are those that torch's pipelines make."""


def gpipe(rank, ranks, microbatches):
    from torch.distributed.pipelining.schedules import ScheduleGPipe

    made = object.__new__(ScheduleGPipe)
    made._n_microbatches, made.pp_group_size, made._num_stages = microbatches, ranks, ranks
    made.rank = rank
    return [str(step) for step in made._get_pipeline_order()[rank] if step is not None]


def one_f_one_b(rank, ranks, microbatches):
    from torch.distributed.pipelining.schedules import _get_1f1b_rank_ops

    ahead = min(ranks - rank, microbatches)
    counts = (ahead - 1, microbatches - ahead + 1, ahead - 1)
    steps = _get_1f1b_rank_ops(1, ranks, *counts, rank, lambda i: rank, lambda i: rank)
    return [str(step) for step in steps if step is not None]
